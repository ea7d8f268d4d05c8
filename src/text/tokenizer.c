/* text/tokenizer.c: from text to ids.
 * The text is made valid UTF-8; added tokens are found in it; what stands between them is normalized, searched once
 * more for the added tokens that want normalized text, cut by the pre-tokenizer, and merged. Provenance rides along as
 * a list of trusted ranges: a control token counts only if it lies in one of them whole. */
#include "text/tokenizer.h"

#include <stdlib.h>

#include "text/tokenizer_parts.h"
#include "text/tokenizer_utf8.h"

enum { TEXT_MAX = 1 << 28 }; /* bytes of one text; byte-level symbols double them */

/* --- lists and accessors --- */

bool token_list_push(token_list *list, token_id id)
{
    if (list->count == list->capacity) {
        size_t wanted = list->capacity ? list->capacity * 2 : 64;
        token_id *grown = realloc(list->ids, wanted * sizeof *grown);
        if (!grown)
            return false;
        list->ids = grown;
        list->capacity = wanted;
    }
    list->ids[list->count++] = id;
    return true;
}

void token_list_free(token_list *list)
{
    free(list->ids);
    *list = (token_list){0};
}

tokenizer *tokenizer_new(error *err)
{
    tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        error_set(err, ERR_MEMORY, "out of memory for a tokenizer");
        return NULL;
    }
    t->bos = t->eos = -1;
    return t;
}

void tokenizer_destroy(tokenizer *t)
{
    if (!t)
        return;
    vocab_free(&t->vocab);
    bpe_model_free(&t->bpe);
    normalizer_free(&t->normalizer);
    pretokenizer_free(&t->pretok);
    added_set_free(&t->added);
    added_set_free(&t->added_normalized);
    token_list_free(&t->prefix);
    token_list_free(&t->suffix);
    token_list_free(&t->eog);
    free(t);
}

uint32_t tokenizer_vocab_size(const tokenizer *t)
{
    return t->vocab.count;
}

token_id tokenizer_bos(const tokenizer *t)
{
    return t->bos;
}

token_id tokenizer_eos(const tokenizer *t)
{
    return t->eos;
}

span tokenizer_token_text(const tokenizer *t, token_id id)
{
    return vocab_text(&t->vocab, id);
}

token_id tokenizer_find(const tokenizer *t, span text)
{
    return vocab_find(&t->vocab, text);
}

bool tokenizer_is_control(const tokenizer *t, token_id id)
{
    token_type type = vocab_type(&t->vocab, id);
    return type == TOKEN_CONTROL || type == TOKEN_UNKNOWN;
}

bool tokenizer_is_eog(const tokenizer *t, token_id id)
{
    for (size_t i = 0; i < t->eog.count; i++)
        if (t->eog.ids[i] == id)
            return true;
    return false;
}

const token_id *tokenizer_eog(const tokenizer *t, size_t *count)
{
    *count = t->eog.count;
    return t->eog.ids;
}

/* --- what the builders share --- */

status tokenizer_add_eog(tokenizer *t, token_id id, error *err)
{
    if (id < 0 || tokenizer_is_eog(t, id))
        return OK;
    return token_list_push(&t->eog, id) ? OK : error_set(err, ERR_MEMORY, "out of memory for a tokenizer");
}

static const struct {
    const char *text;
    bool plain;
} eog_texts[] = {
    {"<|eot_id|>", false},
    {"<|eom_id|>", false},
    {"<|im_end|>", false},
    {"<|end|>", false},
    {"<|endoftext|>", false},
    {"<|end_of_text|>", false},
    {"<|return|>", false},
    {"<|call|>", false},
    {"<|end_of_turn|>", false},
    {"<end_of_turn>", false},
    {"<EOT>", true},
    {"<|EOT|>", false},
    {"<|END_OF_TURN_TOKEN|>", false},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     false},
    {"<end_of_utterance>", false},
    {"</s>", true},
    {"[EOS]", true},
    {"<eos>", true},
};

