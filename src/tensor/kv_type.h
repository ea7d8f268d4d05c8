/* tensor/kv_type.h: what are the types of a KV cache called? "f16", "bf16", "q8", "q4", "f32". Pure; any thread. */
#ifndef HEADWAY_TENSOR_KV_TYPE_H
#define HEADWAY_TENSOR_KV_TYPE_H

#include "tensor/backend.h"

const char *kv_type_name(kv_type type);
/* ERR_INVALID says which there are. */
status kv_type_find(const char *name, kv_type *out, error *err);

#endif
