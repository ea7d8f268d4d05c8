/* server/api/openai_answer.c: see openai_answer.h. */
#include "server/api/openai_answer.h"

#include "server/cache_usage.h"

static void write_usage(buf *out, const exchange *x, const generation *only)
{
    uint64_t prompt = 0, generated = 0, cached = 0, thought = 0;
    bool details = x->plan.output.thoughts != NULL;
    bool known =
        true; /* what was cached: the engine says it with the end, or before if the prompt took several steps */
    for (uint32_t i = 0; i < x->count; i++) {
        const generation *g = &x->generations[i];
        bool first = i % x->plan.choices == 0; /* the choices of a prompt share it */
        prompt += first ? g->prompt_tokens : 0;
        cached += first ? g->cached : 0;
        known = known && (!first || g->done || g->cached);
        generated += !only || only == g ? g->tokens : 0;
        thought += !only || only == g ? g->thought_tokens : 0;
    }
    buf_printf(out, "\"usage\":{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu",
               (unsigned long long)prompt, (unsigned long long)generated, (unsigned long long)(prompt + generated));
    if (known)
        buf_printf(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%llu}", (unsigned long long)cached);
    if (details)
        buf_printf(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%llu}", (unsigned long long)thought);
    buf_byte(out, '}');
}

static void write_rate(buf *out, const char *name, uint32_t count, uint64_t us)
{
    double ms = (double)us * 1e-3;
    buf_printf(out, "\"%s_n\":%u,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.3f,\"%s_per_second\":%.3f", name, count, name, ms,
               name, count ? ms / count : 0.0, name, us ? count * 1e6 / (double)us : 0.0);
}

/* While it runs, the durations as seen from here. */
void openai_timings(buf *out, const generation *g)
{
    uint64_t prompt_us = g->done ? g->prefill_us : g->first_us - g->exchange->arrived_us;
    uint64_t predicted_us = g->done ? g->decode_us : g->last_us - g->first_us;
    buf_printf(out, "\"timings\":{\"cache_n\":%u,", g->cached);
    write_rate(out, "prompt", g->prompt_tokens - g->cached, prompt_us);
    buf_byte(out, ',');
    write_rate(out, "predicted", g->tokens, predicted_us);
    buf_byte(out, '}');
}

void openai_begin(exchange *x, const openai_shape *shape)
{
    buf_printf(&x->prefix, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%llu,\"model\":", x->id,
               x->plan.stream ? shape->chunk_object : shape->object, (unsigned long long)x->created_unix);
    json_text_string(&x->prefix, span_from(x->model->name));
    if (x->plan.tier != TIER_NONE)
        buf_printf(&x->prefix, ",\"service_tier\":\"%s\"", terms_tier_text(&x->terms, x->plan.tier));
    buf_text(&x->prefix, ",\"system_fingerprint\":\"headway\",\"choices\":[");
}

void openai_chunk(buf *out, exchange *x, generation *g, const openai_shape *shape, const char *finish)
{
    buf_reserve(out, x->prefix.size + g->pieces.bytes.size + 200);
    buf_text(out, "data: ");
    buf_append(out, x->prefix.data, x->prefix.size);
    shape->chunk_choice(out, x, g, finish);
    buf_byte(out, ']');
    if (x->plan.continuous_usage) {
        buf_byte(out, ',');
        write_usage(out, x, g);
    } else if (x->plan.include_usage) {
        buf_text(out, ",\"usage\":null");
    }
    if (x->count == 1 && (finish || x->plan.timings)) {
        buf_byte(out, ',');
        openai_timings(out, g);
    }
    if (x->count == 1 && finish)
        cache_usage_field(x, g, out);
    buf_text(out, "}\n\n");
}

void openai_failed(buf *out, exchange *x, generation *g)
{
    api_error e = {0};
    (void)x;
    api_fail(&e, 500, NULL, "%s", g->error[0] ? g->error : "the engine failed");
    buf_text(out, "data: ");
    api_error_write(&e, out);
    buf_text(out, "\n\n");
}

void openai_end(buf *out, exchange *x)
{
    if (x->plan.include_usage) {
        buf_printf(out, "data: %s],", x->prefix.data);
        write_usage(out, x, NULL);
        buf_text(out, "}\n\n");
    }
    buf_text(out, "data: [DONE]\n\n");
}

void openai_whole(buf *out, exchange *x, const openai_shape *shape)
{
    buf_append(out, x->prefix.data, x->prefix.size);
    for (uint32_t i = 0; i < x->count; i++) {
        if (i)
            buf_byte(out, ',');
        shape->full_choice(out, x, &x->generations[i]);
    }
    buf_text(out, "],");
    write_usage(out, x, NULL);
    if (x->count == 1) {
        buf_byte(out, ',');
        openai_timings(out, &x->generations[0]);
        cache_usage_field(x, &x->generations[0], out);
    }
    buf_byte(out, '}');
}

void openai_progress(buf *out, exchange *x, const generation *g, const engine_event *event)
{
    (void)g;
    buf_printf(out, "data: %s],\"prompt_progress\":{\"total\":%u,\"cache\":%u,\"processed\":%u,\"time_ms\":%llu}}\n\n",
               x->prefix.data, event->prompt_total, event->cached, event->prompt_done,
               (unsigned long long)(event->time_us - x->arrived_us) / 1000);
}
