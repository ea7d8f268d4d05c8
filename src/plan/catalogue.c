/* plan/catalogue.c: the tables as one list, and names in it. */
#include <stdio.h>

#include "plan/catalogue_rows.h"

static const catalogue_table *const TABLES[] = {&catalogue_llama, &catalogue_qwen, &catalogue_others};
enum { TABLE_COUNT = sizeof TABLES / sizeof *TABLES, NAME_BYTES = 64, NEAREST = 4 };

static const catalogue_row *row_at(size_t index)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if (index < TABLES[i]->count)
            return &TABLES[i]->rows[index];
        index -= TABLES[i]->count;
    }
    return NULL;
}

size_t catalogue_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < TABLE_COUNT; i++)
        count += TABLES[i]->count;
    return count;
}

const model_shape *catalogue_at(size_t index)
{
    const catalogue_row *row = row_at(index);
    return row ? &row->shape : NULL;
}

const char *catalogue_type(size_t index)
{
    const catalogue_row *row = row_at(index);
    return row ? row->type : NULL;
}

const char *catalogue_source(size_t index)
{
    const catalogue_row *row = row_at(index);
    return row ? row->source : NULL;
}

double catalogue_published(size_t index)
{
    const catalogue_row *row = row_at(index);
    return row ? row->published : 0;
}

bool catalogue_rounded(size_t index)
{
    const catalogue_row *row = row_at(index);
    return row && row->rounded;
}

/* --- names --- */

typedef struct {
    char text[NAME_BYTES];
    size_t size;
} bare_name;

/* Letters and digits, lower case, after the last '/': "Qwen/Qwen3.6-35B-A3B" is "qwen3635ba3b". Too long: cut, so that
 * it is nobody's name. */
static bare_name bare_of(const char *name)
{
    bare_name out = {0};
    const char *slash = strrchr(name, '/');
    for (const char *p = slash ? slash + 1 : name; *p && out.size < NAME_BYTES - 1; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9');
        if (*p >= 'A' && *p <= 'Z')
            out.text[out.size++] = (char)(*p + ('a' - 'A'));
        else if (letter)
            out.text[out.size++] = *p;
    }
    return out;
}

/* Takes off an ending that says only how a model was trained, and nothing of its shape. What stands after it is kept
 * where it may tell rows apart: Mistral's v0.1 has a window, Qwen3's 2507 a longer context. False: no such ending. */
static bool take_training(bare_name *name)
{
    static const struct {
        const char *end, *kept;
    } ENDS[] = {/* the longer ones first */
                {"instruct2507", "2507"},
                {"thinking2507", "2507"},
                {"instructv01", "v01"},
                {"instructv03", "v03"},
                {"instruct", ""},
                {"chat", ""},
                {"base", ""},
                {"thinking", ""},
                {"hf", ""},
                {"it", ""},
                {"pt", ""},
                {"2501", ""},
                {"v01", ""},
                {"v03", ""}};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        size_t size = strlen(ENDS[i].end), kept = strlen(ENDS[i].kept);
        if (name->size <= size || memcmp(name->text + name->size - size, ENDS[i].end, size) != 0)
            continue;
        memcpy(name->text + name->size - size, ENDS[i].kept, kept + 1);
        name->size -= size - kept;
        return true;
    }
    return false;
}

/* Least edits from a to b; a part of b costs little, so that "llama3" is near all of Llama 3. */
static unsigned distance(const bare_name *a, const bare_name *b)
{
    unsigned row[NAME_BYTES];
    if (a->size && strstr(b->text, a->text))
        return (unsigned)(b->size - a->size);
    for (size_t j = 0; j <= b->size; j++)
        row[j] = (unsigned)j * 10;
    for (size_t i = 1; i <= a->size; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i * 10;
        for (size_t j = 1; j <= b->size; j++) {
            unsigned best = diagonal + (a->text[i - 1] == b->text[j - 1] ? 0 : 10);
            diagonal = row[j];
            best = row[j] + 10 < best ? row[j] + 10 : best;
            row[j] = row[j - 1] + 10 < best ? row[j - 1] + 10 : best;
        }
    }
    return row[b->size];
}

static status not_found(const char *name, const bare_name *bare, error *err)
{
    size_t nearest[NEAREST] = {0};
    unsigned far[NEAREST] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < catalogue_count(); i++) {
        bare_name row = bare_of(row_at(i)->shape.name);
        unsigned d = distance(bare, &row);
        size_t at = NEAREST;
        while (at > 0 && d < far[at - 1])
            at--;
        if (at == NEAREST)
            continue;
        memmove(far + at + 1, far + at, (NEAREST - 1 - at) * sizeof *far);
        memmove(nearest + at + 1, nearest + at, (NEAREST - 1 - at) * sizeof *nearest);
        far[at] = d;
        nearest[at] = i;
    }
    return error_set(err, ERR_NOT_FOUND, "model \"%.63s\" is not in the catalogue; the nearest names: %s, %s, %s, %s",
                     name, row_at(nearest[0])->shape.name, row_at(nearest[1])->shape.name,
                     row_at(nearest[2])->shape.name, row_at(nearest[3])->shape.name);
}

status catalogue_find(const model_shape **out, size_t *index, const char *name, error *err)
{
    bare_name bare = bare_of(name), wanted = bare;
    do
        for (size_t i = 0; i < catalogue_count(); i++) {
            bare_name row = bare_of(row_at(i)->shape.name);
            if (strcmp(row.text, wanted.text) != 0)
                continue;
            *out = &row_at(i)->shape;
            if (index)
                *index = i;
            return OK;
        }
    while (take_training(&wanted));
    return err ? not_found(name, &bare, err) : ERR_NOT_FOUND; /* whoever wants no words waits for none */
}
