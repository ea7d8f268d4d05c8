/* load/report_html.c: the page around the JSON. The page itself is report.html beside this file, linked in as bytes;
 * the data stands where its mark is. */
#include "load/report.h"

__asm__(".section .rodata\n"
        ".global headway_report_page\n"
        "headway_report_page:\n"
        ".incbin \"load/report.html\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char headway_report_page[];

static const char mark[] = "{\"mark\":\"data\"}";

void report_html(const load_report *r, buf *out)
{
    const char *page = headway_report_page, *at = strstr(page, mark);
    size_t head = at ? (size_t)(at - page) : strlen(page);
    buf_append(out, page, head);
    if (!at)
        return;
    report_json(r, REPORT_ROWS | REPORT_STREAMS, out);
    buf_text(out, at + sizeof mark - 1);
}
