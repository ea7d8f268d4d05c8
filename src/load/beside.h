/* load/beside.h: what do agents feel while documents are read? Of a plan's phase where both are together: only the time
 * from a document's arrival to its first token counts. Pure arithmetic; one thread. */
#ifndef HEADWAY_LOAD_BESIDE_H
#define HEADWAY_LOAD_BESIDE_H

#include "load/summary.h"

typedef struct {
    bool known;                                    /* both were there, and a stream decoded while a document was read */
    uint32_t documents;                            /* that were read to their first token */
    double document_ttft_s, document_alone_ttft_s; /* medians; NAN: none alone */
    double premium;                                /* their ratio less 1; NAN */
    double seconds;                                /* that streams decoded while a document was read, all streams */
    double chat_tok_s;                             /* of one stream, over these seconds */
    double chat_alone_tok_s;                       /* of one stream beside no document; NAN: none alone */
    double longest_gap_ms;                         /* of the gaps that touch that time */
    double mean_gap_ms;                            /* seconds / tokens */
    double time_gap_ms;                            /* of the gap that a random moment of that time lies in */
    double median_gap_ms;
} load_beside;

/* `summary` is of the same samples. ERR_MEMORY. */
status load_beside_build(load_beside *out, const load_samples *samples, const load_plan *plan,
                         const load_summary *summary, error *err);

#endif
