/* model/file/model_file.c: a file or a directory, shown as one thing. The kinds differ in how they are opened and where
 * their bytes lie; metadata and the list of tensors are the same structures for all, checked by the same code. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/memory_info.h"
#include "model/file/gguf.h"

model_file *model_file_create(const model_kind *kind, const char *path)
{
    model_file *file = calloc(1, sizeof *file);
    if (!file)
        return NULL;
    file->kind = kind;
    file->path = strdup(path);
    file->shards = calloc(1, sizeof *file->shards);
    file->shard_count = 1;
    if (file->path && file->shards)
        return file;
    model_file_close(file);
    return NULL;
}

status model_file_finish(model_file **out, model_file *file, status code, error *err)
{
    if (code == OK)
        code = gguf_check_model(file, err);
    file->forget = file->bytes > memory_available() / 2; /* it would push out what the packed weights need */
    if (code == OK)
        *out = file;
    else
        model_file_close(file);
    return code;
}

static bool ends_with(const char *path, const char *tail)
{
    size_t size = strlen(path), end = strlen(tail);
    return size >= end && strcmp(path + size - end, tail) == 0;
}

status model_file_open(model_file **out, const char *path, error *err)
{
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (!folder && (ends_with(path, ".safetensors") || ends_with(path, ".safetensors.index.json")))
        return error_set(err, ERR_INVALID, "%s: is a part of a model, expected its directory, with config.json", path);
    const model_kind *kind = folder ? &hf_kind : &gguf_kind;
    model_file *file = model_file_create(kind, path);
    if (!file)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    return model_file_finish(out, file, kind->open(file, err), err);
}

void model_file_close(model_file *file)
{
    if (!file)
        return;
    file->kind->close(file);
    for (size_t s = 0; file->shards && s < file->shard_count; s++)
        gguf_shard_free(&file->shards[s]);
    free(file->shards);
    free(file->tensors);
    name_index_free(&file->tensor_index);
    free(file->path);
    free(file);
}

const char *model_file_path(const model_file *file)
{
    return file->path;
}

const char *model_file_format(const model_file *file)
{
    return file->kind->format(file);
}

bool model_file_is_directory(const model_file *file)
{
    return file->kind == &hf_kind;
}

uint64_t model_file_bytes(const model_file *file)
{
    return file->bytes;
}

uint32_t model_file_version(const model_file *file)
{
    return file->shards[0].version;
}

size_t model_file_tensor_count(const model_file *file)
{
    return file->tensor_count;
}

const model_tensor *model_file_tensor_at(const model_file *file, size_t index)
{
    return index < file->tensor_count ? &file->tensors[index] : NULL;
}

const model_tensor *model_file_tensor(const model_file *file, const char *name)
{
    int64_t number = name_index_find(&file->tensor_index, span_from(name));
    return number == NAME_ABSENT ? NULL : &file->tensors[number];
}

void model_file_release_pages(const model_file *file, const model_tensor *tensor)
{
    file->kind->release_tensor(file, tensor);
}

void model_file_release_range(const model_file *file, const void *data, size_t bytes)
{
    file->kind->release(file, data, bytes);
}

void model_file_release_all(const model_file *file)
{
    file->kind->release_all(file);
}

void model_file_expect(const void *data, size_t bytes)
{
    file_map_expect(data, bytes); /* where it is memory of the file's own, the system has nothing to do */
}
