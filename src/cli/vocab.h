/* cli/vocab.h: the tokenizer that belongs to a model file, or to the runners without one. The caller destroys it. Any
 * thread. */
#ifndef HEADWAY_CLI_VOCAB_H
#define HEADWAY_CLI_VOCAB_H

#include "model/file/model_file.h"
#include "text/tokenizer.h"

/* From tokenizer.ggml.* of a GGUF, a vocabulary-only file included; cli/gguf_vocab.h reads directories. `err` names the
 * file and the key. */
status vocab_from_model(tokenizer **out, const model_file *file, error *err);
/* sim/byte_vocab.h as a tokenizer. */
status vocab_of_bytes(tokenizer **out, error *err);

#endif
