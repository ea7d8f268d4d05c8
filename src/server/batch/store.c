/* server/batch/store.c: see store.h. */
#include "server/batch/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>
#include <uv.h>

#include "base/log.h"
#include "server/batch/disk.h"

enum { DESCRIPTION_MAX = 1 << 18 };

struct batch_store {
    char dir[STORE_PATH_MAX - 128];
    int owned;                 /* the open file that says so; -1 */
    uint64_t bytes_max, bytes; /* of all described files */
    pthread_mutex_t lock;      /* of what follows; never held over I/O */
    pthread_mutex_t disk;      /* held while a description is written; taken first */
    stored_file *files;        /* oldest first */
    uint32_t file_count;
    batch_record *batches; /* oldest first */
    uint32_t batch_count;
};

void store_new_id(const char *prefix, char id[STORE_ID_MAX])
{
    uint8_t bytes[12] = {0};
    uv_random(NULL, NULL, bytes, sizeof bytes, 0, NULL);
    int at = snprintf(id, STORE_ID_MAX, "%s", prefix);
    for (size_t i = 0; i < sizeof bytes; i++)
        at += snprintf(id + at, STORE_ID_MAX - (size_t)at, "%02x", bytes[i]);
}

void store_file_path(const batch_store *s, const char *id, char path[STORE_PATH_MAX])
{
    snprintf(path, STORE_PATH_MAX, "%s/files/%s", s->dir, id);
}

static void description_path(const batch_store *s, const char *folder, const char *id, char path[STORE_PATH_MAX])
{
    snprintf(path, STORE_PATH_MAX, "%s/%s/%s.json", s->dir, folder, id);
}

/* ---- in memory; the lock is held ---- */

static stored_file *find_file(batch_store *s, const char *tenant, const char *id)
{
    for (uint32_t i = 0; i < s->file_count; i++)
        if (strcmp(s->files[i].id, id) == 0)
            return !tenant || strcmp(s->files[i].tenant, tenant) == 0 ? &s->files[i] : NULL;
    return NULL;
}

static batch_record *find_batch(batch_store *s, const char *tenant, const char *id)
{
    for (uint32_t i = 0; i < s->batch_count; i++)
        if (strcmp(s->batches[i].id, id) == 0)
            return !tenant || strcmp(s->batches[i].tenant, tenant) == 0 ? &s->batches[i] : NULL;
    return NULL;
}

/* An unfinished batch that needs the file; NULL: none. */
static const batch_record *reader_of(const batch_store *s, const char *file)
{
    for (uint32_t i = 0; i < s->batch_count; i++) {
        const batch_record *r = &s->batches[i];
        if (!batch_state_ended(r->state) &&
            (!strcmp(r->input, file) || !strcmp(r->output, file) || !strcmp(r->errors, file)))
            return r;
    }
    return NULL;
}

static status room_for_file(const batch_store *s, const char *tenant, uint64_t bytes, error *err)
{
    uint32_t own = 0;
    for (uint32_t i = 0; i < s->file_count; i++)
        own += strcmp(s->files[i].tenant, tenant) == 0;
    if (own >= STORE_TENANT_FILES_MAX || s->file_count >= STORE_FILES_MAX)
        return error_set(err, ERR_LIMIT, "there are too many files (%u of yours): delete some first", own);
    if (s->bytes + bytes > s->bytes_max)
        return error_set(err, ERR_LIMIT, "no room for %llu more bytes: files may take %llu bytes in all",
                         (unsigned long long)bytes, (unsigned long long)s->bytes_max);
    return OK;
}

static void drop_file(batch_store *s, stored_file *f)
{
    s->bytes -= f->bytes < s->bytes ? f->bytes : s->bytes;
    s->file_count--;
    memmove(f, f + 1, (size_t)(s->files + s->file_count - f) * sizeof *f);
}

static void drop_batch(batch_store *s, batch_record *r)
{
    batch_record_free(r);
    s->batch_count--;
    memmove(r, r + 1, (size_t)(s->batches + s->batch_count - r) * sizeof *r);
}

