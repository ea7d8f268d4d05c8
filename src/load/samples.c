/* load/samples.c: growing arrays with limits. */
#include "load/samples.h"

#include <stdlib.h>

uint32_t samples_add(load_samples *s)
{
    if (s->count == s->capacity) {
        uint32_t capacity = s->capacity ? s->capacity * 2 : 64;
        load_sample *items = s->count < SAMPLES_MAX ? realloc(s->items, capacity * sizeof *items) : NULL;
        if (!items) {
            s->full = true;
            return UINT32_MAX;
        }
        s->items = items;
        s->capacity = capacity;
    }
    s->items[s->count] = (load_sample){.text = {.limit = SAMPLE_TEXT_MAX}};
    return s->count++;
}

void samples_token(load_samples *s, uint32_t index, uint64_t at_us, span text)
{
    load_sample *one = &s->items[index];
    if (one->mark_count == one->mark_capacity) {
        uint32_t capacity = one->mark_capacity ? one->mark_capacity * 2 : 128;
        load_mark *marks = s->token_count < SAMPLE_TOKENS_MAX ? realloc(one->marks, capacity * sizeof *marks) : NULL;
        if (!marks) {
            s->full = true;
            return;
        }
        one->marks = marks;
        one->mark_capacity = capacity;
    }
    buf_append(&one->text, text.data, text.size);
    one->marks[one->mark_count++] = (load_mark){at_us, (uint32_t)one->text.size};
    s->token_count++;
}

void samples_free(load_samples *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        buf_free(&s->items[i].text);
        free(s->items[i].marks);
    }
    free(s->items);
    *s = (load_samples){0};
}

uint32_t sample_output_tokens(const load_sample *s)
{
    return s->usage.seen && s->usage.completion_tokens ? s->usage.completion_tokens : s->mark_count;
}

uint32_t sample_prompt_tokens(const load_sample *s)
{
    return s->usage.seen && s->usage.prompt_tokens ? s->usage.prompt_tokens : s->wanted_prompt;
}
