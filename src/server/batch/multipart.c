/* server/batch/multipart.c: see multipart.h. */
#include "server/batch/multipart.h"

#include <strings.h>

typedef struct {
    const char *at, *end;
} reader;

static bool starts(const reader *r, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(r->end - r->at) >= size && strncasecmp(r->at, text, size) == 0;
}

static bool skip(reader *r, const char *text)
{
    if (!starts(r, text))
        return false;
    r->at += strlen(text);
    return true;
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
}

/* RFC 2046: what a boundary is made of; a blank may not end it, and is not accepted anywhere here. */
static bool is_boundary_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("'()+_,-./:=?", c));
}

static bool read_boundary(reader *r, span *out)
{
    bool quoted = skip(r, "\"");
    const char *start = r->at;
    while (r->at < r->end && is_boundary_byte(*r->at))
        r->at++;
    *out = span_of(start, (size_t)(r->at - start));
    if (quoted && !skip(r, "\""))
        return false;
    return out->size > 0 && out->size <= FORM_BOUNDARY_MAX && (r->at == r->end || *r->at == ';' || *r->at == ' ');
}

bool form_boundary(span content_type, span *boundary)
{
    if (!content_type.size)
        return false;
    reader r = {content_type.data, content_type.data + content_type.size};
    if (!skip(&r, "multipart/form-data"))
        return false;
    for (;;) {
        skip_blanks(&r);
        if (!skip(&r, ";"))
            return false;
        skip_blanks(&r);
        if (skip(&r, "boundary="))
            return read_boundary(&r, boundary);
        while (r.at < r.end && *r.at != ';')
            r.at++;
    }
}

/* "--boundary" at the start, or behind a CR LF. */
static const char *find_delimiter(const char *at, const char *end, span boundary)
{
    size_t size = boundary.size + 4;
    while ((size_t)(end - at) >= size) {
        const char *found = memchr(at, '\r', (size_t)(end - at) - size + 1);
        if (!found)
            return NULL;
        if (memcmp(found, "\r\n--", 4) == 0 && memcmp(found + 4, boundary.data, boundary.size) == 0)
            return found;
        at = found + 1;
    }
    return NULL;
}

static bool read_quoted(reader *r, span *out)
{
    if (!skip(r, "\""))
        return false;
    const char *start = r->at;
    for (; r->at < r->end && *r->at != '"'; r->at++) {
        if (*r->at == '\\' && ++r->at == r->end)
            return false;
        if ((unsigned char)*r->at < 0x20 || *r->at == 0x7f)
            return false;
    }
    *out = span_of(start, (size_t)(r->at - start));
    return out->size <= FORM_NAME_MAX && skip(r, "\"");
}

/* `form-data; name="…"; filename="…"`, other parameters passed over. */
static bool read_disposition(reader *r, form_part *part)
{
    skip_blanks(r);
    if (!skip(r, "form-data"))
        return false;
    for (;;) {
        span value = {0};
        skip_blanks(r);
        if (r->at == r->end)
            return part->name.data != NULL;
        if (!skip(r, ";"))
            return false;
        skip_blanks(r);
        bool is_name = starts(r, "name="), is_filename = starts(r, "filename=");
        while (r->at < r->end && *r->at != '=' && *r->at != ';')
            r->at++;
        if (!skip(r, "="))
            return false;
        if (!is_name && !is_filename) {
            if (r->at < r->end && *r->at == '"' && !read_quoted(r, &value))
                return false;
            while (r->at < r->end && *r->at != ';')
                r->at++;
            continue;
        }
        span *into = is_name ? &part->name : &part->filename;
        if (into->data || !read_quoted(r, into))
            return false;
    }
}

/* The lines of a part's head, up to and with the empty one. */
static bool read_part_head(reader *r, form_part *part)
{
    bool found = false;
    const char *limit = r->at + ((r->end - r->at) < FORM_HEAD_MAX ? (r->end - r->at) : FORM_HEAD_MAX);
    for (;;) {
        const char *end = r->at < limit ? memchr(r->at, '\r', (size_t)(limit - r->at)) : NULL;
        if (!end || end + 1 >= limit || end[1] != '\n')
            return false;
        if (end == r->at) {
            r->at += 2;
            return found;
        }
        reader line = {r->at, end};
        for (const char *c = line.at; c < line.end; c++)
            if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f)
                return false;
        if (skip(&line, "content-disposition:")) {
            if (found || !read_disposition(&line, part))
                return false;
            found = true;
        } else if (!memchr(line.at, ':', (size_t)(line.end - line.at))) {
            return false;
        } else if (starts(&line, "content-transfer-encoding:")) {
            return false;
        }
        r->at = end + 2;
    }
}

bool form_parse(form *out, span boundary, span body, const char **why)
{
    *out = (form){0};
    *why = "the form does not begin with its boundary";
    if (!body.size)
        return false;
    reader r = {body.data, body.data + body.size};
    if (body.size < boundary.size + 2 || memcmp(r.at, "--", 2) != 0 ||
        memcmp(r.at + 2, boundary.data, boundary.size) != 0)
        return false;
    r.at += 2 + boundary.size;
    while (!skip(&r, "--")) {
        form_part part = {0};
        *why = "a boundary of the form is followed by something else than a line's end";
        if (!skip(&r, "\r\n"))
            return false;
        *why = "the head of a part of the form is malformed";
        if (!read_part_head(&r, &part))
            return false;
        *why = "the form is cut off: its last boundary is missing";
        const char *end = find_delimiter(r.at - 2, r.end, boundary); /* an empty part's follows its head at once */
        if (!end)
            return false;
        *why = "the form has too many parts";
        if (out->count == FORM_PARTS_MAX)
            return false;
        part.value = end < r.at ? span_of(r.at, 0) : span_of(r.at, (size_t)(end - r.at));
        out->parts[out->count++] = part;
        r.at = end + 4 + boundary.size;
    }
    skip(&r, "\r\n");
    *why = "there is something behind the form's last boundary";
    return r.at == r.end;
}

const form_part *form_find(const form *f, const char *name)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (span_is(f->parts[i].name, name))
            return &f->parts[i];
    return NULL;
}