bool tokenizer_eog_text(span text, bool *plain)
{
    for (size_t i = 0; i < sizeof eog_texts / sizeof eog_texts[0]; i++) {
        if (span_is(text, eog_texts[i].text)) {
            *plain = eog_texts[i].plain;
            return true;
        }
    }
    return false;
}

status tokenizer_collect_eog(tokenizer *t, error *err)
{
    status st = tokenizer_add_eog(t, t->eos, err);
    for (size_t i = 0; !st && i < sizeof eog_texts / sizeof eog_texts[0]; i++) {
        token_id id = vocab_find(&t->vocab, span_from(eog_texts[i].text));
        if (id >= 0 && (!eog_texts[i].plain || tokenizer_is_control(t, id)))
            st = tokenizer_add_eog(t, id, err);
    }
    return st;
}

status tokenizer_add_split(tokenizer *t, span pattern, split_behavior behavior, error *err)
{
    pretok_step step = {.kind = PRETOK_SPLIT, .behavior = behavior};
    status st = regex_compile(&step.pattern, pattern, err);
    return st ? st : pretokenizer_add(&t->pretok, step, err);
}

/* --- one encoding --- */

typedef struct {
    size_t start, end;
} text_range;

typedef struct {
    const tokenizer *t;
    span text;           /* valid UTF-8 */
    buf joined;          /* owns `text` unless it is the caller's */
    text_range *trusted; /* in order, apart from each other */
    size_t trusted_count, cursor;
    bool trust_all, trust_none; /* of the text being searched now, when ranges do not apply */
    pretok_run run;
    buf normal[2];
    bpe_scratch bpe;
    token_list *out;
} encoding;

static status out_of_memory(const encoding *e, error *err)
{
    return error_set(err, ERR_MEMORY, "out of memory while tokenizing %zu bytes", e->text.size);
}

static status merge_piece(void *user, span piece, error *err)
{
    encoding *e = user;
    if (piece.size > BPE_PIECE_MAX)
        return error_set(err, ERR_LIMIT, "a piece of %zu bytes cannot be tokenized: at most %d", piece.size,
                         BPE_PIECE_MAX);
    return bpe_encode(&e->t->bpe, piece, &e->bpe, e->out) ? OK : out_of_memory(e, err);
}

static void add_range(encoding *e, size_t start, size_t end)
{
    if (start >= end)
        return;
    if (e->trusted_count && e->trusted[e->trusted_count - 1].end == start)
        e->trusted[e->trusted_count - 1].end = end;
    else
        e->trusted[e->trusted_count++] = (text_range){start, end}; /* room for two each piece */
}

/* Joins the pieces to valid UTF-8. A character whose bytes come from both sides of a border is not trusted. */
static void join_pieces(encoding *e, const text_piece *pieces, size_t count, bool specials)
{
    char open[4]; /* the start of a character, not yet in `joined` */
    size_t open_size = 0;
    bool open_trusted = false;
    for (size_t i = 0; i < count; i++) {
        span rest = pieces[i].text;
        while (open_size && rest.size) { /* complete it byte by byte */
            open[open_size++] = rest.data[0];
            utf8_char c = utf8_next(open, open_size);
            if (c.cut || c.valid) {
                rest = span_of(rest.data + 1, rest.size - 1);
                open_trusted = open_trusted && pieces[i].trusted;
            }
            if (c.cut)
                continue;
            size_t start = e->joined.size;
            buf_append(&e->joined, c.valid ? open : "\xEF\xBF\xBD", c.valid ? open_size : 3);
            if (specials && open_trusted)
                add_range(e, start, e->joined.size);
            open_size = 0;
        }
        size_t start = e->joined.size, keep = rest.size;
        for (size_t back = 1; back <= 3 && back <= rest.size; back++) { /* does it end inside a character? */
            unsigned char b = (unsigned char)rest.data[rest.size - back];
            if ((b & 0xC0) == 0x80)
                continue;
            if (b >= 0xC2 && utf8_next(rest.data + rest.size - back, back).cut)
                keep = rest.size - back;
            break;
        }
        utf8_append_lossy(&e->joined, span_of(rest.data, keep));
        if (specials && pieces[i].trusted)
            add_range(e, start, e->joined.size);
        if (keep < rest.size) {
            open_size = rest.size - keep;
            memcpy(open, rest.data + keep, open_size);
            open_trusted = pieces[i].trusted;
        }
    }
    if (open_size)
        buf_append(&e->joined, "\xEF\xBF\xBD", 3);
    e->text = buf_span(&e->joined);
}

