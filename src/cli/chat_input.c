/* cli/chat_input.c: what the user types, as lines and as messages. */
#include <errno.h>
#include <unistd.h>

#include "cli/chat.h"

static bool starts_with(span line, const char *mark)
{
    return line.size >= strlen(mark) && !memcmp(line.data, mark, strlen(mark));
}

static bool ends_with(span line, const char *mark)
{
    return line.size >= strlen(mark) && !memcmp(line.data + line.size - strlen(mark), mark, strlen(mark));
}

static void add_text(chat_draft *draft, span text)
{
    if (draft->started)
        buf_byte(&draft->text, '\n');
    buf_append(&draft->text, text.data, text.size);
    draft->started = true;
}

/* Whether a line that opened or continues a plain message leaves it open. */
static void add_plain(chat_draft *draft, span line)
{
    bool more = ends_with(line, "\\");
    add_text(draft, span_of(line.data, line.size - (more ? 1 : 0)));
    draft->complete = !more;
}

static void add_quoted(chat_draft *draft, span line)
{
    draft->complete = ends_with(line, "\"\"\"");
    span kept = span_of(line.data, line.size - (draft->complete ? 3 : 0));
    if (kept.size > 0 || !draft->complete)
        add_text(draft, kept);
}

bool chat_draft_add(chat_draft *draft, span line)
{
    draft->text.limit = CHAT_MESSAGE_MAX;
    if (draft->inside == DRAFT_FENCE) {
        add_text(draft, line);
        draft->complete = starts_with(line, "```");
    } else if (draft->inside == DRAFT_QUOTES) {
        add_quoted(draft, line);
    } else if (starts_with(line, "\"\"\"")) {
        draft->inside = DRAFT_QUOTES;
        if (line.size > 3)
            add_quoted(draft, span_of(line.data + 3, line.size - 3));
    } else if (starts_with(line, "```") && !(line.size > 3 && ends_with(line, "```"))) {
        draft->inside = DRAFT_FENCE;
        add_text(draft, line);
    } else {
        add_plain(draft, line);
    }
    return draft->complete;
}

void chat_draft_clear(chat_draft *draft)
{
    buf_clear(&draft->text);
    draft->inside = DRAFT_PLAIN;
    draft->started = draft->complete = false;
}

void chat_draft_free(chat_draft *draft)
{
    buf_free(&draft->text);
}

line_outcome chat_lines_next(chat_lines *lines, volatile sig_atomic_t *stop, buf *line)
{
    lines->held.limit = CHAT_MESSAGE_MAX;
    for (;;) {
        const char *end = lines->held.size ? memchr(lines->held.data, '\n', lines->held.size) : NULL;
        size_t size = end ? (size_t)(end - lines->held.data) : lines->held.size;
        if (end || (lines->ended && size > 0)) {
            buf_append(line, lines->held.data, size);
            size_t taken = size + (end ? 1 : 0);
            memmove(lines->held.data, lines->held.data + taken, lines->held.size - taken);
            lines->held.size -= taken;
            return LINE_READ;
        }
        if (lines->ended)
            return LINE_END;
        char piece[4096];
        ssize_t got = read(lines->fd, piece, sizeof piece);
        if (got > 0) {
            buf_append(&lines->held, piece, (size_t)got);
            lines->ended = lines->held.failed; /* a line over the limit ends the input */
        } else if (got < 0 && errno == EINTR) {
            if (*stop) {
                buf_clear(&lines->held);
                return LINE_INTERRUPTED;
            }
        } else {
            lines->ended = true;
        }
    }
}
