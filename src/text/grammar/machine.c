/* text/grammar/machine.c: closures, steps and stacks. */
#include "text/grammar/machine.h"

#include <stdlib.h>

enum { SEEN_MAX = 4 * WAYS_MAX, SEEN_TABLE = 4 * SEEN_MAX };

status machine_init(machine *m, const grammar *g, uint32_t window)
{
    *m = (machine){.g = g, .frame_count = 1, .frame_capacity = 64, .bucket_count = 64, .window = window};
    m->seeds[0] = grammar_secret();
    m->seeds[1] = machine_mix(m->seeds[0], 0x51);
    m->frames = calloc(m->frame_capacity, sizeof *m->frames);
    m->buckets = calloc(m->bucket_count, sizeof *m->buckets);
    m->seen = calloc(SEEN_TABLE, sizeof *m->seen);
    m->todo = malloc(SEEN_MAX * sizeof *m->todo);
    if (m->frames && m->buckets && m->seen && m->todo)
        return OK;
    machine_free(m);
    return ERR_MEMORY;
}

void machine_free(machine *m)
{
    free(m->frames);
    free(m->buckets);
    free(m->seen);
    free(m->todo);
    *m = (machine){0};
}

/* ---- stacks ---- */

static uint32_t bucket_of(const machine *m, uint32_t frame, uint32_t count, uint32_t below)
{
    uint64_t h = ((uint64_t)frame << 32 | below) * 0x9E3779B97F4A7C15u;
    h = (h ^ count) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)(h >> 40) & (m->bucket_count - 1);
}

static void link_frame(machine *m, uint32_t at)
{
    stack_frame *f = &m->frames[at];
    uint32_t *bucket = &m->buckets[bucket_of(m, f->frame, f->count, f->below)];
    f->next = *bucket;
    *bucket = at;
}

static bool grow_frames(machine *m)
{
    uint32_t more = m->frame_capacity * 2;
    stack_frame *frames = more > 1u << 26 ? NULL : realloc(m->frames, more * sizeof *frames);
    if (frames)
        m->frames = frames;
    uint32_t *buckets = frames ? calloc(more, sizeof *buckets) : NULL;
    if (!buckets) {
        m->failed = true;
        return false;
    }
    free(m->buckets);
    m->buckets = buckets;
    m->frame_capacity = m->bucket_count = more;
    for (uint32_t i = 1; i < m->frame_count; i++)
        link_frame(m, i);
    return true;
}

uint64_t machine_loop_view(const machine *m, const procedure *loop, uint32_t count)
{
    uint32_t more = count < loop->min ? loop->min - count : 0, most = loop->max - count;
    if (loop->max == UINT32_MAX || most > m->window)
        most = m->window + 1;
    return (uint64_t)(more > m->window ? m->window + 1 : more) << 32 | most;
}

static void set_key(machine *m, stack_frame *f)
{
    const uint64_t *below = f->below ? m->frames[f->below].key : m->seeds;
    uint64_t count =
        f->frame & FRAME_LOOP ? machine_loop_view(m, &m->g->procedures[f->frame & ~(uint32_t)FRAME_LOOP], f->count) : 0;
    for (int i = 0; i < 2; i++)
        f->key[i] = machine_mix(machine_mix(below[i] + m->seeds[i], f->frame), count);
}

uint32_t machine_push(machine *m, uint32_t frame, uint32_t count, uint32_t below)
{
    for (uint32_t at = m->buckets[bucket_of(m, frame, count, below)]; at; at = m->frames[at].next) {
        const stack_frame *f = &m->frames[at];
        if (f->frame == frame && f->count == count && f->below == below)
            return at;
    }
    uint32_t depth = below ? m->frames[below].depth + 1 : 1;
    if (depth > STACK_MAX || (m->frame_count == m->frame_capacity && !grow_frames(m)))
        return 0;
    uint32_t at = m->frame_count++;
    m->frames[at] = (stack_frame){.frame = frame, .count = count, .below = below, .depth = depth};
    set_key(m, &m->frames[at]);
    link_frame(m, at);
    return at;
}

/* The last that was linked is the first of its bucket. */
void machine_forget(machine *m, uint32_t frame_count)
{
    while (m->frame_count > frame_count) {
        const stack_frame *f = &m->frames[--m->frame_count];
        m->buckets[bucket_of(m, f->frame, f->count, f->below)] = f->next;
    }
}

void machine_compact(machine *m, way_list *ways)
{
    uint32_t *moved = calloc(m->frame_count, sizeof *moved), count = 1;
    if (!moved)
        return;
    for (uint32_t i = 0; i < ways->count; i++)
        for (uint32_t at = ways->ways[i].stack; at && !moved[at]; at = m->frames[at].below)
            moved[at] = 1;
    for (uint32_t i = 1; i < m->frame_count; i++) /* what is below has a lower number */
        if (moved[i]) {
            stack_frame f = m->frames[i];
            f.below = moved[f.below];
            m->frames[count] = f;
            moved[i] = count++;
        }
    for (uint32_t i = 0; i < ways->count; i++)
        ways->ways[i].stack = moved[ways->ways[i].stack];
    free(moved);
    m->frame_count = count;
    memset(m->buckets, 0, m->bucket_count * sizeof *m->buckets);
    for (uint32_t i = 1; i < count; i++)
        link_frame(m, i);
}

/* ---- closures ---- */

