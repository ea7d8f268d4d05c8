/* load/prompt.h: which text has so many tokens and was never seen before? Common English words, about one token each in
 * most vocabularies, drawn from a key: other keys, other text. The exact number of tokens a word is measured once
 * (words_per_token). Pure functions; any thread. */
#ifndef HEADWAY_LOAD_PROMPT_H
#define HEADWAY_LOAD_PROMPT_H

#include "base/buf.h"
#include "load/replay.h"

typedef struct {
    const char *model;        /* the request's field */
    double words_per_token;   /* 1 until it is measured */
    double overhead_tokens;   /* of a prompt of no words: the template's own */
    bool ignore_eos;          /* the server's extension of that name: answers have the wanted length */
    const char *service_tier; /* of documents; NULL: not sent */
} prompt_settings;

enum { PROMPT_WORDS = 256 };

/* Appends `count` words, blanks between them. */
void prompt_words(buf *out, uint64_t key, uint32_t count);
/* The JSON body of /v1/chat/completions for one turn. Standard fields only, but ignore_eos when asked for. Tools are
 * described in the system text and their results come as user messages, so that every model's template takes them. */
void prompt_body(buf *out, const prompt_settings *p, const load_request *request);
/* Words whose text is about `tokens` long. */
uint32_t prompt_word_count(const prompt_settings *p, double tokens);

#endif
