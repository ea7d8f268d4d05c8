/* server/debug/steps.c: GET /debug/steps?since=CURSOR: the engine's records since then, as short arrays. */
#include "server/debug/debug.h"

#include <inttypes.h>

#include "base/clock.h"
#include "server/debug/query.h"

typedef struct {
    buf steps, tokens, moments;
} record_lists;

static void write_record(record_lists *lists, const trace_record *r)
{
    buf *out = r->kind <= TRACE_FUSED ? &lists->steps : r->kind == TRACE_TOKEN ? &lists->tokens : &lists->moments;
    if (out->size)
        buf_byte(out, ',');
    if (r->kind <= TRACE_FUSED)
        buf_printf(
            out, "[%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%u,%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%u,%u,%u]",
            r->kind, r->start_us, r->duration_us, r->request_id, r->rows, r->tokens, r->position, r->predicted_us,
            r->bytes, r->flags, r->tenant, r->part);
    else if (r->kind == TRACE_TOKEN)
        buf_printf(out, "[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%u,%u,%u]", r->request_id, r->start_us,
                   r->duration_us, r->predicted_us, r->flags, r->tenant, r->klass);
    else
        buf_printf(out, "[%u,%" PRIu64 ",%" PRIu64 ",%u,%u,%u,%" PRIu32 "]", r->kind, r->start_us, r->request_id,
                   r->tenant, r->klass, r->flags, r->tokens);
}

/* Without `since`: the newest STEPS_MAX. */
static bool read_cursor(exchange *x, uint64_t *cursor)
{
    uint64_t newest = UINT64_MAX, lost;
    engine_read_trace(x->model->engine, &newest, NULL, 0, &lost);
    query_result found = query_number(buf_span(&x->query), "since", cursor);
    if (found == QUERY_WRONG)
        return api_fail(&x->error, 400, "since", "since must be a cursor that an earlier answer gave");
    if (found == QUERY_ABSENT)
        *cursor = newest > STEPS_MAX ? newest - STEPS_MAX : 0;
    if (*cursor > newest) /* of a server before this one */
        *cursor = newest;
    return true;
}

static void append_list(buf *out, const char *name, buf *list)
{
    buf_printf(out, ",\"%s\":[", name);
    buf_append(out, list->data, list->size);
    buf_byte(out, ']');
    buf_free(list);
}

void debug_steps(exchange *x)
{
    trace_record records[TRACE_COPY_MAX];
    record_lists lists = {0};
    uint64_t cursor = 0, lost_before = 0;
    uint32_t total = 0;
    size_t count = TRACE_COPY_MAX;
    if (!read_cursor(x, &cursor))
        return;
    while (count == TRACE_COPY_MAX && total < STEPS_MAX) {
        uint64_t lost = 0;
        count = engine_read_trace(x->model->engine, &cursor, records, TRACE_COPY_MAX, &lost);
        for (size_t i = 0; i < count; i++)
            write_record(&lists, &records[i]);
        lost_before += lost;
        total += (uint32_t)count;
    }
    buf *out = &x->answer.body;
    buf_printf(out, "{\"cursor\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"more\":%s,\"now_us\":%" PRIu64, cursor, lost_before,
               count == TRACE_COPY_MAX ? "true" : "false", clock_now_us());
    append_list(out, "steps", &lists.steps);
    append_list(out, "tokens", &lists.tokens);
    append_list(out, "moments", &lists.moments);
    buf_byte(out, '}');
    buf_text(&x->answer.headers, "Cache-Control: no-store\r\n");
    x->answer.status = 200;
    x->answer.type = "application/json";
}
