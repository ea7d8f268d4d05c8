/* text/parse/parser.c: the parser around the families. Bytes go through one at a time (plain text in runs). In text and
 * in a thought, `held` keeps what cannot be decided yet: white space, then the beginning of a mark. In a call, `raw`
 * keeps all bytes until the call is committed: then it is a call whatever comes. When it turns out to be none, raw's
 * bytes go through again, behind its opener; `again` holds them. An attempt holds OUTPUT_HELD_MAX bytes at most. */
#include <stdlib.h>

#include "text/parse/family.h"
#include "text/parse/json_scan.h"

enum { BLANK_MAX = 256 }; /* white space that is held back at most */

typedef enum { IN_TEXT, IN_THOUGHT, IN_CALL } place;

struct output_parser {
    const call_family *family; /* NULL: none */
    const output_marks *marks; /* NULL: none */
    json_t *tools;
    place place;
    bool spoken;     /* text has come out */
    bool drop_blank; /* white space that comes next is the syntax's */
    bool after_call; /* the last thing was a call */
    bool thought_empty;
    buf held;
    buf raw;
    size_t opener_size; /* of raw: white space and opener */
    bool ended_one;     /* of this opener */
    void *state;        /* the family's */
    buf again;          /* bytes to go through once more, from again_at on */
    size_t again_at;
    /* the call that is being read */
    bool open, named, committed, failed;
    uint32_t calls;
    buf name, arguments; /* arguments: not given out yet */
    /* text or thought that is not given out yet */
    buf out;
    piece_kind out_kind;
    piece_taker take;
    void *context;
};

static const call_family *const families[] = {
    &hermes_family,  &qwen3_coder_family, &llama3_json_family,    &pythonic_family,
    &mistral_family, &gemma4_family,      &function_gemma_family, NULL,
};

static const call_family *family_find(const char *name)
{
    for (size_t i = 0; name && families[i]; i++)
        if (strcmp(families[i]->name, name) == 0)
            return families[i];
    return NULL;
}

bool output_family_known(const char *name)
{
    return family_find(name) != NULL;
}

/* ---- what comes out ---- */

static void give(output_parser *p, piece_kind kind, span text)
{
    p->take(p->context, &(output_piece){kind, p->calls, text});
}

static void flush_out(output_parser *p)
{
    if (p->out.size)
        give(p, p->out_kind, buf_span(&p->out));
    buf_clear(&p->out);
}

static void say(output_parser *p, piece_kind kind, span text)
{
    if (!text.size)
        return;
    if (p->out_kind != kind)
        flush_out(p);
    p->out_kind = kind;
    buf_append(&p->out, text.data, text.size);
    if (kind == PIECE_TEXT) {
        p->spoken = true;
        p->after_call = false;
    } else {
        p->thought_empty = false;
    }
    p->drop_blank = false;
}

static void flush_arguments(output_parser *p)
{
    if (p->committed && p->arguments.size) {
        give(p, PIECE_ARGUMENTS, buf_span(&p->arguments));
        buf_clear(&p->arguments);
    }
}

/* ---- what families say ---- */

static bool is_tool(const output_parser *p, span name)
{
    size_t i;
    json_t *tool;
    if (!p->tools)
        return name.size > 0;
    json_array_foreach(p->tools, i, tool)
    {
        json_t *own = json_object_get(json_object_get(tool, "function"), "name");
        if (json_is_string(own) && span_equal(span_of(json_string_value(own), json_string_length(own)), name))
            return true;
    }
    return false;
}

static void commit(output_parser *p)
{
    flush_out(p);
    give(p, PIECE_CALL, buf_span(&p->name));
    p->committed = true; /* the arguments so far follow at the end of the feed: here may be the middle of a character */
    buf_clear(&p->raw);
}

bool call_name(output_parser *p, span name)
{
    if (!is_tool(p, name))
        return false;
    p->open = p->named = true;
    buf_clear(&p->name);
    buf_append(&p->name, name.data, name.size);
    return true;
}

bool call_named(const output_parser *p)
{
    return p->named;
}

json_t *call_tools(const output_parser *p)
{
    return p->tools;
}

span call_name_of(const output_parser *p)
{
    return buf_span(&p->name);
}

void call_arguments(output_parser *p, span text)
{
    p->open = true;
    buf_append(&p->arguments, text.data, text.size);
    if (!p->committed && p->named && p->arguments.size > OUTPUT_HELD_ARGUMENTS)
        commit(p);
    p->failed = p->failed || p->arguments.failed || (!p->committed && p->arguments.size > OUTPUT_HELD_MAX);
}

void call_argument_byte(output_parser *p, char byte)
{
    call_arguments(p, span_of(&byte, 1));
}

void call_argument_string(output_parser *p, span text)
{
    for (size_t i = 0; i < text.size; i++) {
        json_scan inside = {.state = JSON_SCAN_IN_STRING};
        char c = text.data[i];
        if (c == '"' || c == '\\')
            call_argument_byte(p, '\\');
        json_scan_push(&inside, c);
        call_arguments(p, span_of(inside.out, inside.out_size));
    }
}

