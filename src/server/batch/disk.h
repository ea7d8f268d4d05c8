/* server/batch/disk.h: the few things that are done with files here: made so that nobody else may read them, replaced
 * whole or appended to, and on the disk when the call returns. Any thread. */
#ifndef HEADWAY_SERVER_BATCH_DISK_H
#define HEADWAY_SERVER_BATCH_DISK_H

#include "base/buf.h"
#include "base/error.h"

status disk_make_folder(const char *path, error *err); /* 0700; may be there already */
/* The file at `path` holds `text`, or what it held before. 0600. */
status disk_replace(const char *path, span text, error *err);
status disk_read(const char *path, size_t max, buf *out, error *err); /* ERR_NOT_FOUND, ERR_LIMIT, ERR_IO */
status disk_open_append(const char *path, int *fd, error *err);       /* for disk_append and reading; made if need be */
/* At `at`, which is the file's end; what a failed call left behind that is cut off first. */
status disk_append(int fd, uint64_t at, span text, error *err);
/* Reads up to `size` bytes at `at`; fewer only at the end. */
status disk_read_at(int fd, uint64_t at, size_t size, buf *out, error *err);

#endif
