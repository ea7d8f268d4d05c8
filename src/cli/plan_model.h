/* cli/plan_model.h: which model does an argument of `plan` and `simulate` mean? A name of the catalogue, a config.json,
 * a model's folder or a GGUF file. Values only, nothing to free; main thread. */
#ifndef HEADWAY_CLI_PLAN_MODEL_H
#define HEADWAY_CLI_PLAN_MODEL_H

#include "plan/model_shape.h"

typedef enum { MODEL_CATALOGUE, MODEL_CONFIG, MODEL_FOLDER, MODEL_GGUF } plan_model_kind;

typedef struct {
    model_shape shape;
    char type[16];         /* how its weights are stored; "": that is not said */
    uint64_t weight_bytes; /* of the text model's tensors, as the file holds them; 0: no tensors were seen */
    plan_model_kind kind;
} plan_model;

/* `argument`: "NAME", "NAME:TYPE", or a path, also with ":TYPE" (which then stands instead of the file's own, and
 * weight_bytes is 0). Without a type a name has the one that the catalogue says it is usually run in. ERR_NOT_FOUND
 * lists the nearest names. */
status plan_model_find(plan_model *out, const char *argument, error *err);

/* The same, shape and type only. */
status plan_model_open(model_shape *shape, char type[16], const char *argument, error *err);

#endif
