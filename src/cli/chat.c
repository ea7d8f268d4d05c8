/* cli/chat.c: `headway chat`: a conversation in the terminal, or one message from a pipe. */
#include "cli/chat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/help.h"

static const flag_spec chat_flags[] = {
    {"--url", "URL", "a running server", "http://127.0.0.1:8080"},
    {"--model", "PATH", "start a server of our own with this model file instead", NULL},
    {"--api-key", "KEY", "the server's key (or HEADWAY_API_KEY in the environment)", NULL},
    {"--name", "NAME", "the model to ask for [the first that the server lists]", NULL},
    {"--system", "TEXT", "the system message", NULL},
    {"--temperature", "X", "0: always the likeliest token [the server's default]", NULL},
    {"--max-tokens", "N", "tokens of an answer at most [what fits]", NULL},
    {NULL, NULL, NULL, NULL},
};
static const command_spec chat_spec = {
    .name = "chat",
    .summary = "Talks to a model. Without a terminal, all of stdin is one message and the answer goes to stdout.",
    .flags = chat_flags,
    .notes = "A line that ends in \\ goes on in the next one; ``` opens a block of code, \"\"\" a block of text.\n"
             "Ctrl-C stops an answer, Ctrl-D leaves. /help lists the commands inside.",
};

typedef struct {
    chat_client *client;
    chat_server server;
    json_t *messages; /* of the conversation, the system message first */
    json_t *options;  /* model, temperature, max_tokens */
    bool terminal_in, terminal_out;
} chat;

typedef struct { /* of one answer */
    chat *chat;
    buf text; /* what goes into the conversation */
    unsigned char held;
    bool reasoning, ends_line;
} answer;

static volatile sig_atomic_t stop;

static void on_interrupt(int number)
{
    (void)number;
    stop = 1;
}

static void print_piece(void *context, span text, bool reasoning)
{
    answer *a = context;
    if (!reasoning)
        buf_append(&a->text, text.data, text.size);
    else if (!a->chat->terminal_out)
        return; /* a pipe gets the answer alone */
    if (a->chat->terminal_out && reasoning != a->reasoning)
        fputs(reasoning ? "\033[2m" : "\033[0m\n", stdout);
    a->reasoning = reasoning;
    buf shown = {0};
    if (a->chat->terminal_out)
        chat_printable(text, &a->held, &shown);
    else
        buf_append(&shown, text.data, text.size);
    if (shown.size > 0) {
        fwrite(shown.data, 1, shown.size, stdout);
        a->ends_line = shown.data[shown.size - 1] == '\n';
    }
    fflush(stdout);
    buf_free(&shown);
}

static json_t *message(const char *role, span text)
{
    return json_pack("{s:s, s:s%}", "role", role, "content", text.data ? text.data : "", text.size);
}

/* Asks with the conversation as it is and adds the answer to it; a part of one too. False: nothing was added. */
static bool ask(chat *c, error *err)
{
    answer a = {.chat = c, .ends_line = true, .text.limit = CHAT_MESSAGE_MAX};
    chat_stream stream = {.on_text = print_piece, .context = &a};
    json_t *request = json_copy(c->options);
    json_object_set(request, "messages", c->messages);
    json_object_set_new(request, "stream", json_true());
    if (!json_object_get(request, "temperature")) { /* drawing from all tokens, a small model rambles */
        json_object_set_new(request, "temperature", json_real(0.7));
        json_object_set_new(request, "top_p", json_real(0.9));
    }
    status st = chat_client_ask(c->client, request, &stream, err);
    json_decref(request);
    if (c->terminal_out && a.reasoning)
        fputs("\033[0m", stdout);
    if (!a.ends_line)
        putchar('\n');
    if (c->terminal_out && st == ERR_CANCELLED)
        puts("(stopped)");
    else if (c->terminal_out && !strcmp(stream.finish, "length"))
        puts("(cut: no room for more tokens)");
    fflush(stdout);
    bool kept = a.text.size > 0 && !json_array_append_new(c->messages, message("assistant", buf_span(&a.text)));
    if (st == OK || st == ERR_CANCELLED)
        err->text[0] = '\0';
    chat_stream_free(&stream);
    buf_free(&a.text);
    return kept;
}

