/* cli/gguf_vocab.h: the text side of a model file: its tokenizer and its chat template.
 * Here, because `text` knows no files and `model` knows no text. What is returned as a span borrows the file's mapping.
 */
#ifndef HEADWAY_CLI_GGUF_VOCAB_H
#define HEADWAY_CLI_GGUF_VOCAB_H

#include "model/file/model_file.h"
#include "text/tokenizer.h"

/* Fills a tokenizer_spec from the tokenizer.ggml.* keys and creates the tokenizer (the caller destroys it; it needs the
 * file no longer). err names the file and the key. */
status tokenizer_spec_from_gguf(tokenizer **out, const model_file *file, error *err);

/* Of a GGUF as above; of a directory, from its tokenizer.json, with the ends of generation that its other files name.
 */
status tokenizer_from_model(tokenizer **out, const model_file *file, error *err);

/* The Jinja source in tokenizer.chat_template. ERR_NOT_FOUND: the model has none (a base model); *out is untouched. */
status chat_template_from_gguf(span *out, const model_file *file, error *err);

/* A tokenizer from `path`: a GGUF (a vocabulary alone is enough), a model's directory, or a tokenizer.json, with the
 * tokenizer_config.json that lies beside it if there is one ("NAME.tokenizer.json" goes with
 * "NAME.tokenizer_config.json"). */
status tokenizer_from_path(tokenizer **out, const char *path, error *err);

#endif
