/* text/tokenizer_normalize.c: the steps, each from one buffer to the other.
 * utf8proc gives decompositions and compositions; the canonical ordering between them is done here, because utf8proc's
 * own is quadratic in a run of combining marks. */
#include "text/tokenizer_normalize.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "text/tokenizer_unicode.h"
#include "text/tokenizer_utf8.h"

status normalizer_add(normalizer *n, normalize_kind kind, regex *pattern, span text, error *err)
{
    if (n->count == NORMALIZE_STEPS_MAX) {
        regex_free(pattern);
        return error_set(err, ERR_UNSUPPORTED, "normalizer: more than %d steps", NORMALIZE_STEPS_MAX);
    }
    normalize_step *step = &n->steps[n->count++];
    *step = (normalize_step){.kind = kind, .pattern = pattern};
    buf_append(&step->text, text.data, text.size);
    return step->text.failed ? error_set(err, ERR_MEMORY, "out of memory for a normalizer") : OK;
}

void normalizer_free(normalizer *n)
{
    for (size_t i = 0; i < n->count; i++) {
        regex_free(n->steps[i].pattern);
        buf_free(&n->steps[i].text);
    }
    n->count = 0;
}

/* --- Unicode forms --- */

typedef struct {
    utf8proc_int32_t *codes;
    size_t count, capacity;
} code_list;

static bool codes_reserve(code_list *list, size_t more)
{
    if (list->count + more <= list->capacity)
        return true;
    size_t wanted = (list->count + more) * 2;
    utf8proc_int32_t *grown = realloc(list->codes, wanted * sizeof *grown);
    if (!grown)
        return false;
    list->codes = grown;
    list->capacity = wanted;
    return true;
}

/* Stops before an inert character. */
static bool decompose(code_list *list, span text, size_t *used, int options)
{
    list->count = 0;
    size_t at = 0;
    for (; at < text.size; at += utf8_size((unsigned char)text.data[at])) {
        if (!codes_reserve(list, 32))
            return false;
        int boundary = 0;
        uint32_t code = utf8_code(text.data + at);
        if (unicode_is_inert(code))
            break;
        utf8proc_ssize_t made = utf8proc_decompose_char((utf8proc_int32_t)code, list->codes + list->count, 32,
                                                        (utf8proc_option_t)options, &boundary);
        if (made < 0 || made > 32)
            return false;
        list->count += (size_t)made;
    }
    *used = at;
    return true;
}

static int combining_class(utf8proc_int32_t code)
{
    return utf8proc_get_property(code)->combining_class;
}

/* Stable counting sort of one run of combining marks by class. */
static bool order_run(utf8proc_int32_t *run, size_t count)
{
    size_t starts[257] = {0};
    for (size_t i = 0; i < count; i++)
        starts[combining_class(run[i]) + 1]++;
    for (size_t c = 1; c < 257; c++)
        starts[c] += starts[c - 1];
    utf8proc_int32_t small[64], *sorted = count <= 64 ? small : malloc(count * sizeof *sorted);
    if (!sorted)
        return false;
    for (size_t i = 0; i < count; i++)
        sorted[starts[combining_class(run[i])]++] = run[i];
    memcpy(run, sorted, count * sizeof *run);
    if (sorted != small)
        free(sorted);
    return true;
}

static bool order_marks(code_list *list)
{
    for (size_t at = 0; at < list->count;) {
        if (combining_class(list->codes[at]) == 0) {
            at++;
            continue;
        }
        size_t end = at;
        bool sorted = true;
        while (end < list->count && combining_class(list->codes[end]) != 0) {
            if (end > at && combining_class(list->codes[end]) < combining_class(list->codes[end - 1]))
                sorted = false;
            end++;
        }
        if (!sorted && !order_run(list->codes + at, end - at))
            return false;
        at = end;
    }
    return true;
}

static bool only_inert(span text) /* below U+0300 nothing composes or reorders; NFC leaves it as it is */
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] >= 0xCC)
            return false;
    return true;
}

static bool only_ascii(span text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] >= 0x80)
            return false;
    return true;
}

static bool compose(code_list *list, int options)
{
    utf8proc_ssize_t made =
        utf8proc_normalize_utf32(list->codes, (utf8proc_ssize_t)list->count, (utf8proc_option_t)options);
    list->count = made < 0 ? 0 : (size_t)made;
    return made >= 0;
}

static bool unicode_form(normalize_kind kind, span text, buf *out)
{
    int options = UTF8PROC_STABLE | (kind == NORMALIZE_NFKC || kind == NORMALIZE_NFKD ? UTF8PROC_COMPAT : 0);
    bool composed = kind == NORMALIZE_NFC || kind == NORMALIZE_NFKC, good = true;
    code_list list = {0};
    while (good && text.size) {
        size_t used = 0;
        good = decompose(&list, text, &used, options | UTF8PROC_DECOMPOSE) && order_marks(&list) &&
               (!composed || list.count == 0 || compose(&list, options | UTF8PROC_COMPOSE));
        for (size_t i = 0; good && i < list.count; i++) {
            char text4[4];
            buf_append(out, text4, utf8_put(text4, (uint32_t)list.codes[i]));
        }
        text = span_of(text.data + used, text.size - used);
        if (good && text.size) { /* the inert character */
            uint32_t size = utf8_size((unsigned char)text.data[0]);
            buf_append(out, text.data, size);
            text = span_of(text.data + size, text.size - size);
        }
    }
    free(list.codes);
    return good && !out->failed;
}

/* --- the chain --- */

static status replace_all(const normalize_step *step, regex_scratch *s, span text, buf *out, error *err)
{
    size_t at = 0, start, end;
    bool found;
    while (at < text.size) {
        status st = regex_find(step->pattern, s, text, at, &found, &start, &end, err);
        if (st)
            return st;
        if (!found)
            break;
        buf_append(out, text.data + at, start - at);
        buf_append(out, step->text.data, step->text.size);
        at = end;
    }
    buf_append(out, text.data + at, text.size - at);
    return OK;
}

static status apply_step(const normalize_step *step, regex_scratch *s, span text, buf *out, error *err)
{
    status st = OK;
    switch (step->kind) {
    case NORMALIZE_PREPEND:
        buf_append(out, step->text.data, step->text.size);
        buf_append(out, text.data, text.size);
        break;
    case NORMALIZE_REPLACE:
        st = replace_all(step, s, text, out, err);
        break;
    default:
        if (!unicode_form(step->kind, text, out))
            out->failed = true;
    }
    if (!st && out->failed)
        return error_set(err, ERR_MEMORY, "out of memory while normalizing %zu bytes of text", text.size);
    return st;
}

status normalizer_apply(const normalizer *n, regex_scratch *s, span text, buf work[2], span *out, error *err)
{
    *out = text;
    unsigned next = 0;
    for (size_t i = 0; i < n->count && out->size; i++) {
        const normalize_step *step = &n->steps[i];
        if ((step->kind == NORMALIZE_NFC && only_inert(*out)) || (step->kind < NORMALIZE_PREPEND && only_ascii(*out)))
            continue;
        buf_clear(&work[next]);
        status st = apply_step(step, s, *out, &work[next], err);
        if (st)
            return st;
        *out = buf_span(&work[next]);
        next ^= 1;
    }
    return OK;
}