/* ---- files ---- */

static void unlink_file(const batch_store *s, const char *id)
{
    char path[STORE_PATH_MAX];
    description_path(s, "files", id, path); /* first: what is left then is rubbish and known to be */
    unlink(path);
    store_file_path(s, id, path);
    unlink(path);
}

status store_admit_file(batch_store *s, const stored_file *f, error *err)
{
    char path[STORE_PATH_MAX];
    buf text = {0};
    stored_file_write(f, true, &text);
    description_path(s, "files", f->id, path);
    status st = disk_replace(path, buf_span(&text), err);
    buf_free(&text);
    if (st)
        return st;
    pthread_mutex_lock(&s->lock);
    if (!find_file(s, NULL, f->id)) {
        if (s->file_count < STORE_FILES_MAX + 2 * STORE_BATCHES_MAX) {
            s->files[s->file_count++] = *f;
            s->bytes += f->bytes;
        } else {
            st = error_set(err, ERR_LIMIT, "there are too many files");
        }
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

status store_add_file(batch_store *s, stored_file *f, span content, error *err)
{
    char path[STORE_PATH_MAX];
    store_new_id("file-", f->id);
    f->bytes = content.size;
    pthread_mutex_lock(&s->lock);
    status st = room_for_file(s, f->tenant, f->bytes, err);
    s->bytes += st ? 0 : f->bytes; /* held until it is there */
    pthread_mutex_unlock(&s->lock);
    if (st)
        return st;
    store_file_path(s, f->id, path);
    st = disk_replace(path, content, err);
    pthread_mutex_lock(&s->lock);
    s->bytes -= f->bytes;
    pthread_mutex_unlock(&s->lock);
    if (st == OK)
        st = store_admit_file(s, f, err);
    if (st)
        unlink_file(s, f->id);
    return st;
}

bool store_find_file(batch_store *s, const char *tenant, const char *id, stored_file *out)
{
    pthread_mutex_lock(&s->lock);
    const stored_file *f = find_file(s, tenant, id);
    if (f)
        *out = *f;
    pthread_mutex_unlock(&s->lock);
    return f != NULL;
}

status store_remove_file(batch_store *s, const char *tenant, const char *id, error *err)
{
    status st = OK;
    pthread_mutex_lock(&s->lock);
    stored_file *f = find_file(s, tenant, id);
    const batch_record *reader = f ? reader_of(s, f->id) : NULL;
    if (!f)
        st = error_set(err, ERR_NOT_FOUND, "there is no such file");
    else if (reader)
        st = error_set(err, ERR_BUSY, "%s has not ended and needs this file", reader->id);
    else
        drop_file(s, f);
    pthread_mutex_unlock(&s->lock);
    if (st == OK)
        unlink_file(s, id);
    return st;
}

/* Walks `count` things from the newest (or oldest) on and keeps to the query. */
typedef struct {
    const store_query *query;
    bool started;
    uint32_t given;
    buf *out;
    char *first, *last;
    bool *more;
} listing;

static bool list_takes(listing *l, const char *id)
{
    if (!l->started) {
        l->started = strcmp(id, l->query->after) == 0;
        return false;
    }
    if (l->given == l->query->limit) {
        *l->more = true;
        return false;
    }
    if (!l->given)
        memcpy(l->first, id, strlen(id) + 1);
    else
        buf_byte(l->out, ',');
    memcpy(l->last, id, strlen(id) + 1);
    l->given++;
    return true;
}

static listing list_start(const store_query *query, buf *out, char *first, char *last, bool *more)
{
    first[0] = last[0] = 0;
    *more = false;
    return (listing){query, !query->after, 0, out, first, last, more};
}

void store_list_files(batch_store *s, const store_query *query, buf *out, char first[STORE_ID_MAX],
                      char last[STORE_ID_MAX], bool *more)
{
    listing l = list_start(query, out, first, last, more);
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->file_count && !*more; i++) {
        const stored_file *f = &s->files[query->oldest_first ? i : s->file_count - 1 - i];
        if (strcmp(f->tenant, query->tenant) == 0 && (!query->purpose || !strcmp(f->purpose, query->purpose)) &&
            list_takes(&l, f->id))
            stored_file_write(f, false, out);
    }
    pthread_mutex_unlock(&s->lock);
}

void store_list_batches(batch_store *s, const store_query *query, buf *out, char first[STORE_ID_MAX],
                        char last[STORE_ID_MAX], bool *more)
{
    listing l = list_start(query, out, first, last, more);
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->batch_count && !*more; i++) {
        const batch_record *r = &s->batches[query->oldest_first ? i : s->batch_count - 1 - i];
        if (strcmp(r->tenant, query->tenant) == 0 && list_takes(&l, r->id))
            batch_record_write(r, false, out);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- batches ---- */

static status write_batch(const batch_store *s, const batch_record *r, error *err)
{
    char path[STORE_PATH_MAX];
    buf text = {0};
    batch_record_write(r, true, &text);
    description_path(s, "batches", r->id, path);
    status st = text.failed ? error_set(err, ERR_MEMORY, "out of memory") : disk_replace(path, buf_span(&text), err);
    buf_free(&text);
    return st;
}

status store_add_batch(batch_store *s, batch_record *r, error *err)
{
    uint32_t own = 0;
    store_new_id("batch_", r->id);
    store_new_id("file-", r->output);
    store_new_id("file-", r->errors);
    pthread_mutex_lock(&s->disk);
    status st = write_batch(s, r, err);
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->batch_count; i++)
        own += strcmp(s->batches[i].tenant, r->tenant) == 0;
    if (st == OK && (own >= STORE_TENANT_BATCHES_MAX || s->batch_count == STORE_BATCHES_MAX))
        st = error_set(err, ERR_LIMIT, "there are too many batches (%u of yours): they are kept for %d days", own,
                       STORE_DAYS);
    else if (st == OK && !find_file(s, r->tenant, r->input))
        st = error_set(err, ERR_NOT_FOUND, "there is no file %s", r->input);
    if (st == OK) {
        s->batches[s->batch_count] = *r;
        s->batches[s->batch_count++].metadata = r->metadata ? strdup(r->metadata) : NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (st) {
        char path[STORE_PATH_MAX];
        description_path(s, "batches", r->id, path);
        unlink(path);
    }
    pthread_mutex_unlock(&s->disk);
    return st;
}

bool store_find_batch(batch_store *s, const char *tenant, const char *id, batch_record *copy)
{
    pthread_mutex_lock(&s->lock);
    const batch_record *r = find_batch(s, tenant, id);
    bool found = r && batch_record_copy(copy, r);
    pthread_mutex_unlock(&s->lock);
    return found;
}

status store_change_batch(batch_store *s, const char *id, batch_change change, void *context, batch_record *copy,
                          error *err)
{
    batch_record now = {0};
    status st = OK;
    pthread_mutex_lock(&s->disk);
    pthread_mutex_lock(&s->lock);
    batch_record *r = find_batch(s, NULL, id);
    bool changed = r && change(r, context);
    if (!r || !batch_record_copy(&now, r))
        st = r ? error_set(err, ERR_MEMORY, "out of memory") : error_set(err, ERR_NOT_FOUND, "there is no such batch");
    pthread_mutex_unlock(&s->lock);
    if (st == OK && changed)
        st = write_batch(s, &now, err);
    pthread_mutex_unlock(&s->disk);
    if (copy && st == OK)
        *copy = now;
    else
        batch_record_free(&now);
    return st;
}

void store_count_batch(batch_store *s, const char *id, uint32_t completed, uint32_t failed)
{
    pthread_mutex_lock(&s->lock);
    batch_record *r = find_batch(s, NULL, id);
    if (r) {
        r->completed = completed;
        r->failed = failed;
    }
    pthread_mutex_unlock(&s->lock);
}

uint32_t store_open_batches(batch_store *s, batch_sign *out, uint32_t max)
{
    uint32_t count = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->batch_count && count < max; i++) {
        const batch_record *r = &s->batches[i];
        if (batch_state_ended(r->state))
            continue;
        memcpy(out[count].id, r->id, sizeof r->id);
        memcpy(out[count].tenant, r->tenant, sizeof r->tenant);
        out[count].expires_unix = r->expires_unix;
        out[count++].state = r->state;
    }
    pthread_mutex_unlock(&s->lock);
    return count;
}

void store_sweep(batch_store *s, uint64_t now_unix)
{
    for (bool found = true; found;) {
        char path[STORE_PATH_MAX], file[STORE_ID_MAX] = "", batch[STORE_ID_MAX] = "";
        pthread_mutex_lock(&s->lock);
        for (uint32_t i = 0; i < s->file_count && !file[0]; i++) {
            stored_file *f = &s->files[i];
            if (f->expires_unix && f->expires_unix <= now_unix && !reader_of(s, f->id)) {
                memcpy(file, f->id, sizeof file);
                drop_file(s, f);
            }
        }
        for (uint32_t i = 0; i < s->batch_count && !batch[0]; i++) {
            batch_record *r = &s->batches[i];
            if (batch_state_ended(r->state) && r->times[BATCH_VALIDATING] + (uint64_t)STORE_DAYS * 86400 <= now_unix) {
                memcpy(batch, r->id, sizeof batch);
                drop_batch(s, r);
            }
        }
        pthread_mutex_unlock(&s->lock);
        if (file[0])
            unlink_file(s, file);
        description_path(s, "batches", batch, path);
        if (batch[0])
            unlink(path);
        found = file[0] || batch[0];
    }
}

/* ---- open and close ---- */

static bool take_id(const char *name, const char *prefix, const char *suffix, char id[STORE_ID_MAX])
{
    size_t size = strlen(name), head = strlen(prefix), tail = strlen(suffix);
    if (size < head + tail + 1 || size - tail >= STORE_ID_MAX || strncmp(name, prefix, head) ||
        strcmp(name + size - tail, suffix))
        return false;
    memcpy(id, name, size - tail);
    id[size - tail] = 0;
    for (const char *c = id + head; *c; c++)
        if (!strchr("0123456789abcdef", *c))
            return false;
    return true;
}

static void read_description(batch_store *s, const char *folder, const char *id)
{
    char path[STORE_PATH_MAX];
    buf text = {0};
    error err = {""};
    stored_file f = {0};
    batch_record r = {0};
    bool is_file = strcmp(folder, "files") == 0;
    description_path(s, folder, id, path);
    status st = disk_read(path, DESCRIPTION_MAX, &text, &err);
    if (st == OK)
        st = is_file ? stored_file_read(&f, buf_span(&text), &err) : batch_record_read(&r, buf_span(&text), &err);
    if (st == OK && strcmp(is_file ? f.id : r.id, id))
        st = error_set(&err, ERR_INVALID, "it names another id");
    if (st) {
        log_warn("%s: left alone: %s", path, err.text);
        batch_record_free(&r);
    } else if (is_file && s->file_count < STORE_FILES_MAX + 2 * STORE_BATCHES_MAX) {
        s->files[s->file_count++] = f;
        s->bytes += f.bytes;
    } else if (!is_file && s->batch_count < STORE_BATCHES_MAX) {
        s->batches[s->batch_count++] = r;
    } else {
        batch_record_free(&r);
    }
    buf_free(&text);
}

static status each_name(batch_store *s, const char *folder, void (*take)(batch_store *s, const char *name), error *err)
{
    char path[STORE_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", s->dir, folder);
    DIR *dir = opendir(path);
    if (!dir)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(dir));)
        take(s, entry->d_name);
    closedir(dir);
    return OK;
}

