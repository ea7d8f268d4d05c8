/* model/file/hf_dir.c: finds and opens the files of a directory, and shows the whole as a model_file. */
#include "model/file/hf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    INDEX_BYTES_MAX = 100 << 20,
    JSON_BYTES_MAX = 64 << 20,
    FILE_NAME_MAX = 255,
    FILES_MAX = 4096,
};

struct hf_block {
    hf_block *next;
    max_align_t data[];
};

static const char INDEX_NAME[] = "model.safetensors.index.json", SINGLE_NAME[] = "model.safetensors";

void *hf_alloc(hf_dir *dir, size_t size)
{
    hf_block *block = calloc(1, sizeof *block + size);
    if (!block)
        return NULL;
    block->next = dir->blocks;
    dir->blocks = block;
    return block->data;
}

static status no_memory(const hf_dir *dir, error *err)
{
    return error_set(err, ERR_MEMORY, "%s: out of memory", dir->path);
}

static char *join_path(const char *folder, span name)
{
    size_t size = strlen(folder), slash = size > 0 && folder[size - 1] != '/';
    char *path = malloc(size + slash + name.size + 1);
    if (!path)
        return NULL;
    memcpy(path, folder, size);
    path[size] = '/';
    memcpy(path + size + slash, name.data, name.size);
    path[size + slash + name.size] = 0;
    return path;
}

