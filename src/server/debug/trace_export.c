/* server/debug/trace_export.c: one event a line. Process 1 is the device, process 2 the requests; a request's id is the
 * number of its track. */
#include "server/debug/trace_export.h"

#include <inttypes.h>
#include <stdio.h>

#include "server/json_text.h"

enum { DEVICE = 1, REQUESTS = 2 };

static void open_event(trace_export *e, buf *out)
{
    buf_text(out, e->begun ? ",\n{" : "[\n{");
    e->begun = true;
}

static void write_name(trace_export *e, buf *out, const char *what, int process, uint64_t track, span name)
{
    open_event(e, out);
    buf_printf(out, "\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRIu64 ",\"args\":{\"name\":", what, process,
               track);
    json_text_string(out, name);
    buf_text(out, "}}");
}

static void write_slice(trace_export *e, buf *out, const char *name, int process, uint64_t track, uint64_t start_us,
                        uint64_t duration_us)
{
    open_event(e, out);
    buf_printf(out,
               "\"ph\":\"X\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRIu64 ",\"ts\":%" PRIu64 ",\"dur\":%" PRIu64
               ",\"args\":{",
               name, process, track, start_us, duration_us);
}

static void write_instant(trace_export *e, buf *out, const char *name, int process, uint64_t track, uint64_t at_us)
{
    open_event(e, out);
    buf_printf(out,
               "\"ph\":\"i\",\"s\":\"t\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRIu64 ",\"ts\":%" PRIu64 ",\"args\":{",
               name, process, track, at_us);
}

void trace_export_begin(trace_export *e, buf *out, const trace_about *about, uint64_t now_us)
{
    write_name(e, out, "process_name", DEVICE, 0, span_from("device"));
    write_name(e, out, "process_name", REQUESTS, 0, span_from("requests"));
    write_name(e, out, "thread_name", DEVICE, 1, span_from("steps"));
    write_instant(e, out, "trace starts", DEVICE, 2, now_us);
    buf_text(out, "\"model\":");
    json_text_string(out, about->model);
    buf_printf(out,
               ",\"weight_bytes\":%" PRIu64 ",\"kv_token_bytes\":%" PRIu64 ",\"state_bytes\":%" PRIu64
               ",\"kv_bytes\":%" PRIu64 ",\"context\":%u}}",
               about->weight_bytes, about->kv_token_bytes, about->state_bytes, about->kv_bytes, about->context);
}

static void name_track(trace_export *e, buf *out, const trace_record *r, const tenant_table *tenants)
{
    uint32_t slot = (uint32_t)(r->request_id % TRACE_KNOWN);
    if (e->known[slot].id == r->request_id)
        return;
    e->known[slot].id = r->request_id;
    e->known[slot].arrived_us = r->kind == TRACE_ARRIVED ? r->start_us : 0;
    char name[160];
    const char *who = r->tenant < tenants->count ? tenants->tenants[r->tenant].name : "default";
    snprintf(name, sizeof name, "%" PRIu64 " %s%s%s", r->request_id, who, r->klass == CLASS_BATCH ? " batch" : "",
             r->flags & TRACE_DOCUMENT ? " document" : "");
    write_name(e, out, "thread_name", REQUESTS, r->request_id, span_from(name));
}

static void write_step(trace_export *e, buf *out, const trace_record *r)
{
    static const char *const names[] = {"decode", "prefill", "fused"};
    write_slice(e, out, names[r->kind], DEVICE, 1, r->start_us, r->duration_us);
    buf_printf(out, "\"rows\":%u,\"predicted_us\":%" PRIu32 ",\"measured_us\":%" PRIu64 ",\"gb_per_s\":%.2f", r->rows,
               r->predicted_us, r->duration_us,
               r->duration_us ? (double)r->bytes * 1e-3 / (double)r->duration_us : 0.0);
    if (r->kind == TRACE_DECODE)
        buf_printf(out, ",\"context\":%u", r->position);
    else
        buf_printf(out, ",\"request\":%" PRIu64 ",\"tokens\":%u,\"position\":%u,\"done\":%.3f,\"yielded\":%s",
                   r->request_id, r->tokens, r->position, r->part / 255.0, r->flags & TRACE_YIELDED ? "true" : "false");
    buf_text(out, "}}");
}

static void write_run(trace_export *e, buf *out, const trace_record *r)
{
    write_slice(e, out, "prefill", REQUESTS, r->request_id, r->start_us, r->duration_us);
    buf_printf(out, "\"tokens\":%u,\"position\":%u}}", r->tokens, r->position);
}

static void write_token(trace_export *e, buf *out, const trace_record *r)
{
    if (r->duration_us)
        write_slice(e, out, r->flags & TRACE_VIOLATED ? "late token" : "token", REQUESTS, r->request_id,
                    r->start_us - r->duration_us, r->duration_us);
    else
        write_instant(e, out, "first token", REQUESTS, r->request_id, r->start_us);
    buf_printf(out, "\"gap_us\":%" PRIu64 ",\"bound_us\":%" PRIu32 "}}", r->duration_us, r->predicted_us);
}

static void write_moment(trace_export *e, buf *out, const trace_record *r)
{
    static const char *const names[] = {[TRACE_ARRIVED] = "arrived",
                                        [TRACE_ADMITTED] = "admitted",
                                        [TRACE_SET_ASIDE] = "set aside",
                                        [TRACE_PREEMPTED] = "preempted",
                                        [TRACE_FINISHED] = "finished"};
    uint64_t arrived_us = e->known[r->request_id % TRACE_KNOWN].arrived_us;
    if (r->kind == TRACE_ADMITTED && arrived_us && r->start_us > arrived_us) {
        write_slice(e, out, "waiting", REQUESTS, r->request_id, arrived_us, r->start_us - arrived_us);
        buf_text(out, "}}");
    }
    write_instant(e, out, names[r->kind], REQUESTS, r->request_id, r->start_us);
    if (r->kind == TRACE_FINISHED)
        buf_printf(out, "\"tokens\":%u", r->tokens);
    else if (r->kind == TRACE_ARRIVED)
        buf_printf(out, "\"way_us\":%" PRIu64 ",\"tokens\":%u", r->duration_us, r->tokens);
    buf_text(out, "}}");
}

void trace_export_record(trace_export *e, buf *out, const trace_record *r, const tenant_table *tenants)
{
    if (r->kind > TRACE_FINISHED)
        return;
    e->written++;
    if (r->kind != TRACE_DECODE)
        name_track(e, out, r, tenants);
    if (r->kind <= TRACE_FUSED)
        write_step(e, out, r);
    if (r->kind == TRACE_PREFILL || r->kind == TRACE_FUSED)
        write_run(e, out, r);
    else if (r->kind == TRACE_TOKEN)
        write_token(e, out, r);
    else if (r->kind != TRACE_DECODE)
        write_moment(e, out, r);
}

void trace_export_lost(trace_export *e, buf *out, uint64_t count, uint64_t now_us)
{
    if (!count)
        return;
    e->lost += count;
    write_instant(e, out, "records lost", DEVICE, 2, now_us);
    buf_printf(out, "\"count\":%" PRIu64 "}}", count);
}

void trace_export_end(trace_export *e, buf *out, uint64_t now_us)
{
    write_instant(e, out, "trace ends", DEVICE, 2, now_us);
    buf_printf(out, "\"records\":%" PRIu64 ",\"lost\":%" PRIu64 "}}\n]\n", e->written, e->lost);
}
