/* grammar_tool: reads a JSON object a line, {"schema": ..., "texts": [...], "samples": n, "seed": s}, where "regex",
 * "ebnf" may stand for "schema"; answers with one, {"error": text or null, "status": n, "accepts": [...], "samples":
 * [...], "us": time of compilation}. Samples are random walks over bytes; one that does not end is null. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "text/grammar/machine.h"

enum { SAMPLE_BYTES_MAX = 3000, EAGER_BYTES = 200 };

static grammar *compile(const json_t *job, error *err, status *st)
{
    grammar_builder *b;
    grammar *g = NULL;
    grammar_rule root = 0;
    const json_t *schema = json_object_get(job, "schema"), *regex = json_object_get(job, "regex"),
                 *ebnf = json_object_get(job, "ebnf");
    if ((*st = grammar_builder_create(&b, err)))
        return NULL;
    if (schema)
        root = grammar_json_schema(b, schema);
    else if (regex)
        root = grammar_regex(b, span_of(json_string_value(regex), json_string_length(regex)));
    else if (ebnf)
        root = grammar_ebnf(b, span_of(json_string_value(ebnf), json_string_length(ebnf)));
    *st = grammar_finish(b, root, &g, err);
    grammar_builder_destroy(b);
    return g;
}

static uint32_t allowed_bytes(const machine *m, const way_list *now, uint8_t *bytes, bool eager)
{
    bool seen[256] = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < now->count; i++) {
        const fa_state *s = &m->g->all.states[now->ways[i].state];
        for (uint32_t e = 0; e < s->edge_count; e++)
            for (int c = m->g->all.edges[s->first_edge + e].lo; c <= m->g->all.edges[s->first_edge + e].hi; c++)
                seen[c] = true;
    }
    for (int c = 0; c < 256; c++)
        if (seen[c] && (!eager || strchr("\"}]", c)) && (c || !eager))
            bytes[count++] = (uint8_t)c;
    return count;
}

/* Letters and structure rather than all of Unicode, mostly. */
static uint8_t pick(rng *r, const uint8_t *bytes, uint32_t count)
{
    for (int tries = 0; tries < 8; tries++) {
        uint8_t c = bytes[rng_below(r, count)];
        if (c < 0x80 || rng_below(r, 20) == 0)
            return c;
    }
    return bytes[rng_below(r, count)];
}

static json_t *sample(const grammar *g, rng *r)
{
    machine m;
    way buffers[2][WAYS_MAX];
    buf text = {0};
    way_list now = {buffers[0], 0, WAYS_MAX, false};
    json_t *out = json_null();
    if (machine_init(&m, g, 0))
        return out;
    machine_start(&m, &now);
    while (text.size < SAMPLE_BYTES_MAX) {
        uint8_t bytes[256];
        bool eager = text.size > EAGER_BYTES && rng_below(r, 4);
        if (now.ended && (!now.count || eager || rng_below(r, 3) == 0)) {
            out = json_stringn_nocheck(text.data ? text.data : "", text.size);
            break;
        }
        uint32_t count = allowed_bytes(&m, &now, bytes, eager);
        if (!count)
            count = allowed_bytes(&m, &now, bytes, false);
        if (!count) {
            out = json_string("dead end");
            break;
        }
        way_list next = {now.ways == buffers[0] ? buffers[1] : buffers[0], 0, WAYS_MAX, false};
        uint8_t byte = pick(r, bytes, count);
        machine_step(&m, now.ways, now.count, byte, &next);
        buf_byte(&text, (char)byte);
        now = next;
    }
    machine_free(&m);
    buf_free(&text);
    return out;
}

static json_t *answer(const json_t *job)
{
    error err = {""};
    status st;
    uint64_t start_us = clock_now_us();
    grammar *g = compile(job, &err, &st);
    json_t *out = json_pack("{s:i, s:I, s:o}", "status", (int)st, "us", (json_int_t)(clock_now_us() - start_us),
                            "error", g ? json_null() : json_string(err.text));
    json_t *accepts = json_array(), *samples = json_array(), *text;
    size_t i;
    rng r = {(uint64_t)json_integer_value(json_object_get(job, "seed"))};
    json_array_foreach(json_object_get(job, "texts"), i, text) json_array_append_new(
        accepts, json_boolean(g && grammar_accepts(g, span_of(json_string_value(text), json_string_length(text)))));
    for (json_int_t n = json_integer_value(json_object_get(job, "samples")); g && n > 0; n--)
        json_array_append_new(samples, sample(g, &r));
    json_object_set_new(out, "accepts", accepts);
    json_object_set_new(out, "samples", samples);
    if (g)
        json_object_set_new(out, "states", json_integer(g->all.state_count));
    grammar_release(g);
    return out;
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    while ((size = getline(&line, &capacity, stdin)) > 0) {
        json_error_t where;
        json_t *job = json_loadb(line, (size_t)size, JSON_ALLOW_NUL, &where);
        json_t *out = job ? answer(job) : json_pack("{s:s}", "error", where.text);
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(job);
        json_decref(out);
    }
    free(line);
    return 0;
}
