/* Bodies of Anthropic's endpoints. */
#include "fuzz/body_fuzz.h"

BODY_FUZZ("/v1/messages", "/v1/messages/count_tokens")
