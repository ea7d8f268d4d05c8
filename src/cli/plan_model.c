/* cli/plan_model.c: see the header. A file of that name comes before a name of the catalogue. */
#include "cli/plan_model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "cli/plan_gguf.h"

enum { PATH_BYTES = 4096, CONFIG_BYTES_MAX = 16 << 20, READ_BYTES = 1 << 16 };

static status read_file(const char *path, buf *out, error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    out->limit = CONFIG_BYTES_MAX;
    size_t got = 1;
    while (got > 0 && !out->failed && buf_reserve(out, READ_BYTES)) {
        char piece[READ_BYTES];
        got = fread(piece, 1, sizeof piece, file);
        buf_append(out, piece, got);
    }
    bool failed = ferror(file);
    fclose(file);
    if (out->failed)
        return error_set(err, ERR_LIMIT, "%s: more than %d bytes, expected a config.json", path, CONFIG_BYTES_MAX);
    return failed ? error_set(err, ERR_IO, "%s: cannot be read", path) : OK;
}

static status read_config(plan_model *out, const char *path, error *err)
{
    buf text = {0};
    status st = read_file(path, &text, err);
    if (st == OK)
        st = model_shape_read_type(&out->shape, out->type, buf_span(&text), path, err);
    buf_free(&text);
    return st;
}

/* Its config.json, and the bytes of its tensors where they are there too. */
static status read_folder(plan_model *out, const char *path, error *err)
{
    char config[PATH_BYTES];
    model_file *file;
    int size = snprintf(config, sizeof config, "%s/config.json", path);
    if (size < 0 || (size_t)size >= sizeof config)
        return error_set(err, ERR_INVALID, "%.64s…: the path is too long", path);
    status st = read_config(out, config, err);
    if (st)
        return st;
    out->kind = MODEL_FOLDER;
    if (model_file_open(&file, path, NULL) == OK) {
        out->weight_bytes = plan_text_bytes(file);
        model_file_close(file);
    }
    return OK;
}

static bool is_gguf(const char *path)
{
    char magic[4] = "";
    FILE *file = fopen(path, "rb");
    bool yes = file && fread(magic, 1, 4, file) == 4 && memcmp(magic, "GGUF", 4) == 0;
    if (file)
        fclose(file);
    return yes;
}

static status read_gguf(plan_model *out, const char *path, error *err)
{
    model_file *file;
    status st = model_file_open(&file, path, err);
    if (st)
        return st;
    st = plan_gguf_read(out, file, err);
    model_file_close(file);
    return st;
}

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static status read_path(plan_model *out, const char *path, error *err)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return read_folder(out, path, err);
    if (!S_ISREG(info.st_mode))
        return error_set(err, ERR_INVALID, "%s: expected a file or a folder", path);
    if (is_gguf(path))
        return read_gguf(out, path, err);
    out->kind = MODEL_CONFIG;
    return read_config(out, path, err);
}

static status set_type(plan_model *out, const char *type, error *err)
{
    const weight_type *found;
    status st = weight_type_find(&found, type, err);
    if (st)
        return st;
    snprintf(out->type, sizeof out->type, "%s", found->name);
    out->weight_bytes = 0;
    return OK;
}

/* "PATH:TYPE" where a file lies at PATH; false: none does. */
static bool typed_path(const char *argument, char path[PATH_BYTES], const char **type)
{
    const char *colon = strrchr(argument, ':');
    size_t size = colon ? (size_t)(colon - argument) : 0;
    if (size == 0 || size >= PATH_BYTES)
        return false;
    memcpy(path, argument, size);
    path[size] = 0;
    *type = colon + 1;
    return exists(path);
}

static bool ends(const char *text, const char *with)
{
    size_t size = strlen(text), tail = strlen(with);
    return size >= tail && strcmp(text + size - tail, with) == 0;
}

static status find_name(plan_model *out, const char *argument, error *err)
{
    char name[64], type[16];
    const model_shape *shape;
    size_t index;
    status st = model_name_split(argument, name, type, err);
    if (st)
        return st;
    if ((st = catalogue_find(&shape, &index, name, err))) {
        bool path = ends(name, ".json") || ends(name, ".gguf") || name[0] == '/' || name[0] == '.';
        if (path)
            return error_set(err, ERR_NOT_FOUND, "%s: no such file or folder", argument);
        size_t used = err ? strlen(err->text) : 0;
        if (err)
            snprintf(err->text + used, sizeof err->text - used, " (all of them: `headway plan --list models`)");
        return st;
    }
    out->shape = *shape;
    return set_type(out, type[0] ? type : catalogue_type(index), err);
}

status plan_model_find(plan_model *out, const char *argument, error *err)
{
    char path[PATH_BYTES];
    const char *type;
    *out = (plan_model){0};
    if (exists(argument))
        return read_path(out, argument, err);
    if (!typed_path(argument, path, &type))
        return find_name(out, argument, err);
    status st = read_path(out, path, err);
    return st ? st : set_type(out, type, err);
}

status plan_model_open(model_shape *shape, char type[16], const char *argument, error *err)
{
    plan_model model;
    status st = plan_model_find(&model, argument, err);
    *shape = model.shape;
    memcpy(type, model.type, sizeof model.type);
    return st;
}
