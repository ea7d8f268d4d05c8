/* model/op_timer.c: a table of ops whose functions note the time before and after those of the real table. The device's
 * table pointer leads back to the timer, which begins with the table. */
#include "model/op_timer.h"

#include <stdlib.h>

#include "base/clock.h"

struct op_timer {
    backend_ops ops; /* first: device->ops points here while attached */
    const backend_ops *inner;
    const model *model;
    op_cost costs[OP_FAMILIES];
    uint64_t last_us;    /* when the last op ended; 0: no step has begun */
    bool after_download; /* what follows is sampling */
};

static op_timer *timer_of(backend *self)
{
    return (op_timer *)self->ops;
}

static uint64_t begin(op_timer *t)
{
    uint64_t now = clock_now_us();
    if (t->last_us)
        t->costs[t->after_download ? OP_SAMPLING : OP_BETWEEN].us += now - t->last_us;
    return now;
}

static void end(op_timer *t, backend *self, op_family family, uint64_t start_us, op_cost cost)
{
    t->inner->wait(self); /* a device that only enqueued it */
    t->last_us = clock_now_us();
    t->after_download = family == OP_DOWNLOAD;
    op_cost *sum = &t->costs[family];
    sum->us += t->last_us - start_us;
    sum->calls++;
    sum->bytes += cost.bytes;
    sum->flops += cost.flops;
}

static uint64_t floats(uint64_t count)
{
    return count * sizeof(float);
}

/* ---- the ops ---- */

/* By what it reads: the work buffers say which matmul of a layer this is. */
static op_family matmul_family(const model *m, const matmul_args *a)
{
    if (a->targets[0].w == m->head)
        return OP_HEAD;
    if (a->x.buf == m->work.att)
        return OP_OUT;
    if (a->x.buf == m->work.gate)
        return OP_FFN_DOWN;
    const buffer *out = a->targets[0].out.buf;
    return out == m->work.q || out == m->work.qkv ? OP_QKV : OP_FFN_UP;
}

static void timed_matmul(backend *self, const matmul_args *a)
{
    op_timer *t = timer_of(self);
    op_cost cost = {.bytes = floats((uint64_t)a->rows * a->x.stride)};
    for (uint32_t i = 0; i < a->target_count; i++) {
        uint64_t out = (uint64_t)a->rows * a->targets[i].out.stride;
        cost.bytes += t->inner->weight_bytes(a->targets[i].w) + floats(out) * (a->targets[i].add ? 2 : 1);
        cost.flops += 2 * out * a->x.stride;
    }
    uint64_t start = begin(t);
    t->inner->matmul(self, a);
    end(t, self, matmul_family(t->model, a), start, cost);
}

static void timed_get_rows(backend *self, const get_rows_args *a)
{
    op_timer *t = timer_of(self);
    uint64_t start = begin(t);
    t->inner->get_rows(self, a);
    end(t, self, OP_EMBEDDING, start, (op_cost){.bytes = 2 * floats((uint64_t)a->rows * a->out.stride)});
}

static void timed_rms_norm(backend *self, const rms_norm_args *a)
{
    op_timer *t = timer_of(self);
    uint64_t start = begin(t);
    t->inner->rms_norm(self, a);
    end(t, self, OP_NORMS, start, (op_cost){.bytes = 2 * floats((uint64_t)a->rows * a->groups * a->dim)});
}

static void timed_rope(backend *self, const rope_args *a)
{
    op_timer *t = timer_of(self);
    uint64_t start = begin(t);
    t->inner->rope(self, a);
    end(t, self, OP_ROPE, start, (op_cost){.bytes = 2 * floats((uint64_t)a->rows * a->heads * a->rotary)});
}

static uint64_t kv_token_bytes(const model *m)
{
    return (uint64_t)m->config.kv_heads * m->config.head_dim * 2 * sizeof(uint16_t);
}

static void timed_kv_write(backend *self, const kv_write_args *a)
{
    op_timer *t = timer_of(self);
    uint64_t rows = 0;
    for (uint32_t i = 0; i < a->segment_count; i++)
        rows += a->segments[i].row_count;
    uint64_t start = begin(t);
    t->inner->kv_write(self, a);
    end(t, self, OP_KV_WRITE, start, (op_cost){.bytes = 3 * rows * kv_token_bytes(t->model)}); /* f32 in, f16 out */
}

static void timed_attend(backend *self, const attend_args *a)
{
    op_timer *t = timer_of(self);
    const model_config *c = &t->model->config;
    op_cost cost = {0};
    for (uint32_t i = 0; i < a->segment_count; i++) {
        const kv_segment *s = &a->segments[i];
        uint64_t last = (uint64_t)s->position + s->row_count, first = 0, seen = 0;
        if (a->window && s->position + 1 > a->window)
            first = s->position + 1 - a->window;
        for (uint64_t p = s->position; p < last; p++)
            seen += a->window && p + 1 > a->window ? a->window : p + 1;
        cost.bytes += (last - first) * kv_token_bytes(t->model) + 2 * floats((uint64_t)s->row_count * a->q.stride);
        cost.flops += 4 * seen * c->heads * c->head_dim;
    }
    uint64_t start = begin(t);
    t->inner->attend(self, a);
    end(t, self, OP_ATTENTION, start, cost);
}

static void timed_act_mul(backend *self, const act_mul_args *a)
{
    op_timer *t = timer_of(self);
    uint64_t start = begin(t);
    t->inner->act_mul(self, a);
    end(t, self, OP_ACTIVATION, start, (op_cost){.bytes = 3 * floats((uint64_t)a->rows * a->dim)});
}

