/* tests/fuzz/http_fuzz.c: byte streams through the HTTP parser, whole and in pieces; both must give the same. */
#include "unit/server/http_streams.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 8192)
        return 0;
    stream_sum whole = stream_run((const char *)data, size, size + 1);
    size_t step = size ? 1 + data[0] % 16 : 1;
    if (!stream_same(whole, stream_run((const char *)data, size, step)) ||
        (size < 512 && !stream_same(whole, stream_run((const char *)data, size, 1))))
        abort();
    return 0;
}
