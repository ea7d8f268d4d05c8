/* server/batch/line.h: the lines of a batch: what one asks for, and the line that answers it. Any thread. */
#ifndef HEADWAY_SERVER_BATCH_LINE_H
#define HEADWAY_SERVER_BATCH_LINE_H

#include <jansson.h>

#include "server/batch/record.h"

enum { BATCH_LINES_MAX = 50000, BATCH_LINE_BYTES_MAX = 16 << 20, CUSTOM_ID_MAX = 512 };

typedef struct {
    json_t *root;          /* owned */
    const char *custom_id; /* inside root, as is body */
    json_t *body;
} batch_line;

/* One line of an input file. False: `fault` has code and words, not the line's number. */
bool batch_line_read(batch_line *out, span text, const char *endpoint, batch_error *fault);
void batch_line_free(batch_line *line);

/* Where the lines of an input are. Blank ones are none. */
typedef struct {
    uint64_t *starts; /* owned, as is sizes */
    uint32_t *sizes;
    uint32_t count;
} batch_input;

/* Reads the whole of an input. Faults (at most BATCH_ERRORS_MAX) go into `r`; then the batch cannot run. False: out of
 * memory. */
bool batch_input_read(batch_input *out, span text, batch_record *r);
void batch_input_free(batch_input *input);

/* The answer to line `index` of the batch; `body` is JSON. */
void batch_answer_write(buf *out, const char *batch_id, uint32_t index, const char *custom_id, int http_status,
                        span body);
/* Instead of an answer. */
void batch_answer_write_error(buf *out, const char *batch_id, uint32_t index, const char *custom_id, const char *code,
                              const char *message);
/* Which line does `line` answer? False: it is none of this batch's answers. */
bool batch_answer_index(span line, const char *batch_id, uint32_t *index);

#endif
