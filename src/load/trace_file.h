/* load/trace_file.h: what did a recorded service see? Lengths and arrival times of a trace; never text. Formats, by
 * their first line: Mooncake JSONL ({timestamp, input_length, output_length, hash_ids}; milliseconds, blocks of 512
 * tokens), BurstGPT CSV (Timestamp in seconds, "Request tokens", "Response tokens"), Azure CSV (TIMESTAMP as date and
 * time, ContextTokens, GeneratedTokens). A wrong line is refused with its number. Read once, then immutable; any
 * thread.
 */
#ifndef HEADWAY_LOAD_TRACE_FILE_H
#define HEADWAY_LOAD_TRACE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/span.h"

enum { TRACE_ROWS_MAX = 1000000, TRACE_BLOCKS_MAX = 4096, TRACE_BLOCK_TOKENS = 512, TRACE_TOKENS_MAX = 1 << 24 };

typedef struct {
    uint64_t at_us; /* after the first row; never decreasing */
    uint32_t input_tokens, output_tokens;
    uint32_t block_start, block_count; /* in trace_file.blocks; rows that share an id share that block's text */
} trace_row;

typedef struct {
    const char *format; /* "mooncake", "burstgpt", "azure" */
    trace_row *rows;
    uint32_t row_count, row_capacity;
    uint64_t *blocks;
    size_t block_count, block_capacity;
} trace_file;

/* At most `limit` rows (0: all) of the text of a file; `name` goes into messages. Rows are sorted by time. `speed`
 * divides the times. */
status trace_file_parse(trace_file *out, span text, const char *name, uint32_t limit, double speed, error *err);
status trace_file_open(trace_file *out, const char *path, uint32_t limit, double speed, error *err);
void trace_file_free(trace_file *t);

#endif