static void timed_add(backend *self, const add_args *a)
{
    op_timer *t = timer_of(self);
    uint64_t start = begin(t);
    t->inner->add(self, a);
    end(t, self, OP_ADD, start, (op_cost){.bytes = 3 * floats((uint64_t)a->rows * a->dim)});
}

static void timed_sigmoid_mul(backend *self, const sigmoid_mul_args *a)
{
    op_timer *t = timer_of(self);
    uint64_t start = begin(t);
    t->inner->sigmoid_mul(self, a);
    end(t, self, OP_ACTIVATION, start, (op_cost){.bytes = 3 * floats((uint64_t)a->rows * a->dim)});
}

static void timed_route(backend *self, const route_args *a)
{
    op_timer *t = timer_of(self);
    uint64_t start = begin(t);
    t->inner->route(self, a);
    end(t, self, OP_ROUTE, start, (op_cost){.bytes = floats((uint64_t)a->rows * (a->experts + 2 * a->used))});
}

static void timed_experts(backend *self, const experts_args *a)
{
    op_timer *t = timer_of(self);
    const model_config *c = &t->model->config;
    const weight *stacks[] = {a->gate, a->up, a->down};
    op_cost cost = {0}; /* operations: a slice's, taking the picks to be spread evenly */
    cost.flops = 6 * (uint64_t)a->rows * a->used * c->expert_ffn * c->hidden * (a->end - a->first) / c->experts;
    uint64_t before = 0, after = 0, one = 0;
    for (int i = 0; i < 3; i++)
        one += t->inner->weight_bytes(stacks[i]) / c->experts;
    for (uint32_t e = 0; e < c->experts; e++)
        before += a->touched ? a->touched[e] : 0;
    uint64_t start = begin(t);
    t->inner->experts(self, a);
    t->inner->wait(self);
    for (uint32_t e = 0; e < c->experts; e++)
        after += a->touched ? a->touched[e] : 0;
    cost.bytes = (after - before) * one + 3 * floats((uint64_t)a->rows * c->hidden);
    end(t, self, OP_EXPERTS, start, cost);
}

static void timed_delta(backend *self, const delta_args *a)
{
    op_timer *t = timer_of(self);
    state_config one = model_state_config(t->model, 1);
    op_cost cost = {.bytes = 2 * a->segment_count * (uint64_t)t->inner->state_bytes(&one) / one.layers};
    for (uint32_t i = 0; i < a->segment_count; i++) {
        uint64_t rows = a->segments[i].row_count;
        cost.bytes += 2 * floats(rows * a->qkv.stride) + 2 * floats(rows * a->out.stride);
        cost.flops += 8 * rows * one.value_heads * one.key_dim * one.value_dim;
    }
    uint64_t start = begin(t);
    t->inner->delta(self, a);
    end(t, self, OP_DELTA, start, cost);
}

static void timed_download(backend *self, const buffer *b, size_t offset, float *out, size_t count)
{
    op_timer *t = timer_of(self);
    uint64_t start = begin(t);
    t->inner->download(self, b, offset, out, count);
    end(t, self, OP_DOWNLOAD, start, (op_cost){.bytes = 2 * floats(count)});
}

static void timed_wait(backend *self)
{
    timer_of(self)->inner->wait(self);
}

static void timed_step_begin(backend *self)
{
    op_timer *t = timer_of(self);
    t->last_us = 0; /* what lies between two steps is the caller's */
    uint64_t start = begin(t);
    t->inner->step_begin(self);
    end(t, self, OP_WORKERS, start, (op_cost){0});
}

static void timed_step_end(backend *self)
{
    op_timer *t = timer_of(self);
    uint64_t start = begin(t);
    t->inner->step_end(self);
    end(t, self, OP_WORKERS, start, (op_cost){0});
}

/* ---- life ---- */

status op_timer_attach(op_timer **out, const model *m, error *err)
{
    op_timer *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, ERR_MEMORY, "op timer: out of memory");
    t->model = m;
    t->inner = m->device->ops;
    t->ops = *t->inner;
    t->ops.matmul = timed_matmul;
    t->ops.get_rows = timed_get_rows;
    t->ops.rms_norm = timed_rms_norm;
    t->ops.rope = timed_rope;
    t->ops.kv_write = timed_kv_write;
    t->ops.attend = timed_attend;
    t->ops.act_mul = timed_act_mul;
    t->ops.add = timed_add;
    t->ops.sigmoid_mul = timed_sigmoid_mul;
    t->ops.route = timed_route;
    t->ops.experts = timed_experts;
    t->ops.delta = timed_delta;
    t->ops.download = timed_download;
    t->ops.wait = timed_wait;
    t->ops.step_begin = timed_step_begin;
    t->ops.step_end = timed_step_end;
    m->device->ops = &t->ops;
    *out = t;
    return OK;
}

void op_timer_detach(op_timer *t)
{
    if (!t)
        return;
    t->model->device->ops = t->inner;
    free(t);
}

void op_timer_reset(op_timer *t)
{
    for (int i = 0; i < OP_FAMILIES; i++)
        t->costs[i] = (op_cost){0};
}

op_cost op_timer_cost(const op_timer *t, op_family family)
{
    return t->costs[family];
}

const char *op_family_name(op_family family)
{
    static const char *const names[] = {"embedding", "norms",    "qkv",     "rope",       "kv write",
                                        "attention", "out",      "ffn up",  "activation", "ffn down",
                                        "route",     "experts",  "delta",   "add",        "head",
                                        "download",  "sampling", "workers", "between ops"};
    return names[family];
}
