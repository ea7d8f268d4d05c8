/* text/jinja_string.c: strings that know which bytes are trusted.
 * A built string may keep its buffer: `s = s + x` in a loop then appends in place, as long as `s` ends where the buffer
 * ends, so building a prompt by concatenation stays linear. */
#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

struct jinja_buffer {
    char *data;
    size_t size, capacity;
    jinja_run *runs;
    uint32_t run_count, run_capacity;
};

static const jinja_run run_trusted = {0, true}, run_untrusted = {0, false};

jinja_string *jinja_string_borrow(jinja_arena *arena, span text, bool trusted)
{
    jinja_string *s = jinja_alloc(arena, sizeof *s);
    s->text = text.data ? text : span_of("", 0);
    s->chars = SIZE_MAX;
    s->runs = trusted ? &run_trusted : &run_untrusted;
    s->run_count = 1;
    return s;
}

jinja_string *jinja_string_copy(jinja_render *r, const char *text)
{
    size_t size = strlen(text);
    return jinja_string_borrow(&r->arena, span_of(jinja_grow(&r->arena, (void *)text, size, size + 1), size), false);
}

jinja_string *jinja_as_markup(jinja_render *r, const jinja_string *s)
{
    jinja_string *out = jinja_alloc(&r->arena, sizeof *out);
    *out = *s;
    out->markup = true;
    return out;
}

