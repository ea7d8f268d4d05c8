/* server/heads.c: see heads.h. */
#include "server/heads.h"

bool head_is_json(span type)
{
    span base = type;
    const char *end = type.size ? memchr(type.data, ';', type.size) : NULL;
    if (end)
        base.size = (size_t)(end - type.data);
    while (base.size && base.data[base.size - 1] == ' ')
        base.size--;
    return !type.size || http_value_has(base, "application/json") || http_value_has(base, "text/json");
}

void head_answer_options(connection *c, const http_head *head, const char *data, const char *allow)
{
    buf headers = {0};
    span asked = http_head_get(head, data, "access-control-request-headers");
    buf_printf(&headers, "Allow: %s\r\nAccess-Control-Allow-Methods: %s\r\nAccess-Control-Max-Age: 86400\r\n", allow,
               allow);
    buf_text(&headers, "Access-Control-Allow-Headers: ");
    if (asked.size)
        buf_append(&headers, asked.data, asked.size);
    else
        buf_text(&headers, "*");
    buf_text(&headers, "\r\n");
    connection_respond(c, 204, NULL, buf_span(&headers), (span){0});
    buf_free(&headers);
}
