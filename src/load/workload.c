/* load/workload.c: the shapes. Agents: one program, many tasks: a system prompt with tools that all share, then turns
 * that bring tool results. Documents: a long fresh prompt, a short answer (about 80:1, the case study's ratio). The
 * default sizes fit a context of 8,192 tokens. */
#include "load/workload.h"

#include <math.h>

typedef struct {
    uint32_t low, high;
} range;

static const range agent_turns = {4, 8}, agent_task = {100, 240}, agent_result = {80, 400}, agent_answer = {40, 120};
static const range agent_start_ms = {0, 400}, agent_think_ms = {150, 1500}; /* before the first turn, before others */
static const range document_prompt = {3600, 4400}, document_answer = {48, 48};
enum { AGENT_SHARED = 1200, PROMPT_MIN = 8, DEFAULT_AGENTS = 2, DEFAULT_WORKERS = 3 };
enum { MIXED_DOCUMENTS = 9 };
static const double default_duration_s = 30, mixed_s = 60;

const char *load_role_name(load_role role)
{
    static const char *const names[] = {"agents", "documents", "trace"};
    return names[role];
}

static uint64_t mixed_key(uint64_t a, uint64_t b)
{
    rng r = {a ^ (b * 0x9E3779B97F4A7C15u)};
    rng_next(&r);
    return rng_next(&r);
}

static uint32_t draw(rng *r, range x)
{
    return x.low + (uint32_t)rng_below(r, (uint64_t)x.high - x.low + 1);
}

static uint32_t scaled(const workload *w, double tokens)
{
    double n = floor(tokens * w->scale + 0.5);
    return n < PROMPT_MIN ? PROMPT_MIN : n > 1e8 ? 100000000 : (uint32_t)n;
}

/* About `mean`, by the spread; `usual` where none was given. */
static range sized(const workload *w, uint32_t mean, range usual)
{
    double reach = w->sizes.spread * mean;
    return mean ? (range){(uint32_t)(mean - reach), (uint32_t)(mean + reach)} : usual;
}

static range document_range(const workload *w)
{
    return sized(w, w->sizes.document_tokens, document_prompt);
}

static range answer_range(uint32_t tokens, range usual)
{
    return tokens ? (range){tokens, tokens} : usual;
}

/* Unscaled: what all agents share, of the first prompt half at most. */
static uint32_t agent_shared(const workload *w)
{
    uint32_t least = sized(w, w->sizes.prompt_tokens, (range){2 * AGENT_SHARED, 0}).low;
    return least < 2 * AGENT_SHARED ? least / 2 : AGENT_SHARED;
}

/* The session's own part of the first prompt. */
static range agent_first(const workload *w)
{
    range first = sized(w, w->sizes.prompt_tokens, agent_task);
    uint32_t shared = w->sizes.prompt_tokens ? agent_shared(w) : 0;
    return (range){first.low - shared, first.high - shared};
}

static void agent_session(const workload *w, rng *r, load_session *out)
{
    range answer = answer_range(w->sizes.output_tokens, agent_answer), first = agent_first(w);
    out->shared_tokens = scaled(w, agent_shared(w));
    out->turn_count = draw(r, agent_turns);
    for (uint32_t i = 0; i < out->turn_count; i++) {
        out->turns[i] = (load_turn){.prompt_tokens = scaled(w, draw(r, i ? agent_result : first)),
                                    .output_tokens = draw(r, answer),
                                    .think_us = draw(r, i ? agent_think_ms : agent_start_ms) * 1000ull};
        if (i && w->sizes.think_s > 0)
            out->turns[i].think_us = (uint64_t)(w->sizes.think_s * 1e6);
    }
}

void workload_session(const workload *w, load_role role, uint32_t index, load_session *out)
{
    uint64_t role_key = mixed_key(w->seed, (uint64_t)role + 1);
    *out = (load_session){.role = role, .index = index, .key = mixed_key(role_key, (uint64_t)index + 1)};
    out->shared_key = mixed_key(role_key, UINT64_MAX);
    out->turn_count = 1;
    rng r = {out->key};
    if (role == LOAD_AGENTS) {
        agent_session(w, &r, out);
    } else if (role == LOAD_DOCUMENTS) {
        range answer = answer_range(w->sizes.document_output, document_answer);
        out->turns[0] = (load_turn){scaled(w, draw(&r, document_range(w))), draw(&r, answer), 0};
    } else {
        const trace_row *row = &w->trace->rows[index % w->trace->row_count];
        out->turns[0] = (load_turn){scaled(w, row->input_tokens), row->output_tokens ? row->output_tokens : 1, 0};
        out->row = row;
        out->blocks = w->trace->blocks;
        out->block_tokens = TRACE_BLOCK_TOKENS * w->scale;
    }
}

uint64_t workload_longest(const workload *w, load_role role)
{
    if (role == LOAD_DOCUMENTS)
        return (uint64_t)scaled(w, document_range(w).high) +
               answer_range(w->sizes.document_output, document_answer).high;
    if (role == LOAD_AGENTS)
        return (uint64_t)scaled(w, agent_shared(w)) + scaled(w, agent_first(w).high) +
               (uint64_t)agent_turns.high *
                   (scaled(w, agent_result.high) + answer_range(w->sizes.output_tokens, agent_answer).high);
    uint64_t longest = 0;
    for (uint32_t i = 0; i < w->trace->row_count; i++) {
        const trace_row *row = &w->trace->rows[i];
        uint64_t tokens = (uint64_t)scaled(w, row->input_tokens) + row->output_tokens;
        longest = tokens > longest ? tokens : longest;
    }
    return longest;
}