/* The run that holds byte `offset`. */
static uint32_t run_of(const jinja_string *s, size_t offset)
{
    uint32_t low = 0, high = s->run_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (s->runs[middle].start <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

jinja_string *jinja_string_sub(jinja_arena *arena, const jinja_string *s, size_t offset, size_t size)
{
    uint32_t first = run_of(s, offset), last = size ? run_of(s, offset + size - 1) : first;
    jinja_string *out = jinja_string_borrow(arena, span_of(s->text.data + offset, size), s->runs[first].trusted);
    out->markup = s->markup;
    if (s->chars == s->text.size)
        out->chars = size; /* ASCII */
    if (first == last)
        return out;
    jinja_run *runs = jinja_alloc_raw(arena, (last - first + 1) * sizeof *runs);
    for (uint32_t i = first; i <= last; i++)
        runs[i - first] = (jinja_run){i == first ? 0 : s->runs[i].start - offset, s->runs[i].trusted};
    out->runs = runs;
    out->run_count = last - first + 1;
    return out;
}

bool jinja_string_trusted(const jinja_string *s)
{
    for (uint32_t i = 0; i < s->run_count; i++)
        if (!s->runs[i].trusted)
            return false;
    return true;
}

bool jinja_trusted_at(const jinja_string *s, size_t offset, size_t *run_end)
{
    uint32_t i = run_of(s, offset);
    if (run_end)
        *run_end = i + 1 < s->run_count ? s->runs[i + 1].start : s->text.size;
    return s->runs[i].trusted;
}

size_t jinja_string_chars(jinja_string *s)
{
    if (s->chars == SIZE_MAX)
        s->chars = jinja_char_count(s->text);
    return s->chars;
}

size_t jinja_string_offset(jinja_string *s, size_t index)
{
    if (jinja_string_chars(s) == s->text.size)
        return index < s->text.size ? index : s->text.size;
    return jinja_char_offset(s->text, index);
}

static void buffer_reserve(jinja_render *r, jinja_buffer *b, size_t more)
{
    if (more <= b->capacity - b->size)
        return;
    if (more > JINJA_MEMORY_MAX)
        jinja_limit(r, "a string of more than %d MB", JINJA_MEMORY_MAX >> 20);
    size_t capacity = b->size + more;
    capacity += capacity / 2 + 32;
    char *grown = jinja_alloc_raw(&r->arena, capacity);
    if (b->size)
        memcpy(grown, b->data, b->size);
    b->data = grown;
    b->capacity = capacity;
}

static void buffer_put(jinja_render *r, jinja_buffer *b, const char *data, size_t size, bool trusted)
{
    if (!size)
        return;
    jinja_charge(r, size / 64);
    buffer_reserve(r, b, size);
    if (!b->run_count || b->runs[b->run_count - 1].trusted != trusted) {
        if (b->run_count == b->run_capacity) {
            uint32_t capacity = b->run_capacity ? b->run_capacity * 2 : 4;
            b->runs = jinja_grow(&r->arena, b->runs, b->run_count * sizeof *b->runs, capacity * sizeof *b->runs);
            b->run_capacity = capacity;
        }
        b->runs[b->run_count++] = (jinja_run){b->size, trusted};
    }
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void buffer_put_part(jinja_render *r, jinja_buffer *b, const jinja_string *s, size_t offset, size_t size)
{
    size_t end = offset + size;
    if (!size)
        return;
    buffer_reserve(r, b, size);
    for (uint32_t i = run_of(s, offset); offset < end; i++) {
        size_t stop = i + 1 < s->run_count && s->runs[i + 1].start < end ? s->runs[i + 1].start : end;
        buffer_put(r, b, s->text.data + offset, stop - offset, s->runs[i].trusted);
        offset = stop;
    }
}

static jinja_string *buffer_string(jinja_render *r, jinja_buffer *b)
{
    jinja_string *s = jinja_string_borrow(&r->arena, span_of(b->data, b->size), false);
    if (b->run_count) {
        s->runs = b->runs;
        s->run_count = b->run_count;
    }
    s->tail = b;
    return s;
}

void jinja_build(jinja_builder *b, jinja_render *r)
{
    *b = (jinja_builder){.render = r, .buffer = jinja_alloc(&r->arena, sizeof *b->buffer)};
}

void jinja_put(jinja_builder *b, const char *data, size_t size, bool trusted)
{
    buffer_put(b->render, b->buffer, data, size, trusted);
}

void jinja_put_text(jinja_builder *b, const char *text, bool trusted)
{
    jinja_put(b, text, strlen(text), trusted);
}

void jinja_put_code(jinja_builder *b, int32_t code, bool trusted)
{
    char bytes[4];
    jinja_put(b, bytes, jinja_encode(code, bytes), trusted);
}

void jinja_put_part(jinja_builder *b, const jinja_string *s, size_t offset, size_t size)
{
    buffer_put_part(b->render, b->buffer, s, offset, size);
}

void jinja_put_string(jinja_builder *b, const jinja_string *s)
{
    jinja_put_part(b, s, 0, s->text.size);
}

size_t jinja_built_size(const jinja_builder *b)
{
    return b->buffer->size;
}

jinja_string *jinja_built(jinja_builder *b)
{
    jinja_string *s = buffer_string(b->render, b->buffer);
    s->markup = b->markup;
    return s;
}

jinja_value jinja_concat(jinja_render *r, jinja_string *a, const jinja_string *b)
{
    jinja_buffer *tail = a->tail;
    bool in_place = tail && a->text.data == tail->data && a->text.size == tail->size && a->text.size;
    if (!in_place) {
        tail = jinja_alloc(&r->arena, sizeof *tail);
        buffer_reserve(r, tail, a->text.size + b->text.size);
        buffer_put_part(r, tail, a, 0, a->text.size);
    } else if (b->text.size > tail->capacity - tail->size) {
        jinja_buffer *moved = jinja_alloc(&r->arena, sizeof *moved); /* others may still look at the old one */
        *moved = *tail;
        moved->runs = jinja_grow(&r->arena, tail->runs, tail->run_count * sizeof *tail->runs,
                                 2 * tail->run_count * sizeof *tail->runs);
        moved->run_capacity = 2 * tail->run_count;
        tail = moved;
        buffer_reserve(r, tail, b->text.size);
    }
    buffer_put_part(r, tail, b, 0, b->text.size);
    jinja_string *out = buffer_string(r, tail);
    out->markup = a->markup;
    if (a->chars != SIZE_MAX && b->chars != SIZE_MAX)
        out->chars = a->chars + b->chars;
    return jinja_of_string(out);
}
