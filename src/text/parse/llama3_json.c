/* text/parse/llama3_json.c: {"name": …, "parameters": {…}} as the whole answer, of Llama 3.x and 4, perhaps behind
 * <|python_tag|>; several follow each other, by themselves or with ';' or ','. Nothing marks such a call, so an object
 * with other keys is text. */
#include "text/parse/json_call.h"

enum { OBJECT, BETWEEN, CLOSER };

typedef struct {
    uint8_t state;
    uint32_t at;
    json_call call;
} llama3;

enum { OPENER_BARE = 2 };
static const char *const openers[] = {"<|python_tag|>", "<|python_start|>", NULL};
static const char *const start_openers[] = {"{", NULL};
static const char closer[] = "<|python_end|>";
static const char *const marks[] = {closer, NULL};

static void begin(void *state, output_parser *p, uint32_t opener)
{
    llama3 *l = state;
    l->call.strict = true;
    if (opener == OPENER_BARE)
        json_call_push(&l->call, p, '{');
}

static call_step push(void *state, output_parser *p, char byte)
{
    llama3 *l = state;
    if (l->state == BETWEEN) {
        if (is_blank(byte) || byte == ';' || byte == ',')
            return CALL_MORE;
        json_call_reset(&l->call);
        l->at = 0;
        l->state = byte == '{' ? OBJECT : CLOSER;
    }
    if (l->state == CLOSER) {
        literal_step step = literal_push(closer, &l->at, byte);
        if (step == LITERAL_FULL)
            l->state = BETWEEN;
        return step == LITERAL_NOT ? CALL_NOT : CALL_MORE;
    }
    call_step step = json_call_push(&l->call, p, byte);
    if (step == CALL_DONE)
        l->state = BETWEEN;
    return step == CALL_NOT ? CALL_NOT : CALL_MORE;
}

static void release(void *state)
{
    buf_free(&((llama3 *)state)->call.text);
}

const call_family llama3_json_family = {.name = "llama3_json",
                                        .openers = openers,
                                        .start_openers = start_openers,
                                        .marks = marks,
                                        .state_size = sizeof(llama3),
                                        .begin = begin,
                                        .push = push,
                                        .release = release};