/* End of the trusted range that holds text[at] (of the whole text), or 0. *next: where the next trusted range starts.
 */
static size_t trusted_until(encoding *e, size_t at, size_t *next)
{
    *next = SIZE_MAX;
    if (e->trust_all)
        return SIZE_MAX;
    if (e->trust_none)
        return 0;
    while (e->cursor && e->trusted[e->cursor - 1].end > at)
        e->cursor--;
    while (e->cursor < e->trusted_count && e->trusted[e->cursor].end <= at)
        e->cursor++;
    if (e->cursor == e->trusted_count)
        return 0;
    *next = e->trusted[e->cursor].start;
    if (*next > at)
        return 0;
    return e->trusted[e->cursor].end;
}

typedef struct {
    const added_token *token; /* NULL: none up to the end */
    size_t start, end;
} added_match;

/* The token at text[at] that counts there, or NULL with *skip: how far the search moves on. `base`: offset of `text` in
 * the whole text. A control token outside trusted text is passed over whole, as the reference does, unless that would
 * step over the border to trusted text. */
static const added_token *eligible(encoding *e, const added_set *set, span text, size_t base, size_t at, size_t *skip)
{
    *skip = 1;
    const added_token *token = added_set_longest(set, text, at, text.size);
    if (!token || !token->special)
        return token;
    size_t next, until = trusted_until(e, base + at, &next), end = base + at + token->text.size;
    if (end <= until)
        return token;
    if (until) {
        size_t inside = until - base < text.size ? until - base : text.size;
        return added_set_longest(set, text, at, inside);
    }
    if (next >= end)
        *skip = token->text.size;
    return NULL;
}

static added_match next_added(encoding *e, const added_set *set, span text, size_t base, size_t from)
{
    size_t at = from, skip;
    while ((at = added_set_candidate(set, text, at)) < text.size) {
        const added_token *token = eligible(e, set, text, base, at, &skip);
        if (!token) {
            at += skip;
            continue;
        }
        size_t start = at, end = at + token->text.size;
        at = end;
        if (token->single_word && (added_word_before(text, start) || added_word_after(text, end)))
            continue;
        while (token->lstrip && start > from) {
            size_t back = start - 1;
            while (back > from && ((unsigned char)text.data[back] & 0xC0) == 0x80)
                back--;
            if (!added_is_space(utf8_code(text.data + back)))
                break;
            start = back;
        }
        while (token->rstrip && end < text.size && added_is_space(utf8_code(text.data + end)))
            end += utf8_size((unsigned char)text.data[end]);
        return (added_match){token, start, end};
    }
    return (added_match){NULL, text.size, text.size};
}

/* Text between added tokens of the second search. `base` 0 only at the start of the whole text. */
static status encode_normal(encoding *e, span text, size_t base, bool exact, error *err)
{
    size_t at = 0;
    status st = OK;
    while (!st && at < text.size) {
        added_match m = next_added(e, &e->t->added_normalized, text, exact ? base : 0, at);
        bool first = base == 0 && at == 0;
        st = pretok_run_piece(&e->run, span_of(text.data + at, m.start - at), first, err);
        if (!st && m.token && !token_list_push(e->out, m.token->id))
            return out_of_memory(e, err);
        at = m.end;
    }
    return st;
}

