#include "tensor/kv_type.h"

#include <string.h>

static const char *const NAMES[KV_TYPES] = {
    [KV_F16] = "f16", [KV_BF16] = "bf16", [KV_Q8] = "q8", [KV_Q4] = "q4", [KV_F32] = "f32"};

const char *kv_type_name(kv_type type)
{
    return NAMES[type];
}

status kv_type_find(const char *name, kv_type *out, error *err)
{
    for (uint32_t i = 0; i < KV_TYPES; i++)
        if (strcmp(name, NAMES[i]) == 0) {
            *out = (kv_type)i;
            return OK;
        }
    return error_set(err, ERR_INVALID, "'%s', want one of f16, bf16, q8, q4, f32", name);
}