/* ---- commands inside ---- */

static bool has_system(const chat *c)
{
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, 0), "role"));
    return role && !strcmp(role, "system");
}

static void set_system(chat *c, const char *text)
{
    if (has_system(c))
        json_array_remove(c->messages, 0);
    if (text[0])
        json_array_insert_new(c->messages, 0, message("system", span_from(text)));
}

static void clear_conversation(chat *c)
{
    while (json_array_size(c->messages) > (has_system(c) ? 1u : 0u))
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
}

static void save(const chat *c, const char *path)
{
    if (!path[0])
        puts("/save needs a file name");
    else if (json_dump_file(c->messages, path, JSON_INDENT(2)))
        printf("%s: cannot be written: %s\n", path, strerror(errno));
    else
        printf("%zu messages saved in %s\n", json_array_size(c->messages), path);
}

static bool is_command(const char *line, const char *name, const char **argument)
{
    size_t size = strlen(name);
    if (strncmp(line, name, size) || (line[size] != '\0' && line[size] != ' '))
        return false;
    *argument = line + size + (line[size] == ' ' ? 1 : 0);
    return true;
}

static void run_command(chat *c, const char *line)
{
    const char *argument = "";
    if (is_command(line, "/clear", &argument)) {
        clear_conversation(c);
        puts("the conversation is empty");
    } else if (is_command(line, "/system", &argument)) {
        set_system(c, argument);
        puts(argument[0] ? "the system message is set" : "there is no system message now");
    } else if (is_command(line, "/save", &argument)) {
        save(c, argument);
    } else {
        if (!is_command(line, "/help", &argument))
            printf("'%s' is not a command\n", line);
        puts("/clear         forget the conversation, keep the system message\n"
             "/system TEXT   set the system message; without TEXT, remove it\n"
             "/save FILE     write the conversation as JSON\n"
             "/help          this text; Ctrl-C stops an answer, Ctrl-D leaves\n"
             "A line that ends in \\ goes on; ``` opens a block of code, \"\"\" a block of text.");
    }
}

/* ---- the two ways to talk ---- */

static void say(chat *c, span text)
{
    error err = {0};
    json_t *mine = message("user", text);
    if (!mine) {
        puts("the message is not UTF-8 text");
        return;
    }
    json_array_append_new(c->messages, mine);
    stop = 0;
    if (!ask(c, &err)) /* as if it had not been said */
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
    stop = 0;
    if (err.text[0])
        printf("%s\n", err.text);
}

static int talk(chat *c)
{
    chat_lines lines = {.fd = 0};
    chat_draft draft = {0};
    buf line = {.limit = CHAT_MESSAGE_MAX};
    for (;;) {
        fputs(draft.started || draft.inside != DRAFT_PLAIN ? "… " : "> ", stdout);
        fflush(stdout);
        buf_clear(&line);
        line_outcome outcome = chat_lines_next(&lines, &stop, &line);
        if (outcome == LINE_END)
            break;
        bool fresh = !draft.started && draft.inside == DRAFT_PLAIN;
        if (outcome == LINE_INTERRUPTED) {
            stop = 0;
            chat_draft_clear(&draft);
            puts(fresh ? "\n(Ctrl-D leaves)" : "\n(message dropped)");
        } else if (fresh && line.size > 0 && line.data[0] == '/') {
            run_command(c, line.data);
        } else if (!(fresh && line.size == 0) && chat_draft_add(&draft, buf_span(&line))) {
            say(c, buf_span(&draft.text));
            chat_draft_clear(&draft);
        }
    }
    putchar('\n');
    buf_free(&line);
    buf_free(&lines.held);
    chat_draft_free(&draft);
    return 0;
}

