/* Bodies of Ollama's endpoints. */
#include "fuzz/body_fuzz.h"

BODY_FUZZ("/api/chat", "/api/generate", "/api/show")