static void begin_closure(machine *m)
{
    m->seen_count = m->todo_count = 0;
    if (++m->stamp == 0) {
        memset(m->seen, 0, SEEN_TABLE * sizeof *m->seen);
        m->stamp = 1;
    }
}

static void visit(machine *m, uint32_t state, uint32_t stack)
{
    uint32_t at = (uint32_t)((((uint64_t)stack << 32 | state) * 0x9E3779B97F4A7C15u) >> 40) % SEEN_TABLE;
    for (; m->seen[at].stamp == m->stamp; at = (at + 1) % SEEN_TABLE)
        if (m->seen[at].way.state == state && m->seen[at].way.stack == stack)
            return;
    m->steps++;
    if (m->seen_count == SEEN_MAX)
        return;
    m->seen[at] = (seen_way){{state, stack}, m->stamp};
    m->seen_count++;
    m->todo[m->todo_count++] = (way){state, stack};
}

static void enter(machine *m, uint32_t number, uint32_t stack)
{
    const procedure *p = &m->g->procedures[number];
    for (; p->loop; p = &m->g->procedures[p->body]) {
        uint32_t loop = (uint32_t)(p - m->g->procedures);
        stack = machine_push(m, FRAME_LOOP | loop, 0, stack);
        if (!stack)
            return;
    }
    visit(m, p->start, stack);
}

/* The procedure above `stack` has ended. */
static void leave(machine *m, uint32_t stack, way_list *out)
{
    while (stack) {
        stack_frame f = m->frames[stack];
        if (!(f.frame & FRAME_LOOP)) {
            visit(m, f.frame, f.below);
            return;
        }
        uint32_t loop = f.frame & ~(uint32_t)FRAME_LOOP, count = f.count + 1;
        const procedure *p = &m->g->procedures[loop];
        if (count < p->max) { /* without an upper bound only the lower one is counted to */
            uint32_t kept = p->max == UINT32_MAX && count > p->min ? p->min : count;
            uint32_t again = machine_push(m, f.frame, kept, f.below);
            if (again)
                enter(m, p->body, again);
        }
        if (count < p->min)
            return;
        stack = f.below;
    }
    out->ended = true;
}

static void finish_closure(machine *m, way_list *out)
{
    const automaton *a = &m->g->all;
    while (m->todo_count) {
        way w = m->todo[--m->todo_count];
        const fa_state *s = &a->states[w.state];
        if (s->edge_count && out->count < out->capacity)
            out->ways[out->count++] = w;
        for (uint32_t i = 0; i < s->call_count; i++) {
            const fa_call *call = &a->calls[s->first_call + i];
            uint32_t stack = call->to == TAIL_CALL ? w.stack : machine_push(m, call->to, 0, w.stack);
            if (stack || call->to == TAIL_CALL)
                enter(m, call->callee, stack);
        }
        if (s->accept)
            leave(m, w.stack, out);
    }
}

void machine_start(machine *m, way_list *out)
{
    begin_closure(m);
    if (m->g->root != UINT32_MAX)
        enter(m, m->g->root, 0);
    finish_closure(m, out);
    out->ended |= m->g->empty;
}

void machine_return(machine *m, uint32_t stack, way_list *out)
{
    begin_closure(m);
    leave(m, stack, out);
    finish_closure(m, out);
}

/* One way that has one edge for the byte, to a state where nothing happens: most steps inside of strings. */
static bool step_plainly(machine *m, way w, uint8_t byte, way_list *out)
{
    const automaton *a = &m->g->all;
    const fa_state *s = &a->states[w.state];
    const fa_edge *e = &a->edges[s->first_edge], *end = e + s->edge_count, *found = NULL;
    m->steps++;
    for (; e < end; e++)
        if (e->lo <= byte && byte <= e->hi) {
            if (found || !a->states[e->to].plain)
                return false;
            found = e;
        }
    if (found)
        out->ways[out->count++] = (way){found->to, w.stack};
    return true;
}

void machine_step(machine *m, const way *ways, uint32_t count, uint8_t byte, way_list *out)
{
    const automaton *a = &m->g->all;
    if (count == 1 && step_plainly(m, ways[0], byte, out))
        return;
    begin_closure(m);
    for (uint32_t i = 0; i < count; i++) {
        const fa_state *s = &a->states[ways[i].state];
        const fa_edge *e = &a->edges[s->first_edge], *end = e + s->edge_count;
        for (; e < end; e++)
            if (e->lo <= byte && byte <= e->hi)
                visit(m, e->to, ways[i].stack);
        m->steps += 1 + s->edge_count / 8;
    }
    if (m->todo_count)
        finish_closure(m, out);
}

bool grammar_accepts(const grammar *g, span text)
{
    machine m;
    way buffers[2][WAYS_MAX];
    way_list now = {buffers[0], 0, WAYS_MAX, false};
    if (machine_init(&m, g, 0))
        return false;
    machine_start(&m, &now);
    size_t i = 0;
    for (; i < text.size && now.count; i++) {
        way_list next = {now.ways == buffers[0] ? buffers[1] : buffers[0], 0, WAYS_MAX, false};
        machine_step(&m, now.ways, now.count, (uint8_t)text.data[i], &next);
        now = next;
        if (m.frame_count > 4096)
            machine_compact(&m, &now);
    }
    bool ok = i == text.size && now.ended && !m.failed;
    machine_free(&m);
    return ok;
}