static int answer_once(chat *c, error *err)
{
    buf text = {.limit = CHAT_MESSAGE_MAX};
    char piece[4096];
    for (ssize_t got; (got = read(0, piece, sizeof piece)) > 0;)
        buf_append(&text, piece, (size_t)got);
    while (text.size > 0 && (text.data[text.size - 1] == '\n' || text.data[text.size - 1] == '\r'))
        text.size--;
    json_t *mine = text.size > 0 && !text.failed ? message("user", buf_span(&text)) : NULL;
    if (!mine)
        error_set(err, ERR_INVALID, "stdin: %s",
                  text.failed     ? "over 16 MB"
                  : text.size > 0 ? "not UTF-8 text"
                                  : "no message");
    else {
        json_array_append_new(c->messages, mine);
        ask(c, err);
    }
    buf_free(&text);
    return err->text[0] ? 1 : stop ? 130 : 0;
}

/* ---- start and end ---- */

static status wait_for_server(chat *c, error *err)
{
    bool told = false;
    for (uint64_t start_us = clock_now_us(); !chat_client_healthy(c->client);) {
        if (chat_server_died(&c->server, err))
            return ERR_IO;
        if (stop)
            return error_set(err, ERR_CANCELLED, "stopped while the model was loading");
        if (!told && clock_now_us() - start_us > 500000) {
            fprintf(stderr, "loading the model…\n");
            told = true;
        }
        clock_real()->sleep_us(clock_real(), 20000);
    }
    return OK;
}

static status set_options(chat *c, const command_flags *flags, error *err)
{
    c->messages = json_array();
    c->options = json_object();
    uint64_t max_tokens = 0;
    const char *temperature = flag_text(flags, "--temperature");
    if (flag_given(flags, "--max-tokens")) {
        if (flag_number(flags, "--max-tokens", 1, 1u << 30, &max_tokens, err))
            return ERR_INVALID;
        json_object_set_new(c->options, "max_tokens", json_integer((json_int_t)max_tokens));
    }
    if (temperature) {
        char *end = NULL;
        double value = strtod(temperature, &end);
        if (end == temperature || *end || !(value >= 0 && value <= 2))
            return error_set(err, ERR_INVALID, "--temperature: '%s' is not a number from 0 to 2", temperature);
        json_object_set_new(c->options, "temperature", json_real(value));
    }
    if (flag_given(flags, "--system"))
        set_system(c, flag_text(flags, "--system"));
    return OK;
}

static status connect_server(chat *c, const command_flags *flags, error *err)
{
    const char *url = flag_text(flags, "--url"), *model = flag_text(flags, "--model");
    const char *key = flag_given(flags, "--api-key") ? flag_text(flags, "--api-key") : getenv("HEADWAY_API_KEY");
    if (model) {
        if (chat_server_start(&c->server, model, err))
            return ERR_IO;
        url = c->server.url;
        key = c->server.api_key;
    }
    status st = chat_client_open(&c->client, url, key, &stop, err);
    if (st == OK && model)
        st = wait_for_server(c, err);
    buf name = {0};
    if (st == OK && flag_given(flags, "--name"))
        buf_text(&name, flag_text(flags, "--name"));
    else if (st == OK)
        st = chat_client_model(c->client, &name, err);
    if (st == OK)
        json_object_set_new(c->options, "model", json_string(name.data));
    else if (st == ERR_IO && !model && !flag_given(flags, "--url"))
        error_prefix(err, st, "no server there; start one with `headway serve`, or give --model PATH");
    buf_free(&name);
    return st;
}

int chat_main(int argc, char **argv)
{
    command_flags flags;
    int code = command_parse(&chat_spec, argc, argv, &flags);
    if (code != COMMAND_RUN)
        return code;
    struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART: a read ends with EINTR */
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    chat c = {.server.log_fd = -1, .terminal_in = isatty(0), .terminal_out = isatty(1)};
    error err = {0};
    if (flag_given(&flags, "--url") && flag_given(&flags, "--model"))
        error_set(&err, ERR_INVALID, "--url and --model: give one of them");
    if (err.text[0] || set_options(&c, &flags, &err))
        code = command_fail(&chat_spec, &err, 2);
    else if (connect_server(&c, &flags, &err))
        code = command_fail(&chat_spec, &err, 1);
    else if (c.terminal_in)
        code = talk(&c);
    else if ((code = answer_once(&c, &err)) == 1)
        command_fail(&chat_spec, &err, 1);
    chat_client_close(c.client);
    chat_server_stop(&c.server);
    json_decref(c.messages);
    json_decref(c.options);
    return code;
}