static void close_call(output_parser *p, piece_kind how)
{
    flush_arguments(p);
    give(p, how, (span){0});
    p->calls++;
    p->open = p->named = p->committed = false;
    buf_clear(&p->arguments);
}

void call_end(output_parser *p)
{
    if (!p->committed)
        commit(p);
    close_call(p, PIECE_CALL_END);
    p->ended_one = p->after_call = true;
    buf_clear(&p->raw);
}

/* ---- calls ---- */

static void leave_call(output_parser *p)
{
    if (p->family->release)
        p->family->release(p->state);
    p->place = IN_TEXT;
    p->open = p->named = false;
    buf_clear(&p->arguments);
}

static void enter_call(output_parser *p, uint32_t opener)
{
    buf_clear(&p->raw);
    buf_append(&p->raw, p->held.data, p->held.size);
    p->opener_size = p->held.size;
    buf_clear(&p->held);
    memset(p->state, 0, p->family->state_size);
    p->place = IN_CALL;
    p->ended_one = p->failed = false;
    p->family->begin(p->state, p, opener);
}

/* `text` goes through before all that waits. */
static void put_back(output_parser *p, span text)
{
    if (!text.size)
        return;
    if (p->again_at >= text.size) { /* that is where most of it came from */
        p->again_at -= text.size;
        memcpy(p->again.data + p->again_at, text.data, text.size);
        return;
    }
    buf joined = {0};
    buf_append(&joined, text.data, text.size);
    buf_append(&joined, p->again.data ? p->again.data + p->again_at : "", p->again.size - p->again_at);
    buf_free(&p->again);
    p->again = joined;
    p->again_at = 0;
}

/* What has come since the opener, or since the last call, is no call. `last`: the byte that showed it, NULL at the end.
 */
static void give_up(output_parser *p, const char *last)
{
    bool committed = p->committed;
    if (committed) {
        close_call(p, PIECE_CALL_CUT);
        p->after_call = true;
    }
    leave_call(p);
    if (committed) {
        if (last)
            put_back(p, span_of(last, 1));
        return;
    }
    size_t said = p->ended_one ? 0 : p->opener_size;
    say(p, PIECE_TEXT, span_of(p->raw.data, said));
    put_back(p, span_of(p->raw.data + said, p->raw.size - said));
    buf_clear(&p->raw);
}

static void push_call(output_parser *p, char byte)
{
    if (!p->committed)
        buf_append(&p->raw, &byte, 1);
    call_step step = p->family->push(p->state, p, byte);
    if (step == CALL_NOT || p->failed || (!p->committed && p->raw.size > OUTPUT_HELD_MAX))
        give_up(p, &byte);
    else if (step == CALL_DONE)
        leave_call(p);
}

/* ---- text and thoughts ---- */

typedef enum { NO_MARK, PART_OF_MARK, THOUGHT_OPEN, THOUGHT_CLOSE, CALL_OPEN } mark_kind;

typedef struct {
    mark_kind kind;
    uint32_t opener;
} mark;

static bool compare(mark *best, span text, const char *word, mark full)
{
    size_t size = strlen(word);
    if (memcmp(text.data, word, text.size < size ? text.size : size) != 0 || text.size > size)
        return false;
    if (text.size == size)
        *best = full;
    else if (best->kind == NO_MARK)
        best->kind = PART_OF_MARK;
    return text.size == size;
}

/* What does `text` (not empty, begins with no white space) spell where the parser is? */
static mark look_at(const output_parser *p, span text)
{
    mark best = {NO_MARK, 0};
    if (p->place == IN_THOUGHT) {
        compare(&best, text, p->marks->close, (mark){THOUGHT_CLOSE, 0});
        if (p->thought_empty)
            compare(&best, text, p->marks->open, (mark){THOUGHT_OPEN, 0});
        return best;
    }
    if (p->marks && (p->marks->anywhere || !p->spoken))
        compare(&best, text, p->marks->open, (mark){THOUGHT_OPEN, 0});
    uint32_t opener = 0;
    for (const char *const *word = p->family ? p->family->openers : NULL; word && *word; word++)
        compare(&best, text, *word, (mark){CALL_OPEN, opener++});
    for (const char *const *word = p->family ? p->family->start_openers : NULL; word && *word && !p->spoken; word++)
        compare(&best, text, *word, (mark){CALL_OPEN, opener++});
    return best;
}

static void enter_mark(output_parser *p, mark m)
{
    if (m.kind == CALL_OPEN) {
        enter_call(p, m.opener);
        return;
    }
    bool opens = m.kind == THOUGHT_OPEN;
    buf_clear(&p->held);
    p->place = opens ? IN_THOUGHT : IN_TEXT;
    p->thought_empty = opens;
    p->drop_blank = true;
}

