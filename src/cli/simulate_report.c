/* cli/simulate_report.c: bench's report of a simulated run, and what a server would not tell a client: the boxes, the
 * link, and what agents feel while documents are read. */
#include <math.h>
#include <stdio.h>

#include "cli/simulate.h"

static void describe(const simulate_options *o, const simulate_box *box, char *text, size_t size)
{
    char boxes[96] = "";
    if (o->decode_boxes)
        snprintf(boxes, sizeof boxes, ", %u boxes read and %u decode", o->boxes, o->decode_boxes);
    else if (o->boxes > 1)
        snprintf(boxes, sizeof boxes, ", %u boxes, %s", o->boxes, world_route_name(o->route));
    snprintf(text, size, "simulated: %s, %s, %s%s", box->hardware, box->model, o->policy, boxes);
}

static load_report bench_report(const simulate_options *o, const simulate_box *box, const simulate_result *r,
                                const char *url)
{
    return (load_report){.kind = o->spec->name,
                         .url = url,
                         .model = box->model,
                         .trace = o->trace_path,
                         .seed = o->seed,
                         .scale = o->scale,
                         .tokens_per_word = 1,
                         .bounds = r->bounds,
                         .plan = &r->plan,
                         .spans = r->spans,
                         .samples = &r->samples,
                         .summary = &r->summary,
                         .stopped = r->stopped,
                         .simulated = true};
}

/* ---- text ---- */

static double run_us(const simulate_result *r)
{
    return (double)(r->summary.end_us - r->summary.start_us);
}

static void put_beside(const load_beside *b, buf *out)
{
    if (!b->known)
        return;
    buf_printf(out, "reading    while %u document%s read: a chat gets %.3g tok/s", b->documents,
               b->documents == 1 ? " is" : "s are", b->chat_tok_s);
    if (isfinite(b->chat_alone_tok_s))
        buf_printf(out, " (alone %.3g)", b->chat_alone_tok_s);
    buf_printf(out, ", gaps median %.4g, mean %.4g, by time %.4g, worst %.4g ms\n", b->median_gap_ms, b->mean_gap_ms,
               b->time_gap_ms, b->longest_gap_ms);
    buf_printf(out, "           a document's first token comes after %.4g s", b->document_ttft_s);
    if (isfinite(b->premium))
        buf_printf(out, ", alone after %.4g s: premium %.1f%%", b->document_alone_ttft_s, 100 * b->premium);
    buf_byte(out, '\n');
}

static void put_boxes(const simulate_result *r, buf *out)
{
    for (uint32_t i = 0; i < r->world.box_count; i++) {
        const world_box_report *b = &r->world.boxes[i];
        buf_printf(out, "box %-6u %s%llu requests, busy %.1f%%, %llu steps", i, b->decodes ? "decodes: " : "",
                   (unsigned long long)b->requests, 100 * (double)b->busy_us / run_us(r), (unsigned long long)b->steps);
        if (b->decode_steps)
            buf_printf(out, ", %.2f streams in a decode step", (double)b->decode_rows / (double)b->decode_steps);
        if (b->prompt_tokens)
            buf_printf(out, ", %.1f%% of prompts cached", 100 * (double)b->cached_tokens / (double)b->prompt_tokens);
        if (b->preemptions)
            buf_printf(out, ", %llu preemptions", (unsigned long long)b->preemptions);
        buf_byte(out, '\n');
    }
    if (r->world.link_transfers)
        buf_printf(out, "link       %llu hand-overs, %.4g GB; the longest took %.4g ms, waiting included\n",
                   (unsigned long long)r->world.link_transfers, (double)r->world.link_bytes / 1e9,
                   (double)r->world.link_worst_us / 1e3);
}

void simulate_text(const simulate_options *o, const simulate_box *box, const simulate_result *r, buf *out)
{
    char url[512];
    describe(o, box, url, sizeof url);
    load_report report = bench_report(o, box, r, url);
    report_text(&report, out);
    put_beside(&r->beside, out);
    put_boxes(r, out);
}

/* ---- JSON ---- */

static void put_number(buf *out, const char *name, double value)
{
    if (isfinite(value))
        buf_printf(out, "\"%s\":%.6g", name, value);
    else
        buf_printf(out, "\"%s\":null", name);
}

static void put_string(buf *out, const char *name, const char *text)
{
    buf_printf(out, "\"%s\":\"", name);
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == '"' || *text == '\\' || *text == '<')
            buf_printf(out, "\\u%04x", (unsigned char)*text);
        else
            buf_byte(out, *text);
    buf_byte(out, '"');
}

