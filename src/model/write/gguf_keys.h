/* model/write/gguf_keys.h: metadata of a GGUF file as it is written: keys in order, each once (the caller sees to it).
 * Owner: the caller; gguf_keys_free. One thread. After out of memory `text.failed` is set and later keys are dropped.
 */
#ifndef HEADWAY_MODEL_WRITE_GGUF_KEYS_H
#define HEADWAY_MODEL_WRITE_GGUF_KEYS_H

#include "base/buf.h"
#include "model/write/plan.h"

typedef struct {
    buf text; /* the keys as the file holds them */
    uint64_t count;
} gguf_keys;

void gguf_put_u32(gguf_keys *keys, const char *key, uint32_t value);
void gguf_put_u64(gguf_keys *keys, const char *key, uint64_t value);
void gguf_put_f32(gguf_keys *keys, const char *key, double value);
void gguf_put_bool(gguf_keys *keys, const char *key, bool value);
void gguf_put_text(gguf_keys *keys, const char *key, span value);
void gguf_put_i32s(gguf_keys *keys, const char *key, const int32_t *values, uint64_t count);
void gguf_put_f32s(gguf_keys *keys, const char *key, const float *values, uint64_t count);
void gguf_put_texts(gguf_keys *keys, const char *key, const span *values, uint64_t count);
void gguf_keys_free(gguf_keys *keys);

/* general.* and ARCH.* of a plan, and what says that it is synthetic; `name` is general.name. */
void gguf_put_plan(gguf_keys *keys, const model_plan *plan, const char *name);

/* Everything before the data section, padding included. */
void gguf_header(const model_plan *plan, const gguf_keys *keys, buf *out);

#endif
