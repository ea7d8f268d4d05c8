/* model/file/gguf.c: a model out of its shards. Any shard's path will do: names end in -0000I-of-0000N.gguf, keys
 * split.no and split.count must agree with the name, and all shards must be there. Metadata is that of the first. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/file/gguf.h"

enum { SUFFIX_BYTES = sizeof "-00001-of-00002.gguf" - 1 };

typedef struct {
    uint64_t number, count; /* from 0; count 1: not split */
} split_place;

static status read_shard(gguf_shard *shard, const char *path, error *err)
{
    if (!(shard->path = strdup(path)))
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    status code = file_map_open(&shard->map, path, GGUF_HEADER_BYTES, err);
    if (code != OK)
        return code;
    shard->data = shard->map.data;
    shard->size = shard->map.size;
    return gguf_shard_parse(shard, err);
}

static status read_split(const gguf_shard *shard, split_place *out, error *err)
{
    *out = (split_place){0, 1};
    status code = gguf_u64(shard, "split.count", &out->count, err);
    if (code == ERR_NOT_FOUND || (code == OK && out->count <= 1)) {
        *out = (split_place){0, 1};
        return OK;
    }
    if (code != OK)
        return code;
    if (out->count > SHARDS_MAX)
        return error_set(err, ERR_INVALID, "%s: key split.count: found %" PRIu64 ", expected at most %d", shard->path,
                         out->count, SHARDS_MAX);
    code = gguf_u64(shard, "split.no", &out->number, err);
    if (code == ERR_NOT_FOUND)
        return error_set(err, ERR_INVALID, "%s: key split.no: absent, expected beside split.count", shard->path);
    if (code == OK && out->number >= out->count)
        return error_set(err, ERR_INVALID,
                         "%s: key split.no: found %" PRIu64 ", expected less than split.count %" PRIu64, shard->path,
                         out->number, out->count);
    return code;
}

/* The path of shard `number`, given that of another; NULL when the name has not the form or memory is short. */
static char *shard_path(const char *path, split_place own, uint64_t number)
{
    char suffix[64];
    size_t size = strlen(path);
    snprintf(suffix, sizeof suffix, "-%05" PRIu64 "-of-%05" PRIu64 ".gguf", own.number + 1, own.count);
    if (size < SUFFIX_BYTES || strcmp(path + size - SUFFIX_BYTES, suffix) != 0)
        return NULL;
    char *other = malloc(size + 1);
    if (!other)
        return NULL;
    snprintf(suffix, sizeof suffix, "-%05" PRIu64 "-of-%05" PRIu64 ".gguf", number + 1, own.count);
    memcpy(other, path, size - SUFFIX_BYTES);
    memcpy(other + size - SUFFIX_BYTES, suffix, SUFFIX_BYTES + 1);
    return other;
}

static status wrong_name(const gguf_shard *shard, split_place place, error *err)
{
    return error_set(err, ERR_INVALID,
                     "%s: key split.count: shard %" PRIu64 " of %" PRIu64
                     ", expected a file name that ends in -%05" PRIu64 "-of-%05" PRIu64 ".gguf",
                     shard->path, place.number + 1, place.count, place.number + 1, place.count);
}

/* Reads shard `number`; `known` is where the shard of `path` stands. */
static status read_sibling(gguf_shard *shard, const char *path, split_place known, uint64_t number, error *err)
{
    char *other = shard_path(path, known, number);
    if (!other)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    status code = read_shard(shard, other, err);
    free(other);
    split_place place;
    if (code != OK || (code = read_split(shard, &place, err)) != OK)
        return code;
    if (place.count != known.count || place.number != number)
        return error_set(err, ERR_INVALID,
                         "%s: key split.no: found shard %" PRIu64 " of %" PRIu64 ", expected %" PRIu64 " of %" PRIu64,
                         shard->path, place.number + 1, place.count, number + 1, known.count);
    return OK;
}

/* Replaces the one shard read so far by all of them. */
static status read_all_shards(model_file *file, split_place own, error *err)
{
    char *check = shard_path(file->path, own, own.number);
    free(check);
    if (!check)
        return wrong_name(&file->shards[0], own, err);
    gguf_shard *all = calloc(own.count, sizeof *all);
    if (!all)
        return error_set(err, ERR_MEMORY, "%s: out of memory", file->path);
    all[own.number] = file->shards[0];
    free(file->shards);
    file->shards = all;
    file->shard_count = own.count;
    for (uint64_t i = 0; i < own.count; i++) {
        status code = i == own.number ? OK : read_sibling(&all[i], file->path, own, i, err);
        if (code != OK)
            return code;
    }
    return OK;
}

