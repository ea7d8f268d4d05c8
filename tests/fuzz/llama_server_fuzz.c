/* Bodies of llama.cpp's own endpoints. */
#include "fuzz/body_fuzz.h"

BODY_FUZZ("/completion", "/tokenize", "/detokenize")
