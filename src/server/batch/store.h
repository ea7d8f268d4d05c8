/* server/batch/store.h: which files and batches are there, and whose are they? A catalogue in memory over a folder:
 * files/ID holds bytes, files/ID.json and batches/ID.json what is known of them; a file without a description is a
 * batch's output that grows, or rubbish that the next start sweeps up. A description is replaced whole, so a kill at
 * any moment leaves the old one or the new one. Any thread: two locks inside, the one for memory is held for moments
 * only. A tenant is named, and sees what is its own. */
#ifndef HEADWAY_SERVER_BATCH_STORE_H
#define HEADWAY_SERVER_BATCH_STORE_H

#include "server/batch/record.h"

enum {
    STORE_FILES_MAX = 4096,
    STORE_BATCHES_MAX = 2048,
    STORE_TENANT_FILES_MAX = 1024,
    STORE_TENANT_BATCHES_MAX = 512,
    STORE_DAYS = 30, /* files and batches that have ended live so long */
    STORE_PATH_MAX = 1024,
};

typedef struct batch_store batch_store;

/* Makes the folder, reads what is there, drops what has expired or belongs to nobody. */
status batch_store_open(batch_store **out, const char *dir, uint64_t bytes_max, uint64_t now_unix, error *err);
void batch_store_close(batch_store *s); /* NULL allowed */
void store_new_id(const char *prefix, char id[STORE_ID_MAX]);

/* `f` comes with tenant, purpose, name and times; gets its id and size. ERR_LIMIT: the words say which. */
status store_add_file(batch_store *s, stored_file *f, span content, error *err);
/* What lies at f->id is whole now, with f->bytes. Again with the same id: nothing happens. */
status store_admit_file(batch_store *s, const stored_file *f, error *err);
bool store_find_file(batch_store *s, const char *tenant, const char *id, stored_file *out);
/* ERR_NOT_FOUND; ERR_BUSY: a batch that has not ended reads it. */
status store_remove_file(batch_store *s, const char *tenant, const char *id, error *err);
void store_file_path(const batch_store *s, const char *id, char path[STORE_PATH_MAX]);

typedef struct {
    const char *tenant, *purpose; /* purpose NULL: all */
    const char *after;            /* an id; NULL: from the start */
    uint32_t limit;
    bool oldest_first;
} store_query;

/* Appends descriptions as clients see them, with commas between; *more: there would be others. first, last: ids. */
void store_list_files(batch_store *s, const store_query *query, buf *out, char first[STORE_ID_MAX],
                      char last[STORE_ID_MAX], bool *more);
void store_list_batches(batch_store *s, const store_query *query, buf *out, char first[STORE_ID_MAX],
                        char last[STORE_ID_MAX], bool *more);

/* Takes over r->metadata. */
status store_add_batch(batch_store *s, batch_record *r, error *err);
bool store_find_batch(batch_store *s, const char *tenant, const char *id, batch_record *copy); /* tenant NULL: any */
/* `change` is called with the record, under the lock: it may say that nothing is to be done (false). What it made of it
 * is on the disk when this returns. *copy: as it is then; NULL allowed. ERR_NOT_FOUND. */
typedef bool (*batch_change)(batch_record *r, void *context);
status store_change_batch(batch_store *s, const char *id, batch_change change, void *context, batch_record *copy,
                          error *err);
/* Counts as they go on; memory only. */
void store_count_batch(batch_store *s, const char *id, uint32_t completed, uint32_t failed);
/* Ids of batches that have not ended, oldest first, and their states; how many. */
typedef struct {
    char id[STORE_ID_MAX], tenant[TENANT_NAME_MAX];
    batch_state state;
    uint64_t expires_unix;
} batch_sign;
uint32_t store_open_batches(batch_store *s, batch_sign *out, uint32_t max);
void store_sweep(batch_store *s, uint64_t now_unix); /* forgets what has expired; does I/O */

#endif
