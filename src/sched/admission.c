/* sched/admission.c: see the header. */
#include "sched/admission.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const uint32_t retry_most_s = 600;
static const double first_token_margin = 1.1; /* predictions are not promises */

static const struct {
    int status;
    const char *reason;
} verdicts[] = {
    [ADMIT_OK] = {200, NULL},
    [ADMIT_QUEUE_FULL] = {429, "queue_full"},
    [ADMIT_TENANT_QUEUE] = {429, "tenant_queue_full"},
    [ADMIT_TENANT_TOKENS] = {429, "tenant_tokens_in_flight"},
    [ADMIT_FIRST_TOKEN] = {429, "first_token_bound"},
    [ADMIT_GAP] = {400, "gap_bound_impossible"},
    [ADMIT_GAP_LOAD] = {429, "gap_bound_load"},
    [ADMIT_DRAINING] = {503, "draining"},
    [ADMIT_FAILED] = {503, "engine_failed"},
    [ADMIT_TENANT_REMOVED] = {403, "tenant_removed"},
};

static uint32_t retry_after(double us)
{
    double s = ceil(us / 1e6);
    return s < 1 ? 1 : s > retry_most_s ? retry_most_s : (uint32_t)s;
}

static bool refuse(admission_answer *a, admission_verdict verdict, double wait_us, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static bool refuse(admission_answer *a, admission_verdict verdict, double wait_us, const char *format, ...)
{
    va_list arguments;
    a->verdict = verdict;
    a->status = verdicts[verdict].status;
    a->reason = verdicts[verdict].reason;
    a->retry_after_s = a->status == 429 || a->status == 503 ? retry_after(wait_us) : 0;
    va_start(arguments, format);
    vsnprintf(a->message, sizeof a->message, format, arguments);
    va_end(arguments);
    return false;
}

static double prefill_us(const admission_view *v, uint32_t tokens)
{
    double n = tokens;
    return v->chunk_us + v->prefill_token_us * n + v->prefill_depth_us * n * (n - 1) / 2;
}

static bool check_state(admission_answer *a, const admission_view *v, const tenant *who)
{
    if (v->failed)
        return refuse(a, ADMIT_FAILED, 30e6, "the engine has failed and takes no work");
    if (v->draining)
        return refuse(a, ADMIT_DRAINING, 10e6, "the server is shutting down");
    if (who->removed)
        return refuse(a, ADMIT_TENANT_REMOVED, 0, "tenant %s is no longer served", who->name);
    return true;
}

static bool check_queues(admission_answer *a, const admission_view *v, const tenant *who, const tenant_counts *counts,
                         const admission_ask *ask, uint32_t copies)
{
    double backlog_us = v->backlog_documents_us / (v->prefill_share > 0 ? v->prefill_share : 1);
    double turn_us = backlog_us / (v->waiting + 1); /* until one of those who wait is gone */
    if (v->waiting_max > 0 && v->waiting + copies > v->waiting_max)
        return refuse(a, ADMIT_QUEUE_FULL, turn_us, "the queue is full: %u requests wait, at most %u may", v->waiting,
                      v->waiting_max);
    /* Those that could run at once do not count as waiting. */
    uint32_t room = who->concurrent_max == 0                ? v->slots_free
                    : who->concurrent_max > counts->running ? who->concurrent_max - counts->running
                                                            : 0;
    if (who->queued_max > 0 && (uint64_t)counts->waiting + copies > (uint64_t)who->queued_max + room)
        return refuse(a, ADMIT_TENANT_QUEUE, turn_us, "tenant %s: %u requests wait, at most %u may", who->name,
                      counts->waiting, who->queued_max);
    uint64_t tokens = (uint64_t)copies * ((uint64_t)ask->prompt_tokens + ask->max_tokens);
    if (who->tokens_max > 0 && counts->tokens_held + tokens > who->tokens_max)
        return refuse(a, ADMIT_TENANT_TOKENS, turn_us,
                      "tenant %s: %llu tokens are in flight, %llu more asked for, at most %llu may be", who->name,
                      (unsigned long long)counts->tokens_held, (unsigned long long)tokens,
                      (unsigned long long)who->tokens_max);
    return true;
}

/* The default bound is never refused: who asks for nothing gets what there is. */
static bool check_gap(admission_answer *a, const admission_view *v, const tenant *who, const admission_ask *ask)
{
    double asked_us = (double)(ask->gap_us ? ask->gap_us : who->gap_us);
    a->smallest_gap_us = v->smallest_gap_us;
    if (ask->klass == CLASS_BATCH || asked_us <= 0)
        return true;
    if (asked_us < v->smallest_gap_us)
        return refuse(a, ADMIT_GAP, 0, "a gap bound of %.3g ms cannot be kept here; the smallest is %.3g ms",
                      asked_us / 1e3, v->smallest_gap_us / 1e3);
    if (asked_us < v->decode_us)
        return refuse(a, ADMIT_GAP_LOAD, 1e6,
                      "a gap bound of %.3g ms cannot be kept beside %u streams: a step takes %.3g ms now",
                      asked_us / 1e3, v->streams, v->decode_us / 1e3);
    return true;
}

/* What has to be computed of it; only the engine thread can look into the cache. */
static uint32_t expected_tokens(const admission_ask *ask, const tenant_counts *counts)
{
    double share = ask->conversation ? counts->cached_share : 0;
    return (uint32_t)(ask->prompt_tokens * (1 - (share < 0 ? 0 : share > 1 ? 1 : share)));
}

static bool check_first_token(admission_answer *a, const admission_view *v, const tenant *who,
                              const tenant_counts *counts, const admission_ask *ask)
{
    double asked_us = (double)(ask->first_token_us ? ask->first_token_us : who->first_token_us);
    if (ask->prompt_tokens == 0)
        return true;
    uint32_t tokens = expected_tokens(ask, counts);
    bool is_long = tokens > v->document_tokens;
    bool turn = is_long && ask->klass != CLASS_BATCH && tokens <= v->turn_tokens && tokens <= ask->prompt_tokens / 2;
    a->document = is_long && !turn;
    double share = v->prefill_share > 0 ? v->prefill_share : 1;
    double before_us = a->document ? v->backlog_documents_us : turn ? v->backlog_turns_us : v->backlog_short_us;
    a->predicted_first_token_us = (before_us + prefill_us(v, tokens)) / share;
    if (asked_us > 0 && a->predicted_first_token_us > asked_us * first_token_margin)
        return refuse(a, ADMIT_FIRST_TOKEN, before_us / share,
                      "the first token would come after %.3g ms, its bound is %.3g ms",
                      a->predicted_first_token_us / 1e3, asked_us / 1e3);
    return true;
}

admission_answer admission_decide(const admission_view *view, const tenant *who, const tenant_counts *counts,
                                  const admission_ask *ask)
{
    admission_answer a = {.status = 200};
    uint32_t copies = ask->copies ? ask->copies : 1;
    if (check_state(&a, view, who) && check_queues(&a, view, who, counts, ask, copies) && check_gap(&a, view, who, ask))
        check_first_token(&a, view, who, counts, ask);
    return a;
}
