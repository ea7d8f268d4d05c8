/* cli/chat_server.c: the server behind `headway chat --model`. It runs in a process group of its own, so that Ctrl-C in
 * the terminal does not reach it, and dies with us. */
#define _GNU_SOURCE /* memfd_create */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/chat.h"

enum { STOP_STEP_US = 20000, STOP_STEPS = 150 }; /* 3 s for each of SIGTERM and a second one */

/* A port that was free a moment ago; the server says so if somebody else was quicker. */
static int free_port(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int port = 0;
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&address, size) && !getsockname(fd, (struct sockaddr *)&address, &size))
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

static bool make_key(char key[33])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(key + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static void run_server(int log_fd, const char *model_path, const char *port, const char *api_key)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGINT, SIG_DFL);
    dup2(log_fd, 1);
    dup2(log_fd, 2);
    setenv("HEADWAY_API_KEY", api_key, 1); /* not an argument: other users see those */
    execl("/proc/self/exe", "headway", "serve", "--model", model_path, "--host", "127.0.0.1", "--port", port,
          (char *)NULL);
    fprintf(stderr, "cannot start the server: %s\n", strerror(errno));
    _exit(127);
}

status chat_server_start(chat_server *server, const char *model_path, error *err)
{
    *server = (chat_server){.log_fd = -1};
    int port = free_port();
    if (!port || !make_key(server->api_key))
        return error_set(err, ERR_IO, "no free port or no random numbers: %s", strerror(errno));
    server->log_fd = memfd_create("headway-chat-server", MFD_CLOEXEC);
    if (server->log_fd < 0)
        return error_set(err, ERR_IO, "no place for the server's log: %s", strerror(errno));
    char port_text[8];
    snprintf(port_text, sizeof port_text, "%d", port);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", port);
    pid_t pid = fork();
    if (pid < 0)
        return error_set(err, ERR_IO, "cannot start a process: %s", strerror(errno));
    if (pid == 0)
        run_server(server->log_fd, model_path, port_text, server->api_key);
    server->pid = pid;
    return OK;
}

/* The last line that the server wrote is its reason. */
static void last_words(const chat_server *server, error *err)
{
    char text[2048];
    off_t size = lseek(server->log_fd, 0, SEEK_END);
    off_t from = size > (off_t)sizeof text - 1 ? size - (off_t)sizeof text + 1 : 0;
    ssize_t got = pread(server->log_fd, text, sizeof text - 1, from);
    text[got > 0 ? got : 0] = '\0';
    while (got > 0 && text[got - 1] == '\n')
        text[--got] = '\0';
    const char *line = strrchr(text, '\n');
    error_set(err, ERR_IO, "%s", line ? line + 1 : text[0] ? text : "the server ended without a word");
}

bool chat_server_died(chat_server *server, error *err)
{
    if (server->pid && waitpid(server->pid, NULL, WNOHANG) != server->pid)
        return false;
    server->pid = 0;
    last_words(server, err);
    return true;
}

void chat_server_stop(chat_server *server)
{
    static const int signals[] = {SIGTERM, SIGTERM, SIGKILL};
    for (size_t i = 0; server->pid && i < sizeof signals / sizeof *signals; i++) {
        kill(server->pid, signals[i]);
        for (int step = 0; server->pid && step < STOP_STEPS; step++) {
            if (waitpid(server->pid, NULL, signals[i] == SIGKILL ? 0 : WNOHANG) != 0)
                server->pid = 0;
            else
                clock_real()->sleep_us(clock_real(), STOP_STEP_US);
        }
    }
    if (server->log_fd >= 0)
        close(server->log_fd);
    server->log_fd = -1;
}
