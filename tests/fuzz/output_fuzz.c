/* Any output, in any family, cut anywhere: the same pieces; a call that ends is a JSON object; with no call and no
 * thought the text is what came. The first byte picks family and thoughts, the second the cuts. */
#include <stdlib.h>

#include "base/buf.h"
#include "text/chat_json.h"
#include "text/output_parser.h"

static const char *const families[] = {NULL,       "hermes",  "qwen3_coder", "llama3_json",
                                       "pythonic", "mistral", "gemma4",      "function_gemma"};
static const char *const thoughts[] = {NULL, "think", "gemma4", "mistral"};

typedef struct {
    buf text, log, arguments;
    bool plain, ascii;
} heard;

static void hear(void *context, const output_piece *piece)
{
    heard *h = context;
    h->plain = h->plain && piece->kind == PIECE_TEXT;
    if (piece->kind == PIECE_TEXT || piece->kind == PIECE_THOUGHT) {
        buf_append(&h->text, piece->text.data, piece->text.size);
        return;
    }
    if (piece->kind == PIECE_ARGUMENTS)
        buf_append(&h->arguments, piece->text.data, piece->text.size);
    else
        buf_printf(&h->log, "|%d %u|", piece->kind, piece->call);
    buf_append(&h->log, piece->text.data ? piece->text.data : "", piece->text.size);
    if (piece->kind != PIECE_CALL_END && piece->kind != PIECE_CALL_CUT)
        return;
    json_error_t where;
    json_t *json = chat_json_load(buf_span(&h->arguments), 0, &where);
    if (piece->kind == PIECE_CALL_END && h->ascii && !memchr(h->arguments.data, '\\', h->arguments.size) &&
        !json_is_object(json))
        abort(); /* escapes are left out: of half a character jansson makes none; and 1e999 is no number to it */
    json_decref(json);
    buf_clear(&h->arguments);
}

static heard listen(const output_parser_config *config, span text, size_t step)
{
    output_parser *p;
    heard h = {.plain = true, .ascii = true};
    for (size_t i = 0; i < text.size; i++)
        h.ascii = h.ascii && (unsigned char)text.data[i] < 0x80 && text.data[i] != 'e' && text.data[i] != 'E';
    if (output_parser_create(&p, config, NULL))
        abort();
    for (size_t at = 0; at < text.size; at += step)
        output_parser_feed(p, span_of(text.data + at, step < text.size - at ? step : text.size - at), hear, &h);
    output_parser_end(p, hear, &h);
    output_parser_destroy(p);
    return h;
}

static void heard_free(heard *h)
{
    buf_free(&h->text);
    buf_free(&h->log);
    buf_free(&h->arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    output_parser_config config = {
        .family = families[data[0] & 7], .thoughts = thoughts[data[0] >> 3 & 3], .thought_open = data[0] >> 5 & 1};
    span text = span_of((const char *)data + 2, size - 2);
    heard whole = listen(&config, text, text.size + 1), cut = listen(&config, text, 1 + data[1] % 16);
    if (!span_equal(buf_span(&whole.text), buf_span(&cut.text)) ||
        !span_equal(buf_span(&whole.log), buf_span(&cut.log)))
        abort();
    if (whole.plain && !config.thought_open && !config.thoughts && !span_equal(buf_span(&whole.text), text))
        abort();
    heard_free(&whole);
    heard_free(&cut);
    return 0;
}
