/* sim/costs_steps.c: tables of a steps.json, as `headway tune` measured it (docs/tuning.md). Medians count. Only what
 * the tables need has to be there; what a box did not get to measure (depths) costs nothing. */
#include "sim/costs.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* The runner looks after each block of rows of each op; how many that were is not in the file. */
enum { STEPS_UNITS = 2048 };
static const double kept_most = 1e9, us_most = 1e10, size_most = 1 << 24;

typedef struct {
    const char *list, *size; /* "prefill", "tokens" */
    const char *name;        /* of the file */
    error *err;
} reader;

typedef struct {
    double size, position, us;
} measured_step;

static status wrong(const reader *r, size_t index, const char *what)
{
    return error_set(r->err, ERR_INVALID, "%s: %s[%zu]: %s", r->name, r->list, index, what);
}

static status read_number(const reader *r, const json_t *item, size_t index, const char *key, double least, double most,
                          double *out)
{
    const json_t *value = json_object_get(item, key);
    char what[80];
    *out = json_number_value(value);
    if (json_is_number(value) && *out >= least && *out <= most)
        return OK;
    snprintf(what, sizeof what, "\"%s\" is not a number from %g to %g", key, least, most);
    return wrong(r, index, what);
}

static status read_step(const reader *r, const json_t *item, size_t index, measured_step *out)
{
    status st = read_number(r, item, index, r->size, 1, size_most, &out->size);
    if (!st)
        st = read_number(r, item, index, "position", 0, size_most, &out->position);
    return st ? st : read_number(r, item, index, "us", 0, us_most, &out->us);
}

/* The list by ascending size; it must have an item. */
static status read_points(const reader *r, const json_t *root, cost_point *points, uint32_t *count)
{
    const json_t *list = json_object_get(root, r->list);
    if (json_array_size(list) == 0 || json_array_size(list) > COST_POINTS_MAX)
        return error_set(r->err, ERR_INVALID, "%s: \"%s\" is not a list of 1 to %d measured steps", r->name, r->list,
                         COST_POINTS_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        measured_step step;
        status st = read_step(r, json_array_get(list, i), i, &step);
        if (st)
            return st;
        if (i > 0 && step.size <= points[i - 1].x)
            return wrong(r, i, "not larger than the one before");
        points[i] = (cost_point){step.size, step.us};
    }
    *count = (uint32_t)json_array_size(list);
    return OK;
}

/* What each position adds to one token, from the first and the last place; 0 with fewer than two. */
static status read_slope(const reader *r, const json_t *root, double *us)
{
    const json_t *list = json_object_get(root, r->list);
    size_t count = json_array_size(list);
    measured_step first, last;
    *us = 0;
    if (count < 2)
        return OK;
    status st = read_step(r, json_array_get(list, 0), 0, &first);
    if (st || (st = read_step(r, json_array_get(list, count - 1), count - 1, &last)))
        return st;
    if (last.position <= first.position || last.size != first.size)
        return wrong(r, count - 1, "neither deeper than the first one nor of its size");
    double slope = (last.us - first.us) / (last.position - first.position) / last.size;
    *us = slope > 0 ? slope : 0;
    return OK;
}

/* Bytes of a token's KV, of a state; absent or null: not known. */
static status read_kept(const json_t *root, const char *name, const char *key, double *out, error *err)
{
    const json_t *value = json_object_get(root, key);
    *out = json_number_value(value);
    return !value || json_is_null(value) || (json_is_number(value) && (*out == 0 || (*out >= 1 && *out <= kept_most)))
               ? OK
               : error_set(err, ERR_INVALID, "%s: \"%s\" is neither 0 nor a number from 1 to %g", name, key, kept_most);
}

/* Absent: none were watched for. */
static status read_holes(sim_costs *out, const json_t *root, const char *name, error *err)
{
    const json_t *holes = json_object_get(root, "holes"), *counts = json_object_get(holes, "counts");
    double watched_us = json_number_value(json_object_get(holes, "watched_us"));
    if (!holes)
        return OK;
    if (!(watched_us >= 1) || json_array_size(counts) != CANARY_SIZES)
        return error_set(err, ERR_INVALID, "%s: \"holes\" has no \"watched_us\" or no %d \"counts\"", name,
                         CANARY_SIZES);
    for (uint32_t i = 0; i < CANARY_SIZES; i++) {
        const json_t *item = json_array_get(counts, i);
        double count = json_number_value(item);
        if (!json_is_number(item))
            return error_set(err, ERR_INVALID, "%s: \"holes\": count %u is no number", name, i);
        if (!(count >= 0 && count * (1000u << i) <= watched_us))
            return error_set(err, ERR_INVALID, "%s: \"holes\": more than the time that was watched", name);
        out->holes_s[i] = count * 1e6 / watched_us;
    }
    return OK;
}

static status fill(sim_costs *out, const json_t *root, const char *name, error *err)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!format || strcmp(format, "headway-steps-1") != 0)
        return error_set(err, ERR_INVALID, "%s: \"format\" is not headway-steps-1: not a steps.json of headway tune",
                         name);
    reader chunks = {"prefill", "tokens", name, err}, depths = {"prefill_at", "tokens", name, err};
    reader rows = {"decode", "rows", name, err}, row_depths = {"decode_at", "rows", name, err};
    status st = read_points(&chunks, root, out->chunks, &out->chunk_count);
    if (st || (st = read_points(&rows, root, out->rows, &out->row_count)) ||
        (st = read_slope(&depths, root, &out->depth_us)) || (st = read_slope(&row_depths, root, &out->kv_us)))
        return st;
    if ((st = read_holes(out, root, name, err)))
        return st;
    const cost_point *largest = &out->chunks[out->chunk_count - 1];
    double token_us = largest->us / largest->x;
    if (out->chunk_count > 1)
        token_us = (largest->us - largest[-1].us) / (largest->x - largest[-1].x);
    out->fused_row_us = token_us > 0 ? token_us : largest->us / largest->x;
    out->units = STEPS_UNITS;
    st = read_kept(root, name, "kv_token_bytes", &out->kv_token_bytes, err);
    if (st || (st = read_kept(root, name, "state_bytes", &out->state_bytes, err)))
        return st;
    out->weight_bytes = out->weight_bytes_most = json_number_value(json_object_get(root, "weight_bytes"));
    return OK;
}

status sim_costs_from_steps(sim_costs *out, span text, const char *name, error *err)
{
    json_error_t where;
    *out = (sim_costs){0};
    json_t *root = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return error_set(err, ERR_INVALID, "%s: line %d: %s", name, where.line, where.text);
    status st = fill(out, root, name, err);
    json_decref(root);
    return st;
}
