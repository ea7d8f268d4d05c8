/* tests/unit/server/bodies.h: request bodies through the handlers that read them, without a network: what workers do.
 * Used by the unit test and by the fuzz target. */
#ifndef HEADWAY_TESTS_BODIES_H
#define HEADWAY_TESTS_BODIES_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/vocab.c" /* the byte vocabulary as a tokenizer */
#include "server/api/messages.h"
#include "server/api/openai.h"

typedef struct {
    tokenizer *tokenizer;
    chat_template *chat_template;
    server_model model;
    chat_form form;
    const route *route; /* of the exchange; NULL: none */
} bodies;

static const char bodies_template[] = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}{% if "
                                      "m.tool_calls %}{{ m.tool_calls|tojson }}{% endif %}"
                                      "<|im_end|>\n{% endfor %}{% if tools %}{{ tools|tojson }}{% endif %}{% if "
                                      "add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

static void bodies_open(bodies *b)
{
    error err = {0};
    *b = (bodies){0};
    if (vocab_of_bytes(&b->tokenizer, &err) ||
        chat_template_compile(&b->chat_template, span_from(bodies_template), &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    b->model = (server_model){
        .tokenizer = b->tokenizer, .chat_template = b->chat_template, .name = "m", .context_length = 512};
    b->model.template_text = bodies_template;
    b->model.tool_parser = "hermes";
    b->model.reasoning_parser = "think";
    chat_form_read(&b->form, &b->model);
}

static void bodies_close(bodies *b)
{
    chat_form_close(&b->form);
    chat_template_destroy(b->chat_template);
    tokenizer_destroy(b->tokenizer);
}

typedef struct {
    int status; /* 0: a plan to generate */
    uint32_t prompts;
    size_t prompt_tokens;
    char text[700];
} bodies_result;

/* Runs one body; checks what must hold of every answer. */
static bodies_result bodies_run(bodies *b, void (*handle)(exchange *x), const char *data, size_t size)
{
    exchange x = {.model = &b->model, .form = &b->form, .route = b->route};
    bodies_result result = {0};
    plan_init(&x.plan);
    buf_append(&x.body, data, size);
    handle(&x);
    result.status = x.error.status ? x.error.status : x.answer.status;
    if (x.error.status) {
        buf text = {0};
        api_error_write(&x.error, &text);
        json_t *valid = json_loadb(text.data, text.size, JSON_ALLOW_NUL, NULL);
        assert(valid && x.error.status >= 400 && x.error.status < 500);
        json_decref(valid);
        snprintf(result.text, sizeof result.text, "%s", text.data);
        buf_free(&text);
    } else if (x.answer.status) {
        json_t *valid = json_loadb(x.answer.body.data, x.answer.body.size, JSON_ALLOW_NUL, NULL);
        assert(valid);
        json_decref(valid);
        snprintf(result.text, sizeof result.text, "%s", x.answer.body.data);
    } else {
        assert(x.plan.prompt_count > 0 && x.plan.choices > 0);
        result.prompts = x.plan.prompt_count;
        for (uint32_t i = 0; i < x.plan.prompt_count; i++) {
            assert(x.plan.prompts[i].count > 0 && x.plan.prompts[i].count < b->model.context_length);
            result.prompt_tokens += x.plan.prompts[i].count;
        }
        snprintf(result.text, sizeof result.text, "%s|%s", x.ignored.data ? x.ignored.data : "",
                 x.warnings.data ? x.warnings.data : "");
    }
    plan_free(&x.plan);
    if (x.free_own)
        x.free_own(x.own);
    buf_free(&x.body);
    buf_free(&x.answer.body);
    buf_free(&x.warnings);
    buf_free(&x.ignored);
    return result;
}

#endif
