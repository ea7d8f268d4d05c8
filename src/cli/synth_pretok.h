/* cli/synth_pretok.h: pre-tokenizers as GGUF names them and as tokenizer.json spells them; vocabularies out of a GGUF.
 * Any thread. */
#ifndef HEADWAY_CLI_SYNTH_PRETOK_H
#define HEADWAY_CLI_SYNTH_PRETOK_H

#include "cli/synth_vocab.h"

/* "qwen2" and the like for a byte-level BPE; NULL: a GGUF has no name for it that is known here. */
const char *synth_pretok_name(const json_t *tokenizer);
/* The pre_tokenizer object for such a name; NULL: not known. *nfc: text is normalized first. */
json_t *synth_pretok_json(span name, bool *nfc);

/* A GGUF's vocabulary for another GGUF (its keys as they are, padded), or as a tokenizer.json (byte-level BPE). */
status synth_vocab_from_gguf(synth_vocab *out, const char *path, uint32_t size, bool gguf, error *err);

#endif
