/* tests/fuzz/run_fuzz.c: files of measured runs of any bytes. What is taken is within its limits, writes and reads back
 * the same, and taking the same file once more takes nothing. */
#include <stdlib.h>

#include "plan/measured_private.h"

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_record(const run_record *r)
{
    run_record again;
    buf text = {0};
    run_record_write(r, &text);
    require(!text.failed && text.size <= RUN_LINE_MAX &&
            memchr(text.data, '\n', text.size) == text.data + text.size - 1);
    require(run_record_read(&again, span_of(text.data, text.size - 1), NULL) == OK);
    require(run_compare_group(r, &again) == 0);
    require(r->tok_s > 0 && r->batch > 0 && r->repeats > 0 && r->hardware[0] && r->model[0] && r->type[0]);
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { NOW = 1796000000 };
    const span text = {(const char *)data, size};
    import_report first, second;
    run_set set = {0};
    require(run_set_import(&set, text, NOW, &first, NULL) == OK);
    require(set.count == first.taken);
    require((first.refused + first.outliers > 0) == (first.first_reason[0] != 0));
    for (uint32_t i = 0; i < set.count; i++)
        check_record(&set.items[i]);
    require(run_set_import(&set, text, NOW, &second, NULL) == OK);
    require(second.taken == 0 && second.refused == first.refused && second.outliers == first.outliers);
    require(second.doubles == first.taken + first.doubles);
    require(run_set_trim(&set, 3, NULL) == OK && set.count <= 3);
    run_set_free(&set);
    return 0;
}
