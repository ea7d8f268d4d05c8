/* text/tokenizer_pretok.c: the steps of a pre-tokenizer, run depth first: a piece goes through all later steps before
 * the next piece is cut, so that each step needs one buffer only. */
#include "text/tokenizer_pretok.h"

#include "text/tokenizer_utf8.h"

status pretokenizer_add(pretokenizer *p, pretok_step step, error *err)
{
    if (p->count < PRETOK_STEPS_MAX && !step.text.failed) {
        p->steps[p->count++] = step;
        return OK;
    }
    bool failed = step.text.failed;
    regex_free(step.pattern);
    buf_free(&step.text);
    if (failed)
        return error_set(err, ERR_MEMORY, "out of memory for a pre-tokenizer");
    return error_set(err, ERR_UNSUPPORTED, "pre_tokenizer: more than %d steps", PRETOK_STEPS_MAX);
}

void pretokenizer_free(pretokenizer *p)
{
    for (size_t i = 0; i < p->count; i++) {
        regex_free(p->steps[i].pattern);
        buf_free(&p->steps[i].text);
    }
    p->count = 0;
}

void pretok_run_free(pretok_run *run)
{
    for (size_t i = 0; i < PRETOK_STEPS_MAX; i++)
        buf_free(&run->work[i]);
}

/* --- the byte-level alphabet: printable Latin-1 stands for itself, the other 68 bytes follow from U+0100 on --- */

static bool stands_for_itself(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

uint32_t byte_level_code(unsigned char byte)
{
    if (stands_for_itself(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte <= 0xA0)
        return 0x100u + 33 + (byte - 0x7Fu);
    return 0x100u + 67; /* 0xAD */
}

int byte_level_byte(uint32_t code)
{
    if (code < 0x100)
        return stands_for_itself(code) ? (int)code : -1;
    if (code <= 0x120)
        return (int)(code - 0x100);
    if (code <= 0x142)
        return (int)(code - 0x121 + 0x7F);
    return code == 0x143 ? 0xAD : -1;
}

static void append_byte_level(buf *out, span piece)
{
    if (!buf_reserve(out, piece.size * 2))
        return;
    char *to = out->data + out->size;
    for (size_t i = 0; i < piece.size; i++)
        to += utf8_put(to, byte_level_code((unsigned char)piece.data[i]));
    out->size = (size_t)(to - out->data);
    *to = 0;
}

static void append_substituted(buf *out, span piece, span text)
{
    size_t from = 0;
    for (size_t i = 0; i < piece.size; i++) {
        if (piece.data[i] != ' ')
            continue;
        buf_append(out, piece.data + from, i - from);
        buf_append(out, text.data, text.size);
        from = i + 1;
    }
    buf_append(out, piece.data + from, piece.size - from);
}

/* --- cutting --- */

typedef struct {
    pretok_run *run;
    size_t step;
    span piece;
    bool first;
    bool held; /* a cut that may still grow */
    size_t held_start, held_end;
    bool held_match, previous_match;
} splitter;

static status run_step(pretok_run *run, size_t step, span piece, bool first, error *err);

static status pass_on(splitter *s, size_t start, size_t end, error *err)
{
    if (start == end)
        return OK;
    return run_step(s->run, s->step + 1, span_of(s->piece.data + start, end - start), s->first && start == 0, err);
}

static status flush(splitter *s, error *err)
{
    if (!s->held)
        return OK;
    s->held = false;
    return pass_on(s, s->held_start, s->held_end, err);
}

static status hold(splitter *s, size_t start, size_t end, bool match, error *err)
{
    status st = flush(s, err);
    s->held = true;
    s->held_start = start;
    s->held_end = end;
    s->held_match = match;
    return st;
}

/* The parts come in order and cover the piece. */
static status take_part(splitter *s, size_t start, size_t end, bool match, error *err)
{
    if (start == end)
        return OK;
    const pretok_step *step = &s->run->pretok->steps[s->step];
    match ^= step->invert;
    bool previous_match = s->previous_match, grow = false;
    s->previous_match = match;
    switch (step->behavior) {
    case SPLIT_REMOVED:
        return match ? OK : pass_on(s, start, end, err);
    case SPLIT_ISOLATED:
        return pass_on(s, start, end, err);
    case SPLIT_CONTIGUOUS:
        grow = s->held && s->held_match == match;
        break;
    case SPLIT_WITH_PREVIOUS:
        grow = s->held && match && !previous_match;
        break;
    case SPLIT_WITH_NEXT:
        grow = s->held && s->held_match && !match;
        break;
    }
    if (!grow)
        return hold(s, start, end, match, err);
    s->held_end = end;
    s->held_match = match;
    return OK;
}

static status run_split(pretok_run *run, size_t step, span piece, bool first, error *err)
{
    splitter s = {.run = run, .step = step, .piece = piece, .first = first};
    size_t at = 0, start, end;
    bool found;
    while (at < piece.size) {
        status st = regex_find(run->pretok->steps[step].pattern, run->regex, piece, at, &found, &start, &end, err);
        if (!st && !found)
            break;
        if (!st)
            st = take_part(&s, at, start, false, err);
        if (!st)
            st = take_part(&s, start, end, true, err);
        if (st)
            return st;
        at = end;
    }
    status st = take_part(&s, at, piece.size, false, err);
    return st ? st : flush(&s, err);
}

static bool starts_with(span piece, span text)
{
    return piece.size >= text.size && memcmp(piece.data, text.data, text.size) == 0;
}

static status run_step(pretok_run *run, size_t step, span piece, bool first, error *err)
{
    if (step == run->pretok->count)
        return run->emit(run->user, piece, err);
    const pretok_step *now = &run->pretok->steps[step];
    if (now->kind == PRETOK_SPLIT)
        return run_split(run, step, piece, first, err);
    if (now->kind == PRETOK_PREFIX && ((now->first_only && !first) || starts_with(piece, buf_span(&now->text))))
        return run_step(run, step + 1, piece, first, err);
    buf *out = &run->work[step];
    buf_clear(out);
    if (now->kind == PRETOK_PREFIX) {
        buf_append(out, now->text.data, now->text.size);
        buf_append(out, piece.data, piece.size);
    } else if (now->kind == PRETOK_SUBSTITUTE) {
        append_substituted(out, piece, buf_span(&now->text));
    } else {
        append_byte_level(out, piece);
    }
    if (out->failed)
        return error_set(err, ERR_MEMORY, "out of memory while cutting %zu bytes of text", piece.size);
    return run_step(run, step + 1, buf_span(out), first, err);
}

status pretok_run_piece(pretok_run *run, span piece, bool first, error *err)
{
    return piece.size ? run_step(run, 0, piece, first, err) : OK;
}
