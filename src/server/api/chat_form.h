/* server/api/chat_form.h: what does this model's chat template take, and what does it teach the model to write? Found
 * out once, at start-up, from its text and by rendering with it; then only read. */
#ifndef HEADWAY_SERVER_API_CHAT_FORM_H
#define HEADWAY_SERVER_API_CHAT_FORM_H

#include "server/server.h"

typedef struct {
    bool takes_parts;              /* prints text parts itself */
    const char *family;            /* of tool calls (text/output_parser.h); NULL: none that is known */
    const char *thoughts;          /* marks of thoughts; NULL */
    bool takes_object, takes_text; /* arguments of earlier calls, as an object or as the text that it is */
    bool short_ids;                /* refuses call ids that are not of nine letters and digits */
    bool enable_thinking;          /* knows the variable of this name, … */
    bool thinking;
    bool thinking_budget;
    bool mistral_args;          /* mistral: NAME[ARGS]{…}, not an array */
    struct tool_memory *memory; /* owned: of how calls were written */
} chat_form;

void chat_form_read(chat_form *out, const server_model *model);
void chat_form_close(chat_form *form);

#endif
