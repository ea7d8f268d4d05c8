/* cli/tokenize.c: `headway tokenize --model FILE`: text on stdin, a JSON array of ids out. */
#include <jansson.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/gguf_vocab.h"
#include "cli/help.h"

static const flag_spec tokenize_flags[] = {
    {"--model", "FILE", "a GGUF (its vocabulary is enough) or a tokenizer.json", NULL},
    {"--specials", NULL, "control tokens spelled in the text become their ids", NULL},
    {"--bos", NULL, "add what the model wants at the start and the end", NULL},
    {"--batch", NULL, "stdin is a JSON array of strings, stdout an array of arrays", NULL},
    {"--decode", NULL, "the other way: a JSON array of ids in, text out", NULL},
    {NULL, NULL, NULL, NULL},
};

static const command_spec tokenize_spec = {
    .name = "tokenize",
    .summary = "Reads text on stdin and prints a JSON array of its token ids.",
    .flags = tokenize_flags,
    .notes =
        "Without --specials, text that spells a control token stays text. Bytes that are no UTF-8 count as U+FFFD.\n"
        "With --decode, control tokens are printed only if --specials is given.",
};

static bool read_stdin(buf *out)
{
    char block[65536];
    size_t got;
    while ((got = fread(block, 1, sizeof block, stdin)) > 0)
        buf_append(out, block, got);
    return !ferror(stdin) && !out->failed;
}

static void print_ids(buf *out, const token_list *ids)
{
    buf_byte(out, '[');
    for (size_t i = 0; i < ids->count; i++)
        buf_printf(out, i ? ", %d" : "%d", ids->ids[i]);
    buf_byte(out, ']');
}

static status encode_one(const tokenizer *t, span text, unsigned flags, buf *out, error *err)
{
    token_list ids = {0};
    status st = tokenizer_encode(t, text, flags, &ids, err);
    if (!st)
        print_ids(out, &ids);
    token_list_free(&ids);
    return st;
}

static status encode_batch(const tokenizer *t, span text, unsigned flags, buf *out, error *err)
{
    json_error_t where;
    json_t *list = json_loadb(text.data ? text.data : "", text.size, JSON_ALLOW_NUL, &where);
    if (!json_is_array(list)) {
        json_decref(list);
        return error_set(err, ERR_INVALID, "--batch expects a JSON array of strings on stdin%s%s", list ? "" : ": ",
                         list ? "" : where.text);
    }
    status st = OK;
    size_t i;
    json_t *item;
    buf_byte(out, '[');
    json_array_foreach(list, i, item)
    {
        buf_text(out, i ? ",\n" : "");
        if (!json_is_string(item))
            st = error_set(err, ERR_INVALID, "--batch: element %zu is no string", i);
        else
            st = encode_one(t, span_of(json_string_value(item), json_string_length(item)), flags, out, err);
        if (st)
            break;
    }
    buf_byte(out, ']');
    json_decref(list);
    return st;
}

static status decode(const tokenizer *t, span text, bool keep_specials, buf *out, error *err)
{
    json_t *list = json_loadb(text.data ? text.data : "", text.size, 0, NULL);
    if (!json_is_array(list)) {
        json_decref(list);
        return error_set(err, ERR_INVALID, "--decode expects a JSON array of token ids on stdin");
    }
    detokenizer d = {.keep_specials = keep_specials};
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
        if (id < 0 || id >= tokenizer_vocab_size(t)) {
            json_decref(list);
            return error_set(err, ERR_INVALID, "--decode: element %zu is no token id below %u", i,
                             tokenizer_vocab_size(t));
        }
        detokenizer_push(&d, t, (token_id)id, out);
    }
    detokenizer_finish(&d, out);
    json_decref(list);
    return OK;
}

static status run(const command_flags *flags, const tokenizer *t, error *err)
{
    buf in = {0}, out = {0};
    bool specials = flag_given(flags, "--specials");
    unsigned how = (specials ? TOKENIZE_SPECIALS : 0) | (flag_given(flags, "--bos") ? TOKENIZE_BOS_EOS : 0);
    status st = OK;
    if (!read_stdin(&in))
        st = error_set(err, ERR_IO, "stdin could not be read");
    else if (flag_given(flags, "--decode"))
        st = decode(t, buf_span(&in), specials, &out, err);
    else if (flag_given(flags, "--batch"))
        st = encode_batch(t, buf_span(&in), how, &out, err);
    else
        st = encode_one(t, buf_span(&in), how, &out, err);
    if (!st && !flag_given(flags, "--decode"))
        buf_byte(&out, '\n');
    if (!st && out.failed)
        st = error_set(err, ERR_MEMORY, "out of memory for the answer");
    if (!st && fwrite(out.data ? out.data : "", 1, out.size, stdout) != out.size)
        st = error_set(err, ERR_IO, "stdout could not be written");
    buf_free(&in);
    buf_free(&out);
    return st;
}

int tokenize_main(int argc, char **argv)
{
    command_flags flags;
    error err = {""};
    int code = command_parse(&tokenize_spec, argc, argv, &flags);
    if (code != COMMAND_RUN)
        return code;
    if (!flag_text(&flags, "--model")) {
        error_set(&err, ERR_INVALID, "--model FILE is missing");
        return command_fail(&tokenize_spec, &err, 2);
    }
    tokenizer *t = NULL;
    status st = tokenizer_from_path(&t, flag_text(&flags, "--model"), &err);
    if (!st)
        st = run(&flags, t, &err);
    tokenizer_destroy(t);
    if (!st && fflush(stdout) != 0)
        st = error_set(&err, ERR_IO, "stdout could not be written");
    return st ? command_fail(&tokenize_spec, &err, 1) : 0;
}
