/* sim/world_prompt.c: token ids instead of words: eight bytes of each random number. A session's turns come from the
 * keys that load/prompt makes its words from, so two prompts share exactly what their texts would share. */
#include "sim/world_state.h"

#include <stdlib.h>

typedef struct {
    int32_t *at, *end;
} writer;

static void put_random(writer *w, uint64_t key, uint32_t count)
{
    rng r = {key};
    if (count > (uint64_t)(w->end - w->at))
        count = (uint32_t)(w->end - w->at);
    int32_t *at = w->at, *stop = at + count;
    while (stop - at >= 8) {
        uint64_t bits = rng_next(&r);
        for (int i = 0; i < 8; i++)
            at[i] = (int32_t)(bits >> 8 * i & 255);
        at += 8;
    }
    for (uint64_t bits = rng_next(&r); at < stop; bits >>= 8)
        *at++ = (int32_t)(bits & 255);
    w->at = stop;
}

static void put_trace(writer *w, const load_session *s, uint32_t count)
{
    uint32_t block = s->block_tokens < 1 ? 1 : (uint32_t)(s->block_tokens + 0.5), left = count;
    for (uint32_t i = 0; i < s->row->block_count && left > 0; i++) {
        uint32_t part = left < block ? left : block;
        put_random(w, s->shared_key ^ ((s->blocks[s->row->block_start + i] + 1) * 0xD1B54A32D192ED03u), part);
        left -= part;
    }
    put_random(w, s->key, left);
}

static void put_answer(writer *w, span text) /* a byte is a token: byte_vocab.h */
{
    for (size_t i = 0; i < text.size && w->at < w->end; i++)
        *w->at++ = (unsigned char)text.data[i];
}

/* What a chat template writes around a message: about three fifths of it stand before the text, those of the answer at
 * the prompt's end too. */
enum { TEMPLATE_SEED = 5 };

static uint32_t head_of(uint32_t message_tokens)
{
    return (message_tokens * 3 + 4) / 5;
}

static void put_head(writer *w, uint32_t message_tokens, int role)
{
    put_random(w, TEMPLATE_SEED + 1 + (uint64_t)role, head_of(message_tokens));
}

static void put_tail(writer *w, uint32_t message_tokens)
{
    put_random(w, TEMPLATE_SEED, message_tokens - head_of(message_tokens));
}

/* Where the last turns begin, so many as a request may name. */
static void mark_turn(flight *out, uint32_t position)
{
    if (out->turn_mark_count == TURN_MARKS_MAX) {
        for (uint32_t i = 1; i < TURN_MARKS_MAX; i++)
            out->turn_marks[i - 1] = out->turn_marks[i];
        out->turn_mark_count--;
    }
    out->turn_marks[out->turn_mark_count++] = position;
}

static uint64_t prompt_length(const load_request *request, uint32_t around)
{
    const load_session *s = request->session;
    uint64_t count = s->shared_tokens + (s->shared_tokens ? around : 0) + head_of(around);
    for (uint32_t i = 0; i <= request->turn; i++)
        count += s->turns[i].prompt_tokens + around + (i < request->turn ? request->answers[i].size + around : 0);
    return count;
}

int32_t *world_prompt(const load_request *request, uint32_t message_tokens, flight *out)
{
    enum { SYSTEM, USER, ASSISTANT };
    const load_session *s = request->session;
    bool chat = s->role != LOAD_TRACE; /* a trace's lengths are those of whole prompts */
    uint32_t around = chat ? message_tokens : 0;
    uint64_t count = prompt_length(request, around);
    int32_t *tokens = malloc((count ? count : 1) * sizeof *tokens);
    if (!tokens)
        return NULL;
    writer w = {tokens, tokens + count};
    if (s->shared_tokens) {
        put_head(&w, around, SYSTEM);
        put_random(&w, s->shared_key, s->shared_tokens);
        put_tail(&w, around);
    }
    out->shared_tokens = (uint32_t)(w.at - tokens);
    for (uint32_t i = 0; i <= request->turn; i++) {
        if (i)
            mark_turn(out, (uint32_t)(w.at - tokens));
        put_head(&w, around, USER);
        if (chat)
            put_random(&w, s->key + 1 + i, s->turns[i].prompt_tokens);
        else
            put_trace(&w, s, s->turns[i].prompt_tokens);
        put_tail(&w, around);
        put_head(&w, around, ASSISTANT);
        if (i < request->turn) {
            put_answer(&w, request->answers[i]);
            put_tail(&w, around);
        }
    }
    out->prompt_count = (uint32_t)count;
    out->conversation = request->turn > 0;
    if (chat) /* of its blocks another row may have left each */
        out->fresh = s->turns[request->turn].prompt_tokens;
    return tokens;
}
