/* tests/bench/sim_day.c: how long does a day take? The case study's box on a virtual clock, under the engine that
 * serves and the light runner: documents of 10 to 25 thousand tokens, and agents whose conversations grow to some 23
 * thousand, 77 tokens read for each one written. `sim_day [requests] [policy] [full]`; one core. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "engine/engine.h"
#include "sim/sim_runner.h"
#include "unit/sim/case_box.h"

enum { TURNS = 15, HISTORY_MAX = 32768, SLOTS = 64 };
static const double day_s = 86400;
static const double document_part = 0.4; /* of the requests */

typedef struct { /* a document, or a conversation */
    uint64_t due_us;
    uint32_t turn, turns, count;
    int32_t *tokens;
    uint64_t seed;
} session;

typedef struct {
    virtual_clock clock;
    runner *r;
    engine *e;
    rng random;
    session *sessions; /* (count), those with something due in a heap by time */
    session **heap;
    uint32_t count, heap_count;
    uint64_t asked, finished, prompt_tokens, answer_tokens;
} day;

/* ---- who comes next ---- */

static void sift_up(day *d, uint32_t at)
{
    while (at > 0 && d->heap[at]->due_us < d->heap[(at - 1) / 2]->due_us) {
        session *s = d->heap[at];
        d->heap[at] = d->heap[(at - 1) / 2];
        d->heap[at = (at - 1) / 2] = s;
    }
}

static void push(day *d, session *s)
{
    d->heap[d->heap_count++] = s;
    sift_up(d, d->heap_count - 1);
}

static session *pop(day *d)
{
    session *first = d->heap[0], *last = d->heap[--d->heap_count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < d->heap_count; at = child) {
        child += child + 1 < d->heap_count && d->heap[child + 1]->due_us < d->heap[child]->due_us;
        if (d->heap[child]->due_us >= last->due_us)
            break;
        d->heap[at] = d->heap[child];
    }
    d->heap[at] = last;
    return first;
}

/* ---- requests ---- */

static void read_more(day *d, session *s, uint32_t count)
{
    uint64_t word = 0;
    for (uint32_t i = 0; i < count && s->count < HISTORY_MAX; i++, word >>= 8) {
        if (i % 8 == 0)
            word = rng_next(&d->random);
        s->tokens[s->count++] = (int32_t)(word & 0xff);
    }
}

static void ask(day *d, session *s)
{
    bool agent = s->turns > 1;
    if (!s->tokens)
        s->tokens = malloc(HISTORY_MAX * sizeof *s->tokens);
    if (agent)
        read_more(d, s, s->turn ? 650 + rng_below(&d->random, 700) : 2500 + rng_below(&d->random, 1500));
    else
        read_more(d, s, 10000 + rng_below(&d->random, 13000));
    request *r = calloc(1, sizeof *r);
    *r = (request){.id = ++d->asked,
                   .prompt = malloc(s->count * sizeof *r->prompt),
                   .prompt_count = s->count,
                   .max_tokens = agent ? 150 + rng_below(&d->random, 270) : 20 + rng_below(&d->random, 20),
                   .klass = agent ? CLASS_INTERACTIVE : CLASS_BATCH,
                   .sampling = {.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .seed = s->seed},
                   .keep = agent,
                   .context = s};
    memcpy(r->prompt, s->tokens, s->count * sizeof *r->prompt);
    d->prompt_tokens += s->count;
    error err = {""};
    if (engine_submit(d->e, r, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
}

static void take(day *d, const engine_event *e)
{
    session *s = e->context;
    if (e->kind == EVENT_TOKEN) {
        d->answer_tokens++;
        if (s->turns > 1 && s->count < HISTORY_MAX)
            s->tokens[s->count++] = e->token.token;
    } else if (e->kind == EVENT_FINISHED) {
        d->finished++;
        if (++s->turn < s->turns) {
            s->due_us = d->clock.time_us + 2000000 + rng_below(&d->random, 20000000);
            push(d, s);
        } else {
            free(s->tokens);
            s->tokens = NULL;
        }
    }
}

/* ---- the day ---- */

static bool turn(day *d)
{
    static engine_event events[256];
    while (d->heap_count > 0 && d->heap[0]->due_us <= d->clock.time_us)
        ask(d, pop(d));
    sim_runner_interrupt_at(d->r, d->heap_count ? d->heap[0]->due_us : 0);
    bool busy = engine_step(d->e);
    size_t count = engine_take_events(d->e, events, 256);
    for (size_t i = 0; i < count; i++)
        take(d, &events[i]);
    if (busy || count > 0)
        return true;
    if (d->heap_count > 0)
        d->clock.time_us = d->heap[0]->due_us;
    return d->heap_count > 0;
}

static void open_day(day *d, uint32_t requests, const char *policy, bool full)
{
    sim_costs costs = case_costs();
    sim_config config = {.costs = &costs,
                         .light = !full,
                         .context_length = 65536,
                         .page_tokens = 32,
                         .page_count = 65536,
                         .max_sequences = SLOTS,
                         .reply_tokens = 1 << 30};
    engine_config engine = {.policy = policy, .clock = &d->clock.base, .max_queued = 16384};
    error err = {""};
    uint32_t documents = (uint32_t)(requests * document_part), agents = (requests - documents) / TURNS;
    virtual_clock_init(&d->clock, 1000000);
    if (sim_runner_create(&d->r, &config, &err) || engine_create(&d->e, d->r, &engine, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    d->random = (rng){1};
    d->count = documents + agents;
    d->sessions = calloc(d->count, sizeof *d->sessions);
    d->heap = calloc(d->count, sizeof(session *));
    for (uint32_t i = 0; i < d->count; i++) {
        session *s = &d->sessions[i];
        s->turns = i < documents ? 1 : TURNS;
        s->seed = i;
        s->due_us = d->clock.time_us + (uint64_t)(rng_unit(&d->random) * day_s * requests / 10000 * 1e6);
        push(d, s);
    }
}

int main(int argc, char **argv)
{
    static day d;
    uint32_t requests = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 10000;
    const char *policy = argc > 2 ? argv[2] : "cadence";
    open_day(&d, requests, policy, argc > 3 && strcmp(argv[3], "full") == 0);
    uint64_t start_us = clock_now_us();
    while (turn(&d)) {}
    double wall_s = (double)(clock_now_us() - start_us) / 1e6, cpu_s = (double)clock() / CLOCKS_PER_SEC;
    engine_snapshot now;
    engine_read_snapshot(d.e, &now);
    printf("%s: %llu requests, %.1f M prompt tokens (%.1f M cached), %.2f M written, ratio %.0f\n", policy,
           (unsigned long long)d.finished, (double)d.prompt_tokens / 1e6, (double)now.cached_tokens / 1e6,
           (double)d.answer_tokens / 1e6, (double)d.prompt_tokens / (double)d.answer_tokens);
    printf("%.1f simulated hours, busy %.0f%%, %.2f M steps (%.2f M decode, %.2f M prefill runs)\n",
           (double)d.clock.time_us / 3.6e9, 100 * (double)now.busy_us / (double)d.clock.time_us,
           (double)now.steps / 1e6, (double)now.decode_steps / 1e6, (double)now.prefill_runs / 1e6);
    printf("%.2f s, of the processor %.2f s: %.2f us a step\n", wall_s, cpu_s, cpu_s * 1e6 / (double)now.steps);
    engine_destroy(d.e);
    d.r->ops->close(d.r);
    for (uint32_t i = 0; i < d.count; i++)
        free(d.sessions[i].tokens);
    free(d.sessions);
    free(d.heap);
    return 0;
}
