/* tests/unit/kv/redis_server.h: a redis-server of the test's own, on a free port, without files. */
#ifndef HEADWAY_TESTS_REDIS_SERVER_H
#define HEADWAY_TESTS_REDIS_SERVER_H

#include "base/clock.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    pid_t pid;
    uint16_t port;
    const char *extra[8]; /* more of its options, up to a NULL */
    redisContext *client; /* the test's own way in */
} redis_server;

/* Below the ports that the system deals out: a connection to one of those with nobody behind it may end at itself. */
static inline uint16_t free_port(void)
{
    for (unsigned i = 0; i < 1000; i++) {
        uint16_t port = (uint16_t)(10000 + ((unsigned)getpid() * 131 + i * 17) % 20000);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in at = {
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        bool good = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
        if (fd >= 0)
            close(fd);
        if (good)
            return port;
    }
    return 0;
}

static inline void redis_server_exec(const redis_server *s)
{
    char port[8];
    snprintf(port, sizeof port, "%u", s->port);
    const char *argv[32] = {"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"};
    int count = 9;
    for (int i = 0; i < 8 && s->extra[i]; i++)
        argv[count++] = s->extra[i];
    int null = open("/dev/null", O_RDWR);
    dup2(null, 1);
    dup2(null, 2);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

/* False: there is no redis-server here. */
static inline bool redis_server_start(redis_server *s)
{
    if (!s->port)
        s->port = free_port();
    s->pid = fork();
    if (s->pid == 0)
        redis_server_exec(s);
    uint64_t end_us = clock_now_us() + 10000000;
    while (clock_now_us() < end_us) {
        int how;
        if (waitpid(s->pid, &how, WNOHANG) == s->pid)
            return false;
        redisContext *c = redisConnectWithTimeout("127.0.0.1", s->port, (struct timeval){1, 0});
        if (c && !c->err) {
            s->client = c;
            return true;
        }
        redisFree(c);
        clock_real()->sleep_us(clock_real(), 5000);
    }
    return false;
}

static inline void redis_server_kill(redis_server *s)
{
    if (s->client)
        redisFree(s->client);
    s->client = NULL;
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
}

/* An integer reply's value, an array's or a text's length; -1: an error. */
static inline long long redis_say(redis_server *s, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    redisReply *reply = redisvCommand(s->client, format, list);
    va_end(list);
    if (!reply)
        return -1;
    long long value = reply->type == REDIS_REPLY_INTEGER ? reply->integer
                      : reply->type == REDIS_REPLY_ARRAY ? (long long)reply->elements
                      : reply->type == REDIS_REPLY_ERROR ? -1
                                                         : (long long)reply->len;
    freeReplyObject(reply);
    return value;
}

#endif
