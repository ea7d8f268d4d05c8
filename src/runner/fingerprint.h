/* runner/fingerprint.h: when do the bytes of a page mean the same? When model, KV type, layout and the kernels'
 * rounding are the same. */
#ifndef HEADWAY_RUNNER_FINGERPRINT_H
#define HEADWAY_RUNNER_FINGERPRINT_H

#include "model/model.h"

/* Counted up whenever a page's bytes, or those of a saved state, come to lie otherwise. */
enum { KV_LAYOUT_VERSION = 1 };

/* Reads all small tensors of `file` and samples of the others, some megabytes: a file that was quantized or trained
 * otherwise has another one. A changed value amid a large tensor may go unnoticed. */
uint64_t kv_fingerprint(const model *m, const model_file *file, const kv_cache_config *kv);

#endif