static void take_file_name(batch_store *s, const char *name)
{
    char id[STORE_ID_MAX];
    if (take_id(name, "file-", ".json", id))
        read_description(s, "files", id);
}

static void take_batch_name(batch_store *s, const char *name)
{
    char id[STORE_ID_MAX];
    if (take_id(name, "batch_", ".json", id))
        read_description(s, "batches", id);
}

/* Bytes that no description and no unfinished batch knows, and what a kill left half written. */
static void sweep_file_name(batch_store *s, const char *name)
{
    char id[STORE_ID_MAX], path[STORE_PATH_MAX];
    bool rubbish = take_id(name, "file-", ".tmp", id) || take_id(name, "file-", ".json.tmp", id) ||
                   (take_id(name, "file-", "", id) && !find_file(s, NULL, id) && !reader_of(s, id));
    if (!rubbish)
        return;
    snprintf(path, sizeof path, "%s/files/%.64s", s->dir, name);
    unlink(path);
}

static int by_age_file(const void *a, const void *b)
{
    const stored_file *f = a, *g = b;
    return f->created_unix != g->created_unix ? (f->created_unix < g->created_unix ? -1 : 1) : strcmp(f->id, g->id);
}

static int by_age_batch(const void *a, const void *b)
{
    uint64_t f = ((const batch_record *)a)->times[BATCH_VALIDATING];
    uint64_t g = ((const batch_record *)b)->times[BATCH_VALIDATING];
    return f != g ? (f < g ? -1 : 1) : strcmp(((const batch_record *)a)->id, ((const batch_record *)b)->id);
}