/* Lets out of `held` what is certain: all of it but white space at the end and the beginning of a mark. */
static void settle(output_parser *p)
{
    piece_kind kind = p->place == IN_THOUGHT ? PIECE_THOUGHT : PIECE_TEXT;
    size_t from = 0, blank = 0; /* held[from..] is not decided; it begins with `blank` bytes of white space */
    while (from < p->held.size) {
        while (from + blank < p->held.size && is_blank(p->held.data[from + blank]))
            blank++;
        if (p->drop_blank) {
            from += blank;
            blank = 0;
        }
        if (from + blank == p->held.size) {
            if (blank > BLANK_MAX) {
                say(p, kind, span_of(p->held.data + from, blank));
                from = p->held.size;
            }
            break;
        }
        mark m = look_at(p, span_of(p->held.data + from + blank, p->held.size - from - blank));
        if (m.kind == PART_OF_MARK)
            break;
        if (m.kind != NO_MARK) {
            memmove(p->held.data, p->held.data + from, p->held.size - from);
            p->held.size -= from;
            enter_mark(p, m);
            return;
        }
        say(p, kind, span_of(p->held.data + from, blank + 1));
        from += blank + 1;
        blank = 0;
    }
    memmove(p->held.data, p->held.data + from, p->held.size - from);
    p->held.size -= from;
}

static void push_byte(output_parser *p, char byte)
{
    if (p->place == IN_CALL) {
        push_call(p, byte);
        return;
    }
    buf_append(&p->held, &byte, 1);
    settle(p);
}

static bool may_begin_mark(const output_parser *p, char c)
{
    mark m = look_at(p, span_of(&c, 1));
    return m.kind != NO_MARK;
}

/* How much of `text` is plainly text (or thought): no white space, no beginning of a mark. */
static size_t plain_run(const output_parser *p, span text)
{
    size_t size = 0;
    while (size < text.size && !is_blank(text.data[size]) && !may_begin_mark(p, text.data[size]))
        size++;
    return size;
}

static void run_again(output_parser *p)
{
    while (p->again_at < p->again.size)
        push_byte(p, p->again.data[p->again_at++]);
    buf_clear(&p->again);
    p->again_at = 0;
}

void output_parser_feed(output_parser *p, span text, piece_taker take, void *context)
{
    p->take = take;
    p->context = context;
    for (size_t at = 0; at < text.size;) {
        size_t run = 0;
        if (p->place != IN_CALL && !p->held.size)
            run = plain_run(p, span_of(text.data + at, text.size - at));
        if (run)
            say(p, p->place == IN_THOUGHT ? PIECE_THOUGHT : PIECE_TEXT, span_of(text.data + at, run));
        else
            push_byte(p, text.data[at]);
        at += run ? run : 1;
        run_again(p);
    }
    flush_out(p);
    flush_arguments(p);
}

void output_parser_end(output_parser *p, piece_taker take, void *context)
{
    p->take = take;
    p->context = context;
    while (p->place == IN_CALL) {
        if (p->family->finish)
            p->family->finish(p->state, p);
        give_up(p, NULL);
        run_again(p);
    }
    size_t size = p->held.size, blank = 0;
    while (blank < size && is_blank(p->held.data[blank]))
        blank++;
    bool only_blank = blank == size;
    if (size && !(only_blank && (p->after_call || p->place == IN_THOUGHT)))
        say(p, p->place == IN_THOUGHT ? PIECE_THOUGHT : PIECE_TEXT, buf_span(&p->held));
    buf_clear(&p->held);
    flush_out(p);
}

bool output_parser_in_thought(const output_parser *p)
{
    return p->place == IN_THOUGHT;
}

static bool lists(const char *const *words, span text)
{
    for (; words && *words; words++)
        if (span_is(text, *words))
            return true;
    return false;
}

bool output_parser_wants(const output_parser *p, span token)
{
    const output_marks *m = p->marks;
    const call_family *f = p->family;
    if (m && (span_is(token, m->close) || (token.size && strncmp(m->open, token.data, token.size) == 0)))
        return true;
    return f && (lists(f->openers, token) || lists(f->start_openers, token) || lists(f->marks, token));
}

/* ---- life ---- */

status output_parser_create(output_parser **out, const output_parser_config *config, error *err)
{
    output_parser *p = calloc(1, sizeof *p);
    const call_family *family = family_find(config->family);
    const output_marks *marks = output_marks_find(config->thoughts);
    *out = NULL;
    if (!p || (family && !(p->state = calloc(1, family->state_size)))) {
        free(p);
        return error_set(err, ERR_MEMORY, "output parser: out of memory");
    }
    p->family = family;
    p->marks = marks;
    p->tools = config->tools;
    if ((config->family && !family) || (config->thoughts && !marks)) {
        output_parser_destroy(p);
        return error_set(err, ERR_INVALID, "output parser: no family \"%s\" or thoughts \"%s\"",
                         config->family ? config->family : "", config->thoughts ? config->thoughts : "");
    }
    if (marks && config->thought_open) {
        p->place = IN_THOUGHT;
        p->thought_empty = p->drop_blank = true;
    }
    *out = p;
    return OK;
}

void output_parser_destroy(output_parser *p)
{
    if (!p)
        return;
    if (p->place == IN_CALL && p->family->release)
        p->family->release(p->state);
    buf *owned[] = {&p->held, &p->raw, &p->again, &p->name, &p->arguments, &p->out};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        buf_free(owned[i]);
    free(p->state);
    free(p);
}
