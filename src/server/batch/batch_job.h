/* server/batch/batch_job.h: one batch that runs. Its file of answers is the truth about which lines are done: answers
 * are appended and synced in groups before they are counted, so that a kill at any moment loses no answer that was
 * counted, and repeats no line that has one; what a kill leaves torn at the end is cut off at the next start. Loop
 * thread; the work_… functions run on a worker, one at a time for a job. Private to this folder. */
#ifndef HEADWAY_SERVER_BATCH_BATCH_JOB_H
#define HEADWAY_SERVER_BATCH_BATCH_JOB_H

#include "server/batch/line.h"
#include "server/batch/store.h"
#include "server/exchange.h"

enum { JOB_PENDING_MAX = 4 << 20 };

typedef enum { JOB_OPENING, JOB_RUNNING, JOB_CLOSING, JOB_OVER } batch_job_stage;
typedef enum { LINE_WAITING, LINE_ASKED, LINE_DONE } line_state;

typedef struct batch_job batch_job;
typedef struct line_call line_call;

typedef struct { /* lines of one of the two files */
    buf text;
    uint32_t lines;
} answer_lines;

struct batch_job {
    batch_job *next;
    batch_store *store;
    char id[STORE_ID_MAX], tenant_name[TENANT_NAME_MAX];
    batch_record record; /* as it was opened; the store has it as it is. The worker's until then */
    const route *route;
    uint32_t tenant;                   /* index */
    batch_job_stage stage, next_stage; /* next_stage, next_failed: the worker's, taken over when it is done */
    batch_state ending;                /* what it shall become; BATCH_IN_PROGRESS: goes on */
    batch_input input;
    uint8_t *states; /* of lines */
    int input_fd, output_fd, error_fd;
    uint64_t output_size, error_size; /* on the disk */
    uint32_t cursor;                  /* no line before it is waiting */
    uint32_t asked, completed, failed;
    line_call *calls;                         /* that are under way */
    answer_lines output, errors;              /* collected on the loop thread */
    answer_lines output_moving, error_moving; /* being written: the worker's while `working` */
    bool working, removed;
    bool write_failed, next_failed;
    uint64_t hold_until_us, write_again_us;
    uint32_t references; /* calls whose exchange is there, and the service's list */
    uv_work_t work;
    void *service;
};

struct line_call { /* one line that is asked; its exchange's */
    batch_job *job;
    line_call *next, *previous;
    exchange *exchange;
    uint32_t line;
    char *custom_id; /* owned; set by the worker */
};

batch_job *batch_job_create(batch_store *store, const char *id); /* NULL: out of memory */
void batch_job_release(batch_job *j);

void batch_job_work_open(batch_job *j);   /* -> JOB_RUNNING or JOB_OVER */
void batch_job_work_commit(batch_job *j); /* the moving lines */
void batch_job_work_close(batch_job *j);  /* -> JOB_OVER, or as it was when the disk fails */

bool batch_job_has_moving(const batch_job *j);
bool batch_job_has_pending(const batch_job *j);
void batch_job_move_pending(batch_job *j); /* what was collected is to be written; nothing may be moving */
void batch_job_count_moved(batch_job *j);  /* after a commit */
bool batch_job_ask_next(batch_job *j,
                        server *s); /* asks the next waiting line; false: there is none, or it cannot be asked now */
void batch_job_forget_calls(batch_job *j); /* whoever is under way is not waited for, and waits again */

#endif
