/* Bodies of OpenAI's Responses. */
#include "fuzz/body_fuzz.h"

BODY_FUZZ("/v1/responses")
