/* cli/synth_dir.h: the JSON files of a synthetic directory. One thread; the caller frees. */
#ifndef HEADWAY_CLI_SYNTH_DIR_H
#define HEADWAY_CLI_SYNTH_DIR_H

#include "cli/synth_vocab.h"
#include "model/write/model_write.h"

/* Writes the plan as a directory: weights, config.json (the given one, with what was written and that it is synthetic),
 * generation_config.json and the tokenizer's files. */
status synth_write_directory(const model_plan *plan, const json_t *config, const synth_vocab *vocab, const char *path,
                             const write_options *options, error *err);

#endif
