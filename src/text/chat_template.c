/* text/chat_template.c: the door to the template engine: compile once, render from any thread. */
#include "text/chat_template.h"

#include <stdlib.h>

#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

enum { SOURCE_MAX = 4 << 20 };

struct chat_template {
    jinja_arena arena; /* the tree; not touched after compilation */
    jinja_tree tree;
};

/* The frames that a failure jumps back to; they hold no variables of their own that change. */
static bool parse_guarded(chat_template *t, span source)
{
    if (setjmp(t->arena.trap->jump))
        return false;
    jinja_parse(&t->tree, &t->arena, source);
    return true;
}

static bool render_guarded(jinja_render *r)
{
    if (setjmp(r->trap.jump))
        return false;
    jinja_builder text;
    jinja_build(&text, r);
    r->out = &text;
    jinja_exec(r, &r->root, &r->tree->body);
    r->result = jinja_built(&text);
    return true;
}

status chat_template_compile(chat_template **out, span source, error *err)
{
    jinja_trap trap = {.err = err, .code = OK};
    if (source.size > SOURCE_MAX)
        return error_set(err, ERR_LIMIT, "template: %zu bytes, at most %d are allowed", source.size, SOURCE_MAX);
    if (!jinja_valid_utf8(source))
        return error_set(err, ERR_INVALID, "template: not UTF-8");
    chat_template *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, ERR_MEMORY, "template: out of memory");
    t->arena.limit = JINJA_MEMORY_MAX;
    t->arena.trap = &trap;
    if (!parse_guarded(t, source)) {
        chat_template_destroy(t);
        return trap.code;
    }
    t->arena.trap = NULL;
    *out = t;
    return OK;
}

void chat_template_destroy(chat_template *t)
{
    if (!t)
        return;
    jinja_arena_free(&t->arena);
    free(t);
}

static status copy_out(render_result *out, const jinja_string *s, error *err)
{
    buf_append(&out->text, s->text.data ? s->text.data : "", s->text.size);
    size_t count = s->text.size ? s->run_count : 0;
    if (count > out->range_capacity) {
        render_range *grown = realloc(out->ranges, count * sizeof *grown);
        if (!grown)
            return error_set(err, ERR_MEMORY, "template: out of memory for the output");
        out->ranges = grown;
        out->range_capacity = count;
    }
    for (size_t i = 0; i < count; i++) {
        size_t end = i + 1 < count ? s->runs[i + 1].start : s->text.size;
        out->ranges[i] = (render_range){s->runs[i].start, end - s->runs[i].start, s->runs[i].trusted};
    }
    out->range_count = count;
    return out->text.failed ? error_set(err, ERR_MEMORY, "template: out of memory for the output") : OK;
}

status chat_template_render(const chat_template *t, json_t *variables, uint64_t now_unix, render_result *out,
                            error *err)
{
    error unused;
    jinja_render r = {.tree = &t->tree, .variables = variables, .now_unix = now_unix, .line = 1};
    r.trap.err = err ? err : &unused;
    r.arena.limit = JINJA_MEMORY_MAX;
    r.arena.trap = &r.trap;
    buf_clear(&out->text);
    out->range_count = 0;
    out->raised = false;
    bool rendered = render_guarded(&r);
    status st = rendered ? copy_out(out, r.result, err) : r.trap.code;
    out->raised = !rendered && r.raised;
    jinja_arena_free(&r.arena);
    return st;
}

void render_result_free(render_result *r)
{
    buf_free(&r->text);
    free(r->ranges);
    *r = (render_result){0};
}