static void json_beside(const load_beside *b, buf *out)
{
    const struct {
        const char *name;
        double value;
    } rows[] = {{"document_ttft_s", b->document_ttft_s},
                {"document_alone_ttft_s", b->document_alone_ttft_s},
                {"premium", b->premium},
                {"seconds", b->seconds},
                {"chat_tok_s", b->chat_tok_s},
                {"chat_alone_tok_s", b->chat_alone_tok_s},
                {"longest_gap_ms", b->longest_gap_ms},
                {"mean_gap_ms", b->mean_gap_ms},
                {"time_gap_ms", b->time_gap_ms},
                {"median_gap_ms", b->median_gap_ms}};
    if (!b->known) {
        buf_text(out, "\"reading\":null");
        return;
    }
    buf_printf(out, "\"reading\":{\"documents\":%u", b->documents);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf_byte(out, ',');
        put_number(out, rows[i].name, rows[i].value);
    }
    buf_byte(out, '}');
}

static void json_boxes(const simulate_result *r, buf *out)
{
    buf_text(out, "\"boxes\":[");
    for (uint32_t i = 0; i < r->world.box_count; i++) {
        const world_box_report *b = &r->world.boxes[i];
        buf_printf(out, "%s{\"decodes\":%s,\"requests\":%llu,\"refused\":%llu,\"steps\":%llu,\"decode_steps\":%llu,",
                   i ? ",\n " : "", b->decodes ? "true" : "false", (unsigned long long)b->requests,
                   (unsigned long long)b->refused, (unsigned long long)b->steps, (unsigned long long)b->decode_steps);
        buf_printf(out,
                   "\"decode_rows\":%llu,\"prefill_runs\":%llu,\"preemptions\":%llu,\"prompt_tokens\":%llu,"
                   "\"cached_tokens\":%llu,\"generated_tokens\":%llu,",
                   (unsigned long long)b->decode_rows, (unsigned long long)b->prefill_runs,
                   (unsigned long long)b->preemptions, (unsigned long long)b->prompt_tokens,
                   (unsigned long long)b->cached_tokens, (unsigned long long)b->generated_tokens);
        put_number(out, "busy_s", (double)b->busy_us / 1e6);
        buf_byte(out, ',');
        put_number(out, "utilisation", (double)b->busy_us / run_us(r));
        buf_byte(out, '}');
    }
    buf_printf(out, "],\n\"link\":{\"transfers\":%llu,\"bytes\":%llu,", (unsigned long long)r->world.link_transfers,
               (unsigned long long)r->world.link_bytes);
    put_number(out, "busy_s", (double)r->world.link_busy_us / 1e6);
    buf_byte(out, ',');
    put_number(out, "worst_ms", (double)r->world.link_worst_us / 1e3);
    buf_byte(out, '}');
}

static void json_costs(const sim_costs *c, buf *out)
{
    const double chunk = 2048;
    buf_text(out, "\"costs\":{");
    put_number(out, "decode_ms", sim_costs_decode_us(c, 1, 0) / 1e3);
    buf_byte(out, ',');
    put_number(out, "chunk_2048_ms", sim_costs_prefill_us(c, 0, chunk) / 1e3);
    buf_byte(out, ',');
    put_number(out, "request_ms", c->request_us / 1e3);
    buf_byte(out, ',');
    buf_printf(out, "\"kv_token_bytes\":%.12g,\"state_bytes\":%.12g", c->kv_token_bytes, c->state_bytes);
    buf_byte(out, '}');
}

void simulate_json_own(const simulate_options *o, const simulate_box *box, const simulate_result *r, buf *out)
{
    buf_byte(out, '{');
    put_string(out, "hardware", box->hardware);
    buf_byte(out, ',');
    put_string(out, "policy", o->policy);
    buf_byte(out, ',');
    put_string(out, "router", world_route_name(o->route));
    buf_printf(out, ",\"chunk\":%u,\"parallel\":%u,\"context\":%u,\"kv_pages\":%llu,\"page_bytes\":%llu,",
               o->schedule.chunk_tokens, o->parallel, r->context, (unsigned long long)r->pages,
               (unsigned long long)r->page_bytes);
    put_number(out, "gap_ms", (double)r->world.boxes[0].gap_us / 1e3);
    buf_text(out, ",\n");
    json_costs(&box->costs, out);
    buf_text(out, ",\n");
    json_boxes(r, out);
    buf_text(out, ",\n");
    json_beside(&r->beside, out);
    buf_byte(out, '}');
}

void simulate_json(const simulate_options *o, const simulate_box *box, const simulate_result *r, buf *out)
{
    char url[512];
    describe(o, box, url, sizeof url);
    load_report report = bench_report(o, box, r, url);
    report_json(&report, REPORT_ROWS, out);
    while (out->size && out->data[out->size - 1] != '}')
        out->size--;
    if (!out->size)
        return;
    out->size--;
    buf_text(out, ",\n\"simulation\":");
    simulate_json_own(o, box, r, out);
    buf_text(out, "}\n");
}

void simulate_html(const simulate_options *o, const simulate_box *box, const simulate_result *r, buf *out)
{
    char url[512];
    describe(o, box, url, sizeof url);
    load_report report = bench_report(o, box, r, url);
    report_html(&report, out);
}
