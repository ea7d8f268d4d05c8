/* cli/plan_gguf.h: private to plan_model: a GGUF file's metadata and tensors as a shape. Main thread. */
#ifndef HEADWAY_CLI_PLAN_GGUF_H
#define HEADWAY_CLI_PLAN_GGUF_H

#include "cli/plan_model.h"
#include "model/file/model_file.h"

/* Shape, type and bytes of the text model. ERR_UNSUPPORTED: the tensors are not those of the shape that the metadata
 * says. */
status plan_gguf_read(plan_model *out, const model_file *file, error *err);
/* Bytes of the text model's tensors. */
uint64_t plan_text_bytes(const model_file *file);

#endif
