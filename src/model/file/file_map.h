/* model/file/file_map.h: the bytes of a file, read-only. The only place that maps memory. The size is the one at open:
 * a file that somebody truncates while it is mapped raises SIGBUS on the next touch, as with any mapping; replace model
 * files by rename, never in place. Opened and closed by one thread; the bytes may be read by any. */
#ifndef HEADWAY_MODEL_FILE_FILE_MAP_H
#define HEADWAY_MODEL_FILE_FILE_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct {
    const void *data;
    size_t size;
    int fd;
} file_map;

status file_map_open(file_map *out, const char *path, size_t size_min, error *err); /* regular files only */
void file_map_close(file_map *map);                                                 /* zeroed maps are allowed */
bool file_map_holds(const file_map *map, const void *data);
/* Advice: the whole pages inside may leave this process; `forget`: the system's cache of the file too. */
void file_map_release(const file_map *map, const void *data, size_t size, bool forget);
void file_map_expect(const void *data, size_t size); /* advice: these bytes are read next */

#endif
