/* plan/model_config.h: private to the reader of config.json: keys of one of its objects, and what is in a checkpoint
 * besides the text model. */
#ifndef HEADWAY_PLAN_MODEL_CONFIG_H
#define HEADWAY_PLAN_MODEL_CONFIG_H

#include <jansson.h>

#include "plan/model_shape.h"

enum { CONFIG_NEEDED = -1, CONFIG_DRAFTS_MAX = 16 };

typedef struct { /* borrowed */
    const json_t *object;
    const char *prefix; /* of its keys, in messages: "vision_config." */
    const char *name;   /* of the file */
    error *err;
} config_part;

/* "FILE: KEY: expected WHAT"; returns ERR_INVALID. */
status config_wrong(const config_part *part, const char *key, const char *expected);
const json_t *config_at(const config_part *part, const char *key); /* NULL: absent, or null */
/* An integer in [low, high], or `fallback` where there is none; CONFIG_NEEDED: it must be there. */
status config_count(const config_part *part, const char *key, int64_t fallback, uint32_t low, uint32_t high,
                    uint32_t *out);
status config_flag(const config_part *part, const char *key, bool fallback, bool *out);

/* Parameters of a vision tower that ends in the text model's hidden size. */
status config_qwen_tower(const config_part *vision, uint64_t *out);
status config_gemma_tower(const config_part *vision, uint32_t hidden, uint64_t *out);
status config_llama_tower(const config_part *vision, uint32_t hidden, uint64_t *out);
/* Of one draft layer (multi-token prediction) of a checked shape, with so many copies of the embedding. */
uint64_t config_draft_layer(const model_shape *shape, uint32_t copies);

/* The weight_type that the file's weights are stored in; "": none that is known. */
void config_weight_type(const json_t *top, const json_t *text, char type[16]);

#endif