static status make_folders(const batch_store *s, error *err)
{
    static const char *const folders[] = {"", "/files", "/batches"};
    char path[STORE_PATH_MAX];
    status st = OK;
    for (size_t i = 0; st == OK && i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s", s->dir, folders[i]);
        st = disk_make_folder(path, err);
    }
    return st;
}

/* The folder is this process's until it ends, however it ends. */
static status own_folder(batch_store *s, error *err)
{
    char path[STORE_PATH_MAX];
    snprintf(path, sizeof path, "%s/lock", s->dir);
    s->owned = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->owned < 0)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    if (flock(s->owned, LOCK_EX | LOCK_NB))
        return error_set(err, ERR_IO, "%s: another server has this folder", s->dir);
    return OK;
}

status batch_store_open(batch_store **out, const char *dir, uint64_t bytes_max, uint64_t now_unix, error *err)
{
    batch_store *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ERR_MEMORY, "out of memory");
    if (strlen(dir) >= sizeof s->dir) {
        free(s);
        return error_set(err, ERR_INVALID, "the folder's path is too long");
    }
    memcpy(s->dir, dir, strlen(dir) + 1);
    s->bytes_max = bytes_max;
    s->owned = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->disk, NULL);
    s->files = malloc((STORE_FILES_MAX + 2 * STORE_BATCHES_MAX) * sizeof *s->files);
    s->batches = malloc(STORE_BATCHES_MAX * sizeof *s->batches);
    status st = s->files && s->batches ? make_folders(s, err) : error_set(err, ERR_MEMORY, "out of memory");
    if (st || (st = own_folder(s, err)) || (st = each_name(s, "batches", take_batch_name, err)) ||
        (st = each_name(s, "files", take_file_name, err)) || (st = each_name(s, "files", sweep_file_name, err))) {
        batch_store_close(s);
        return st;
    }
    qsort(s->files, s->file_count, sizeof *s->files, by_age_file);
    qsort(s->batches, s->batch_count, sizeof *s->batches, by_age_batch);
    store_sweep(s, now_unix);
    *out = s;
    return OK;
}

void batch_store_close(batch_store *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->batch_count; i++)
        batch_record_free(&s->batches[i]);
    if (s->owned >= 0)
        close(s->owned);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->disk);
    free(s->files);
    free(s->batches);
    free(s);
}