uint32_t session_prompt_tokens(const load_session *s, uint32_t turn)
{
    uint32_t tokens = s->shared_tokens;
    for (uint32_t i = 0; i <= turn; i++)
        tokens += s->turns[i].prompt_tokens + (i < turn ? s->turns[i].output_tokens : 0);
    return tokens;
}

static uint64_t share_us(double seconds, double share)
{
    return (uint64_t)(seconds * share * 1e6);
}

static load_group group_of(const plan_options *o, load_role role, uint32_t limit)
{
    uint32_t agents = o->agents ? o->agents : DEFAULT_AGENTS, workers = o->workers ? o->workers : DEFAULT_WORKERS;
    load_group g = {.role = role, .request_limit = limit};
    if (o->rate > 0)
        g.rate = o->rate;
    else
        g.concurrency = role == LOAD_AGENTS ? agents : workers;
    return g;
}

/* Agents alone, documents alone, both; the agents have a head start, so that they stream when the documents come.
 * Without --duration and --requests each part takes what a small machine needs and a large one can fill: so many
 * documents, for at least some seconds, and nothing new after a while. */
static void plan_mixed(const plan_options *o, load_plan *out)
{
    bool timed = o->duration_s > 0, fixed = timed || o->requests;
    double seconds = timed ? o->duration_s : mixed_s;
    uint32_t documents = o->requests ? o->requests : timed ? 0 : MIXED_DOCUMENTS;
    const plan_options agents = {.agents = o->agents}; /* --rate is the documents': agents go on in sessions */
    uint64_t head_us = o->head_start_s > 0 ? share_us(o->head_start_s, 1) : 0;
    *out = (load_plan){.phase_count = 3};
    out->phases[0] =
        (load_phase){.name = "agents alone", .duration_us = share_us(seconds, 0.2) + head_us, .group_count = 1};
    out->phases[0].groups[0] = group_of(&agents, LOAD_AGENTS, 0);
    out->phases[1] = (load_phase){.name = "documents alone",
                                  .duration_us = o->requests ? 0 : share_us(seconds, 0.25),
                                  .at_least_us = fixed ? 0 : share_us(seconds, 0.1),
                                  .group_count = 1};
    out->phases[1].groups[0] = group_of(o, LOAD_DOCUMENTS, (documents + 1) / 2);
    out->phases[2] = (load_phase){.name = "together",
                                  .duration_us = o->requests ? 0 : share_us(seconds, 0.55) + head_us,
                                  .at_least_us = fixed ? 0 : share_us(seconds, 0.35) + head_us,
                                  .group_count = 2,
                                  .together = true};
    out->phases[2].groups[0] = group_of(&agents, LOAD_AGENTS, 0);
    out->phases[2].groups[1] = group_of(o, LOAD_DOCUMENTS, documents);
    out->phases[2].groups[1].delay_us = head_us ? head_us : share_us(seconds, 0.05);
}

void workload_day(uint32_t requests, load_plan *plan, workload_sizes *sizes)
{
    const double day_s = 86400, turns = 6; /* of a session, on average */
    uint32_t documents = (uint32_t)(requests * 0.3), asked = requests - documents;
    *sizes = (workload_sizes){.document_tokens = 14500,
                              .document_output = 180,
                              .prompt_tokens = 12500,
                              .output_tokens = 180,
                              .think_s = sizes->think_s > 0 ? sizes->think_s : 20,
                              .spread = 0.4};
    *plan = (load_plan){.phase_count = 1};
    plan->phases[0] = (load_phase){.name = "day", .group_count = 1 + (documents > 0)};
    plan->phases[0].groups[0] =
        (load_group){.role = LOAD_AGENTS, .rate = asked / turns / day_s, .request_limit = asked};
    plan->phases[0].groups[1] =
        (load_group){.role = LOAD_DOCUMENTS, .rate = documents / day_s, .request_limit = documents};
}

void workload_plan(const plan_options *o, const trace_file *trace, load_plan *out)
{
    if (o->kind == BENCH_MIXED) {
        plan_mixed(o, out);
        return;
    }
    load_role role = o->kind == BENCH_AGENTS ? LOAD_AGENTS : o->kind == BENCH_DOCUMENTS ? LOAD_DOCUMENTS : LOAD_TRACE;
    double duration_s = o->duration_s;
    if (duration_s <= 0 && !o->requests && role != LOAD_TRACE)
        duration_s = default_duration_s;
    *out = (load_plan){.phase_count = 1};
    out->phases[0] = (load_phase){.name = load_role_name(role), .duration_us = (uint64_t)(duration_s * 1e6)};
    out->phases[0].group_count = 1;
    load_group *g = &out->phases[0].groups[0];
    *g = group_of(o, role, o->requests);
    if (role == LOAD_TRACE) {
        bool closed = o->agents > 0 || o->workers > 0;
        *g = (load_group){.role = role, .request_limit = o->requests};
        g->concurrency = closed ? (o->workers ? o->workers : o->agents) : 0;
        if (!g->request_limit || g->request_limit > trace->row_count)
            g->request_limit = trace->row_count;
    }
}

void arrivals_open(load_arrivals *a, uint64_t seed, load_role role, double rate)
{
    *a = (load_arrivals){.random = {mixed_key(seed, 1000 + (uint64_t)role)}, .rate = rate};
}

uint64_t arrivals_next(load_arrivals *a)
{
    a->at_s += -log(1.0 - rng_unit(&a->random)) / a->rate;
    return (uint64_t)(a->at_s * 1e6);
}