static status check_tensor_total(const model_file *file, error *err)
{
    uint64_t total;
    status code = gguf_u64(&file->shards[0], "split.tensors.count", &total, err);
    if (code == OK && file->shard_count > 1 && total != file->tensor_count)
        return error_set(err, ERR_INVALID,
                         "%s: key split.tensors.count: found %" PRIu64 ", expected the %zu of all shards",
                         file->shards[0].path, total, file->tensor_count);
    return code == ERR_NOT_FOUND ? OK : code;
}

/* One list and one index of the tensors of all shards. */
static status gather_tensors(model_file *file, error *err)
{
    size_t total = 0;
    for (size_t s = 0; s < file->shard_count; s++) {
        total += file->shards[s].tensor_count;
        file->bytes += file->shards[s].size;
    }
    if (total > TENSORS_MAX)
        return error_set(err, ERR_LIMIT, "%s: %zu tensors in all shards, expected at most %d", file->path, total,
                         TENSORS_MAX);
    file->tensors = malloc((total ? total : 1) * sizeof *file->tensors);
    if (!file->tensors)
        return error_set(err, ERR_MEMORY, "%s: out of memory", file->path);
    for (size_t s = 0; s < file->shard_count; s++) {
        for (size_t i = 0; i < file->shards[s].tensor_count; i++) {
            const model_tensor *t = &file->shards[s].tensors[i];
            status code = name_index_add(&file->tensor_index, t->name, (uint32_t)file->tensor_count);
            if (code == ERR_INVALID)
                return error_set(err, ERR_INVALID, "%s: tensor %s: occurs twice, expected once", file->shards[s].path,
                                 gguf_printable(t->name).text);
            if (code != OK)
                return error_set(err, code, "%s: out of memory", file->path);
            file->tensors[file->tensor_count++] = *t;
        }
    }
    return check_tensor_total(file, err);
}

static status gguf_open(model_file *file, error *err)
{
    split_place own;
    status code = read_shard(&file->shards[0], file->path, err);
    if (code == OK)
        code = read_split(&file->shards[0], &own, err);
    if (code == OK && own.count > 1)
        code = read_all_shards(file, own, err);
    return code == OK ? gather_tensors(file, err) : code;
}

static void gguf_close(model_file *file)
{
    (void)file; /* shards belong to every kind */
}

static const char *gguf_format(const model_file *file)
{
    return file->shards[0].version == 2 ? "GGUF v2" : "GGUF v3";
}

static void gguf_release(const model_file *file, const void *data, size_t bytes)
{
    for (size_t i = 0; i < file->shard_count; i++)
        if (file_map_holds(&file->shards[i].map, data))
            file_map_release(&file->shards[i].map, data, bytes, file->forget);
}

static void gguf_release_tensor(const model_file *file, const model_tensor *tensor)
{
    gguf_release(file, tensor->data, tensor->bytes);
}

static void gguf_release_all(const model_file *file)
{
    for (size_t i = 0; i < file->shard_count; i++)
        if (file->shards[i].map.data)
            file_map_release(&file->shards[i].map, file->shards[i].map.data, file->shards[i].map.size, file->forget);
}

const model_kind gguf_kind = {gguf_open, gguf_close, gguf_format, gguf_release, gguf_release_tensor, gguf_release_all};

status gguf_open_memory(model_file **out, const char *name, const void *data, size_t size, error *err)
{
    model_file *file = model_file_create(&gguf_kind, name);
    if (!file)
        return error_set(err, ERR_MEMORY, "%s: out of memory", name);
    gguf_shard *shard = &file->shards[0];
    shard->data = data;
    shard->size = size;
    status code = (shard->path = strdup(name)) ? gguf_shard_parse(shard, err)
                                               : error_set(err, ERR_MEMORY, "%s: out of memory", name);
    if (code == OK)
        code = gather_tensors(file, err);
    return model_file_finish(out, file, code, err);
}
