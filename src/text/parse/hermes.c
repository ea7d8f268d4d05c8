/* text/parse/hermes.c: <tool_call>{"name": …, "arguments": {…}}</tool_call>, of Hermes, Qwen 2.5, Qwen 3 and many. The
 * closing mark may be missing, and one pair of marks may hold several objects. Small models write the object alone, or
 * in a fence, as the whole answer: that is a call if it has nothing but a tool's name and arguments. */
#include "text/parse/json_call.h"

enum { OBJECT, BETWEEN, CLOSER };

enum { OPENER_MARKED, OPENER_FENCE, OPENER_BARE };
static const char *const openers[] = {"<tool_call>", NULL};
static const char *const start_openers[] = {"```json", "{", NULL};
static const char *const marks[] = {"</tool_call>", NULL};

typedef struct {
    uint8_t state;
    uint32_t at, opener;
    json_call call;
} hermes;

static void begin(void *state, output_parser *p, uint32_t opener)
{
    hermes *h = state;
    h->opener = opener;
    h->call.strict = opener != OPENER_MARKED;
    if (opener == OPENER_BARE)
        json_call_push(&h->call, p, '{');
}

static call_step push(void *state, output_parser *p, char byte)
{
    hermes *h = state;
    if (h->state == BETWEEN && byte == '{') {
        json_call_reset(&h->call);
        h->state = OBJECT;
    }
    if (h->state == OBJECT) {
        call_step step = json_call_push(&h->call, p, byte);
        if (step == CALL_DONE)
            h->state = BETWEEN;
        return step == CALL_NOT ? CALL_NOT : CALL_MORE;
    }
    if (h->state == BETWEEN) {
        if (is_blank(byte))
            return CALL_MORE;
        h->state = CLOSER;
        h->at = 0;
    }
    if (h->opener == OPENER_BARE)
        return CALL_NOT;
    literal_step step = literal_push(h->opener == OPENER_FENCE ? "```" : "</tool_call>", &h->at, byte);
    return step == LITERAL_FULL ? CALL_DONE : step == LITERAL_MORE ? CALL_MORE : CALL_NOT;
}

static void release(void *state)
{
    buf_free(&((hermes *)state)->call.text);
}

const call_family hermes_family = {.name = "hermes",
                                   .openers = openers,
                                   .start_openers = start_openers,
                                   .marks = marks,
                                   .state_size = sizeof(hermes),
                                   .begin = begin,
                                   .push = push,
                                   .release = release};