static status read_all(FILE *in, const char *path, size_t limit, buf *out, error *err)
{
    char block[65536];
    size_t got;
    while ((got = fread(block, 1, sizeof block, in)) > 0 && out->size <= limit)
        buf_append(out, block, got);
    if (ferror(in))
        return error_set(err, ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (out->size > limit)
        return error_set(err, ERR_LIMIT, "%s: more than the %zu bytes that are read", path, limit);
    return out->failed ? error_set(err, ERR_MEMORY, "%s: out of memory", path) : OK;
}

status hf_read_text(const hf_dir *dir, const char *name, size_t limit, buf *out, error *err)
{
    char *path = join_path(dir->path, span_from(name));
    if (!path)
        return no_memory(dir, err);
    FILE *in = fopen(path, "rbe");
    status code;
    if (!in && errno == ENOENT)
        code = error_set(err, ERR_NOT_FOUND, "%s: is missing", path);
    else if (!in)
        code = error_set(err, ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    else
        code = read_all(in, path, limit, out, err);
    if (in)
        fclose(in);
    free(path);
    return code;
}

status hf_read_json(const hf_dir *dir, const char *name, json_t **out, error *err)
{
    buf text = {0};
    json_error_t why;
    status code = hf_read_text(dir, name, JSON_BYTES_MAX, &text, err);
    if (code == OK) {
        *out = json_loadb(text.data ? text.data : "", text.size, JSON_REJECT_DUPLICATES, &why);
        if (!*out)
            code = error_set(err, ERR_INVALID, "%s/%s: line %d: %s", dir->path, name, why.line, why.text);
        else if (!json_is_object(*out))
            code = error_set(err, ERR_INVALID, "%s/%s: expected a JSON object", dir->path, name);
    }
    buf_free(&text);
    return code;
}

/* --- the safetensors files --- */

/* A plain name inside the directory: an index must not lead out of it. */
static bool plain_name(span name)
{
    static const char END[] = ".safetensors";
    size_t tail = sizeof END - 1;
    return name.size > tail && name.size <= FILE_NAME_MAX && name.data[0] != '.' &&
           !memchr(name.data, '/', name.size) && !memchr(name.data, '\\', name.size) &&
           memcmp(name.data + name.size - tail, END, tail) == 0;
}

/* The file's number; opens it at first sight. */
static status open_named(hf_dir *dir, span name, st_file **out, error *err)
{
    char *path = join_path(dir->path, name);
    if (!path)
        return no_memory(dir, err);
    for (size_t i = dir->file_count; i-- > 0;) {
        if (strcmp(dir->files[i].path, path) == 0) {
            free(path);
            *out = &dir->files[i];
            return OK;
        }
    }
    status code = OK;
    if (dir->file_count == dir->file_capacity) {
        size_t more = dir->file_capacity ? dir->file_capacity * 2 : 16;
        st_file *larger = more <= FILES_MAX ? realloc(dir->files, more * sizeof *larger) : NULL;
        if (!larger)
            code = error_set(err, more <= FILES_MAX ? ERR_MEMORY : ERR_LIMIT, "%s: too many files", dir->path);
        else
            dir->files = larger, dir->file_capacity = more;
    }
    if (code == OK) {
        *out = &dir->files[dir->file_count++];
        **out = (st_file){0};
        code = safetensors_open(*out, path, err);
    }
    free(path);
    return code;
}

typedef struct {
    hf_dir *dir;
    const char *path;
    span last; /* the file of the entry before: most follow each other */
} index_reader;

static status open_indexed(void *context, span tensor, span file, error *err)
{
    index_reader *reader = context;
    if (!plain_name(file))
        return error_set(err, ERR_INVALID,
                         "%s: tensor %s: file \"%s\", expected the name of a .safetensors file beside it", reader->path,
                         gguf_printable(tensor).text, gguf_printable(file).text);
    if (span_equal(file, reader->last))
        return OK;
    reader->last = file;
    st_file *opened;
    return open_named(reader->dir, file, &opened, err);
}

static status check_indexed(void *context, span tensor, span file, error *err)
{
    index_reader *reader = context;
    const hf_dir *dir = reader->dir;
    int64_t number = name_index_find(&dir->names, tensor);
    const char *path = number == NAME_ABSENT ? NULL : dir->all[number]->path;
    if (!path || !span_equal(span_from(strrchr(path, '/') + 1), file))
        return error_set(err, ERR_INVALID, "%s: tensor %s: is not in file %s", reader->path,
                         gguf_printable(tensor).text, gguf_printable(file).text);
    return OK;
}

/* One list of the tensors of all files. */
static status gather(hf_dir *dir, error *err)
{
    size_t total = 0;
    for (size_t f = 0; f < dir->file_count; f++)
        total += dir->files[f].tensor_count;
    if (total > SAFETENSORS_TENSORS_MAX)
        return error_set(err, ERR_LIMIT, "%s: more than %d tensors", dir->path, SAFETENSORS_TENSORS_MAX);
    dir->all = malloc((total + 1) * sizeof(st_tensor *));
    if (!dir->all)
        return no_memory(dir, err);
    for (size_t f = 0; f < dir->file_count; f++) {
        for (size_t i = 0; i < dir->files[f].tensor_count; i++) {
            st_tensor *t = &dir->files[f].tensors[i];
            status code = name_index_add(&dir->names, t->name, (uint32_t)dir->total);
            if (code == ERR_INVALID)
                return error_set(err, code, "%s: tensor %s: occurs twice, expected once", t->path,
                                 gguf_printable(t->name).text);
            if (code != OK)
                return no_memory(dir, err);
            dir->all[dir->total++] = t;
        }
    }
    return OK;
}

static status open_index(hf_dir *dir, span text, error *err)
{
    char *path = join_path(dir->path, span_from(INDEX_NAME));
    if (!path)
        return no_memory(dir, err);
    index_reader reader = {dir, path, {0}};
    status code = safetensors_index_parse(path, text, open_indexed, &reader, err);
    if (code == OK && dir->file_count == 0)
        code = error_set(err, ERR_INVALID, "%s: weight_map names no file", path);
    if (code == OK && (code = gather(dir, err)) == OK)
        code = safetensors_index_parse(path, text, check_indexed, &reader, err);
    free(path);
    return code;
}

static status open_files(hf_dir *dir, error *err)
{
    buf index = {0};
    status code = hf_read_text(dir, INDEX_NAME, INDEX_BYTES_MAX, &index, err);
    if (code == OK) {
        code = open_index(dir, buf_span(&index), err);
    } else if (code == ERR_NOT_FOUND) {
        st_file *file;
        code = open_named(dir, span_from(SINGLE_NAME), &file, err);
        if (code == OK)
            code = gather(dir, err);
    }
    buf_free(&index);
    return code;
}

st_tensor *hf_find(const hf_dir *dir, const char *name)
{
    int64_t number = name_index_find(&dir->names, span_from(name));
    return number == NAME_ABSENT ? NULL : dir->all[number];
}

status hf_dir_open(hf_dir *dir, const char *path, error *err)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    if (!(dir->path = strndup(path, size)) || !(dir->config_path = join_path(dir->path, span_from("config.json"))))
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    status code = hf_read_json(dir, "config.json", &dir->config, err);
    if (code == ERR_NOT_FOUND)
        return error_set(err, ERR_INVALID, "%s: a directory without config.json, expected one with it and safetensors",
                         path);
    if (code != OK || (code = open_files(dir, err)) != OK || (code = hf_read_config(dir, err)) != OK ||
        (code = hf_bind_tensors(dir, err)) != OK)
        return code == ERR_NOT_FOUND ? ERR_INVALID : code;
    return hf_finish_metadata(dir, err);
}

void hf_dir_close(hf_dir *dir)
{
    for (size_t i = 0; i < dir->file_count; i++)
        safetensors_close(&dir->files[i]);
    free(dir->files);
    free(dir->all);
    free(dir->tensors);
    name_index_free(&dir->names);
    json_decref(dir->config);
    buf_free(&dir->metadata);
    for (hf_block *block = dir->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(dir->config_path);
    free(dir->path);
    *dir = (hf_dir){0};
}

/* --- as a model_file: metadata in memory in GGUF's encoding, so that the same code reads and checks it --- */

static status show_metadata(model_file *file, const hf_dir *dir, error *err)
{
    gguf_shard *shard = &file->shards[0];
    shard->data = (const uint8_t *)dir->metadata.data;
    shard->size = dir->metadata.size;
    if (!(shard->path = strdup(dir->config_path)))
        return no_memory(dir, err);
    return gguf_shard_parse(shard, err);
}

static status show_tensors(model_file *file, hf_dir *dir, error *err)
{
    file->tensors = dir->tensors;
    dir->tensors = NULL;
    for (size_t i = 0; i < dir->tensor_count; i++) {
        status code = name_index_add(&file->tensor_index, file->tensors[i].name, (uint32_t)i);
        if (code != OK)
            return error_set(err, code, "%s: tensor %s: occurs twice", dir->path,
                             gguf_printable(file->tensors[i].name).text);
    }
    file->tensor_count = dir->tensor_count;
    for (size_t i = 0; i < dir->file_count; i++)
        file->bytes += dir->files[i].size;
    return OK;
}

static status hf_open(model_file *file, error *err)
{
    hf_dir *dir = calloc(1, sizeof *dir);
    if (!dir)
        return error_set(err, ERR_MEMORY, "%s: out of memory", file->path);
    file->own = dir;
    status code = hf_dir_open(dir, file->path, err);
    if (code == OK)
        code = show_metadata(file, dir, err);
    return code == OK ? show_tensors(file, dir, err) : code;
}

static void hf_close(model_file *file)
{
    if (file->own)
        hf_dir_close(file->own);
    free(file->own);
}

static const char *hf_format(const model_file *file)
{
    return ((const hf_dir *)file->own)->mlx ? "MLX safetensors" : "safetensors";
}

/* Only what lies in a mapping: other data is memory of the directory's. */
static void hf_release(const model_file *file, const void *data, size_t bytes)
{
    const hf_dir *dir = file->own;
    for (size_t i = 0; i < dir->file_count; i++) {
        if (file_map_holds(&dir->files[i].map, data))
            file_map_release(&dir->files[i].map, data, bytes, file->forget);
    }
}

static void hf_release_tensor(const model_file *file, const model_tensor *tensor)
{
    const hf_source *source = tensor->source;
    if (tensor->data)
        hf_release(file, tensor->data, tensor->bytes);
    if (!source)
        return;
    uint64_t parts = tensor->ne[1] * tensor->ne[2] / source->part_rows;
    for (uint64_t i = 0; i < parts; i++) {
        const hf_matrix *m = &source->parts[i];
        uint64_t scale_rows = m->block_rows ? (m->rows + m->block_rows - 1) / m->block_rows : m->rows;
        hf_release(file, m->weight, m->rows * m->weight_row);
        if (m->scales)
            hf_release(file, m->scales, scale_rows * m->scale_row);
        if (m->biases)
            hf_release(file, m->biases, m->rows * m->scale_row);
    }
}

static void hf_release_all(const model_file *file)
{
    const hf_dir *dir = file->own;
    for (size_t i = 0; i < dir->file_count; i++)
        if (dir->files[i].map.data)
            file_map_release(&dir->files[i].map, dir->files[i].map.data, dir->files[i].map.size, file->forget);
}

const model_kind hf_kind = {hf_open, hf_close, hf_format, hf_release, hf_release_tensor, hf_release_all};
