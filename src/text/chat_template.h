/* text/chat_template.h: messages to prompt text, by the model's own Jinja template.
 * Renders as Hugging Face transformers does (sandbox, trim_blocks, lstrip_blocks, loop controls, `generation`, its own
 * tojson). A compiled template is immutable: any thread may render. Bounded in steps, depth and output. */
#ifndef HEADWAY_TEXT_CHAT_TEMPLATE_H
#define HEADWAY_TEXT_CHAT_TEMPLATE_H

#include <jansson.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"

typedef struct chat_template chat_template;

status chat_template_compile(chat_template **out, span source, error *err); /* err: line and what */
void chat_template_destroy(chat_template *t);                               /* NULL is allowed */

typedef struct {
    size_t offset, size; /* in the output */
    bool trusted;        /* written by the template or by a trusted variable (special tokens); false: came from the
                            request's messages, tools, documents or other variables, or from who knows where */
} render_range;

typedef struct {
    buf text;
    render_range *ranges; /* cover the text in order */
    size_t range_count, range_capacity;
    bool raised; /* failure was raise_exception: err holds the template's own message, verbatim (up to its size) */
} render_result; /* zero-initialise; render_result_free */

/* `variables`: a JSON object: messages, tools, documents, add_generation_prompt, bos_token, … as chat_json_load reads
 * it (integers over 64 bits); only read. Strings named *_token at top level are trusted: never let a request set one.
 * `now_unix`: what strftime_now sees (UTC unless TZ says else). `out` is zero or used before: its memory is used again.
 */
status chat_template_render(const chat_template *t, json_t *variables, uint64_t now_unix, render_result *out,
                            error *err);
void render_result_free(render_result *r);

#endif