/* Text between added tokens of the first search. */
static status encode_between(encoding *e, span text, size_t base, error *err)
{
    if (text.size == 0)
        return OK;
    if (e->t->normalizer.count == 0)
        return encode_normal(e, text, base, true, err);
    size_t next, until = trusted_until(e, base, &next);
    bool all = e->trust_all, none = e->trust_none;
    span normal;
    status st = normalizer_apply(&e->t->normalizer, e->run.regex, text, e->normal, &normal, err);
    if (st)
        return st;
    e->trust_all = until && base + text.size <= until; /* offsets are lost: trusted whole, or not at all */
    e->trust_none = !e->trust_all;
    st = encode_normal(e, normal, base, false, err);
    e->trust_all = all;
    e->trust_none = none;
    return st;
}

static status encode_text(encoding *e, error *err)
{
    size_t at = 0;
    status st = OK;
    while (!st && at < e->text.size) {
        added_match m = next_added(e, &e->t->added, e->text, 0, at);
        st = encode_between(e, span_of(e->text.data + at, m.start - at), at, err);
        if (!st && m.token && !token_list_push(e->out, m.token->id))
            return out_of_memory(e, err);
        at = m.end;
    }
    return st;
}

static bool push_all(token_list *out, const token_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (!token_list_push(out, list->ids[i]))
            return false;
    return true;
}

static status encode_prepared(encoding *e, unsigned flags, error *err)
{
    if (e->joined.failed)
        return out_of_memory(e, err);
    if (e->text.size > TEXT_MAX)
        return error_set(err, ERR_LIMIT, "text of %zu bytes: at most %d can be tokenized", e->text.size, TEXT_MAX);
    e->run.pretok = &e->t->pretok;
    e->run.emit = merge_piece;
    e->run.user = e;
    e->run.regex = regex_scratch_create();
    if (!e->run.regex)
        return out_of_memory(e, err);
    size_t before = e->out->count;
    if ((flags & TOKENIZE_BOS_EOS) && !push_all(e->out, &e->t->prefix))
        return out_of_memory(e, err);
    status st = encode_text(e, err);
    if (!st && (flags & TOKENIZE_BOS_EOS) && !push_all(e->out, &e->t->suffix))
        st = out_of_memory(e, err);
    if (st)
        e->out->count = before;
    return st;
}

static void encoding_free(encoding *e)
{
    regex_scratch_free(e->run.regex);
    pretok_run_free(&e->run);
    buf_free(&e->normal[0]);
    buf_free(&e->normal[1]);
    buf_free(&e->joined);
    bpe_scratch_free(&e->bpe);
    free(e->trusted);
}

status tokenizer_encode(const tokenizer *t, span text, unsigned flags, token_list *out, error *err)
{
    encoding e = {.t = t, .text = text, .out = out};
    if (flags & TOKENIZE_SPECIALS)
        e.trust_all = true;
    else
        e.trust_none = true;
    if (utf8_valid_prefix(text) < text.size) {
        utf8_append_lossy(&e.joined, text);
        e.text = buf_span(&e.joined);
    }
    status st = encode_prepared(&e, flags, err);
    encoding_free(&e);
    return st;
}

status tokenizer_encode_pieces(const tokenizer *t, const text_piece *pieces, size_t count, unsigned flags,
                               token_list *out, error *err)
{
    encoding e = {.t = t, .out = out};
    e.trusted = calloc(2 * count + 1, sizeof *e.trusted);
    if (!e.trusted)
        return error_set(err, ERR_MEMORY, "out of memory while tokenizing %zu pieces", count);
    join_pieces(&e, pieces, count, flags & TOKENIZE_SPECIALS);
    status st = encode_prepared(&e, flags, err);
    encoding_free(&e);
    return st;
}
