/* cli/hash_key.c: `headway hash-key`: an API key on standard input, its line for the config file on standard output. */
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/secret.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "server/auth.h"

static const flag_spec hash_key_flags[] = {{NULL, NULL, NULL, NULL}};
static const command_spec hash_key_spec = {
    .name = "hash-key",
    .summary =
        "Reads an API key on standard input and writes its hash, for key-hash in the config file of `headway serve`.",
    .flags = hash_key_flags,
    .notes = "A key should be random: openssl rand -hex 24 makes one.",
};

/* A terminal shows nothing of what is typed. */
static void show_typing(bool on)
{
    struct termios terminal;
    if (!isatty(0) || tcgetattr(0, &terminal))
        return;
    if (!on)
        fputs("key: ", stderr);
    else
        fputc('\n', stderr);
    terminal.c_lflag = on ? terminal.c_lflag | ECHO : terminal.c_lflag & ~(tcflag_t)ECHO;
    tcsetattr(0, TCSAFLUSH, &terminal);
}

static status hash_line(char *line, size_t size, error *err)
{
    char hex[SHA256_HEX + 1];
    uint8_t hash[SHA256_BYTES];
    show_typing(false);
    bool any = fgets(line, (int)size, stdin) != NULL;
    show_typing(true);
    if (!any)
        return error_set(err, ERR_INVALID, "there is no key on standard input");
    span key = span_of(line, strcspn(line, "\r\n"));
    if (!auth_key_is_valid(key))
        return error_set(err, ERR_INVALID, "a key has 1 to %d visible ASCII characters, no blanks", AUTH_KEY_BYTES_MAX);
    sha256(key, hash);
    sha256_write_hex(hash, hex);
    printf("sha256:%s\n", hex);
    return fflush(stdout) ? error_set(err, ERR_IO, "standard output cannot be written") : OK;
}

int hash_key_main(int argc, char **argv)
{
    command_flags flags;
    error err = {""};
    char line[AUTH_KEY_BYTES_MAX + 3];
    int code = command_parse(&hash_key_spec, argc, argv, &flags);
    if (code != COMMAND_RUN)
        return code;
    setvbuf(stdin, NULL, _IONBF, 0); /* no copy of the key in a buffer */
    status st = hash_line(line, sizeof line, &err);
    secret_wipe(line, sizeof line);
    return st ? command_fail(&hash_key_spec, &err, st == ERR_INVALID ? 2 : 1) : 0;
}
