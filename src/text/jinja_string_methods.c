/* text/jinja_string_methods.c: the methods of str. */
#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

#define METHOD(name)                                                                                                   \
    static jinja_value str_##name(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)

static jinja_value part(jinja_render *r, const jinja_string *s, size_t offset, size_t size)
{
    return jinja_of_string(jinja_string_sub(&r->arena, s, offset, size));
}

METHOD(not_supported)
{
    (void)a, (void)args;
    jinja_fail(r, "this method of '%s' is not supported", jinja_type_name(self));
}

/* ---- case ---- */

METHOD(upper)
{
    (void)a, (void)args;
    return jinja_of_string(jinja_change_string(r, self.string, CHANGE_UPPER));
}

METHOD(lower)
{
    (void)a, (void)args;
    return jinja_of_string(jinja_change_string(r, self.string, CHANGE_LOWER));
}

METHOD(title)
{
    (void)a, (void)args;
    return jinja_of_string(jinja_change_string(r, self.string, CHANGE_TITLE));
}

METHOD(capitalize)
{
    (void)a, (void)args;
    return jinja_of_string(jinja_change_string(r, self.string, CHANGE_CAPITALIZE));
}

METHOD(swapcase)
{
    (void)a, (void)args;
    return jinja_of_string(jinja_change_string(r, self.string, CHANGE_SWAP));
}

/* ---- strip ---- */

static jinja_value strip_sides(jinja_render *r, jinja_value self, jinja_value chars, bool left, bool right)
{
    bool use_chars = jinja_given(chars) && chars.type != V_NONE;
    span set = use_chars ? jinja_arg_str(r, chars, "strip argument")->text : (span){0};
    span text = self.string->text, rest = jinja_strip(text, set, use_chars, left, right);
    jinja_charge(r, (text.size - rest.size) * (1 + set.size) / 4);
    return part(r, self.string, rest.size ? (size_t)(rest.data - text.data) : 0, rest.size);
}

METHOD(strip)
{
    (void)args;
    return strip_sides(r, self, a[0], true, true);
}

METHOD(lstrip)
{
    (void)args;
    return strip_sides(r, self, a[0], true, false);
}

METHOD(rstrip)
{
    (void)args;
    return strip_sides(r, self, a[0], false, true);
}

METHOD(removeprefix)
{
    (void)args;
    span text = self.string->text, prefix = jinja_arg_str(r, a[0], "prefix")->text;
    bool has = text.size >= prefix.size && span_equal(span_of(text.data, prefix.size), prefix);
    return has ? part(r, self.string, prefix.size, text.size - prefix.size) : self;
}

METHOD(removesuffix)
{
    (void)args;
    span text = self.string->text, suffix = jinja_arg_str(r, a[0], "suffix")->text;
    bool has =
        text.size >= suffix.size && span_equal(span_of(text.data + text.size - suffix.size, suffix.size), suffix);
    return has ? part(r, self.string, 0, text.size - suffix.size) : self;
}

/* ---- search ---- */

/* The bytes that the optional start and end (in characters) leave; false when start is past the end. */
static bool window(jinja_render *r, jinja_string *s, jinja_value start, jinja_value end, size_t *from, size_t *to)
{
    int64_t length = (int64_t)jinja_string_chars(s), first = 0, last = length;
    if (jinja_given(start) && start.type != V_NONE)
        first = jinja_arg_int(r, start, 0, "start");
    if (jinja_given(end) && end.type != V_NONE)
        last = jinja_arg_int(r, end, 0, "end");
    first = first < -length ? 0 : first < 0 ? first + length : first;
    last = last < -length ? 0 : last < 0 ? last + length : last > length ? length : last;
    if (first > last)
        return false;
    *from = jinja_string_offset(s, (size_t)first);
    *to = jinja_string_offset(s, (size_t)last);
    return true;
}

static bool has_affix(span text, span affix, bool at_end)
{
    if (affix.size > text.size)
        return false;
    return span_equal(span_of(at_end ? text.data + text.size - affix.size : text.data, affix.size), affix);
}

static jinja_value test_affix(jinja_render *r, jinja_value self, const jinja_value *a, bool at_end)
{
    size_t from, to;
    bool inside = window(r, self.string, a[1], a[2], &from, &to);
    bool is_tuple = a[0].type == V_LIST && a[0].list->kind == LIST_TUPLE;
    span text = inside ? span_of(self.string->text.data + from, to - from) : (span){"", 0};
    for (size_t i = 0; is_tuple && i < a[0].list->count; i++) {
        jinja_charge(r, 1);
        if (has_affix(text, jinja_arg_str(r, a[0].list->items[i], "affix")->text, at_end) && inside)
            return jinja_bool(true);
    }
    if (is_tuple)
        return jinja_bool(false);
    return jinja_bool(
        has_affix(text, jinja_arg_str(r, a[0], at_end ? "endswith argument" : "startswith argument")->text, at_end) &&
        inside);
}

METHOD(startswith)
{
    (void)args;
    return test_affix(r, self, a, false);
}

METHOD(endswith)
{
    (void)args;
    return test_affix(r, self, a, true);
}

static size_t search_back(jinja_render *r, span text, span what)
{
    if (what.size > text.size)
        return SIZE_MAX;
    jinja_charge(r, text.size / 64);
    for (size_t i = text.size - what.size + 1; i-- > 0;) {
        if (text.data[i] != what.data[0])
            continue;
        jinja_charge(r, what.size / 64);
        if (memcmp(text.data + i, what.data, what.size) == 0)
            return i;
    }
    return SIZE_MAX;
}

static int64_t find_text(jinja_render *r, jinja_value self, const jinja_value *a, bool back)
{
    size_t from, to;
    span what = jinja_arg_str(r, a[0], "find argument")->text;
    jinja_charge(r, self.string->text.size / 32);
    if (!window(r, self.string, a[1], a[2], &from, &to))
        return -1;
    span text = span_of(self.string->text.data + from, to - from);
    if (!what.size)
        return (int64_t)jinja_char_count(span_of(self.string->text.data, back ? to : from));
    size_t found = back ? search_back(r, text, what) : jinja_search(text, what, 0);
    return found == SIZE_MAX ? -1 : (int64_t)jinja_char_count(span_of(self.string->text.data, from + found));
}

METHOD(find)
{
    (void)args;
    return jinja_int(find_text(r, self, a, false));
}

METHOD(rfind)
{
    (void)args;
    return jinja_int(find_text(r, self, a, true));
}

METHOD(index_of)
{
    (void)args;
    int64_t at = find_text(r, self, a, false);
    if (at < 0)
        jinja_fail(r, "substring not found");
    return jinja_int(at);
}

METHOD(rindex)
{
    (void)args;
    int64_t at = find_text(r, self, a, true);
    if (at < 0)
        jinja_fail(r, "substring not found");
    return jinja_int(at);
}

METHOD(count_of)
{
    (void)args;
    size_t from, to;
    int64_t count = 0;
    span what = jinja_arg_str(r, a[0], "count argument")->text;
    if (!window(r, self.string, a[1], a[2], &from, &to))
        return jinja_int(0);
    span text = span_of(self.string->text.data + from, to - from);
    jinja_charge(r, text.size / 64);
    if (!what.size)
        return jinja_int((int64_t)jinja_char_count(text) + 1);
    for (size_t at = 0; (at = jinja_search(text, what, at)) != SIZE_MAX; at += what.size)
        count++;
    return jinja_int(count);
}

METHOD(replace)
{
    (void)args;
    jinja_string *from = jinja_arg_str(r, a[0], "replace argument 1"),
                 *to = jinja_arg_str(r, a[1], "replace argument 2");
    if (self.string->markup)
        to = jinja_escape(r, jinja_of_string(to));
    return jinja_of_string(jinja_replace(r, self.string, from, to, jinja_arg_int(r, a[2], -1, "count")));
}

/* ---- split and join ---- */

static jinja_list *split_blanks(jinja_render *r, const jinja_string *s, int64_t limit)
{
    jinja_list *out = jinja_list_new(r, LIST_LIST, 0);
    size_t at = 0, used;
    for (;;) {
        while (at < s->text.size && jinja_is_space(jinja_decode(s->text.data + at, s->text.size - at, &used)))
            at += used;
        if (at >= s->text.size)
            return out;
        jinja_charge(r, 1);
        if (limit >= 0 && (int64_t)out->count >= limit) { /* the rest, blanks inside kept */
            span rest = span_of(s->text.data + at, s->text.size - at);
            jinja_list_push(r, out, part(r, s, at, jinja_strip(rest, (span){0}, false, false, true).size));
            return out;
        }
        size_t start = at;
        while (at < s->text.size && !jinja_is_space(jinja_decode(s->text.data + at, s->text.size - at, &used)))
            at += used;
        jinja_list_push(r, out, part(r, s, start, at - start));
    }
}

static void reverse_items(jinja_list *l)
{
    for (size_t i = 0; i + i + 1 < l->count; i++) {
        jinja_value held = l->items[i];
        l->items[i] = l->items[l->count - 1 - i];
        l->items[l->count - 1 - i] = held;
    }
}

static jinja_list *split_blanks_back(jinja_render *r, const jinja_string *s, int64_t limit)
{
    if (limit < 0)
        return split_blanks(r, s, limit);
    jinja_list *out = jinja_list_new(r, LIST_LIST, 0);
    span left = s->text;
    for (;;) {
        left = jinja_strip(left, (span){0}, false, false, true);
        if (!left.size)
            break;
        jinja_charge(r, 1);
        size_t start = left.size;
        if ((int64_t)out->count >= limit) {
            jinja_list_push(r, out, part(r, s, 0, left.size)); /* the rest, blanks in front kept */
            break;
        }
        for (;;) { /* back to the blank before the word */
            size_t before = start, used;
            while (before > 0 && start - --before < 4 && (left.data[before] & 0xc0) == 0x80)
                ;
            if (start == 0 || jinja_is_space(jinja_decode(left.data + before, start - before, &used)))
                break;
            start = before;
        }
        jinja_list_push(r, out, part(r, s, start, left.size - start));
        left.size = start;
    }
    reverse_items(out);
    return out;
}

static jinja_list *split_text(jinja_render *r, const jinja_string *s, span separator, int64_t limit)
{
    jinja_list *out = jinja_list_new(r, LIST_LIST, 0);
    size_t at = 0, found;
    jinja_charge(r, s->text.size / 64);
    while (limit != 0 && (found = jinja_search(s->text, separator, at)) != SIZE_MAX) {
        jinja_charge(r, 1);
        jinja_list_push(r, out, part(r, s, at, found - at));
        at = found + separator.size;
        limit--;
    }
    jinja_list_push(r, out, part(r, s, at, s->text.size - at));
    return out;
}

static jinja_list *split_text_back(jinja_render *r, const jinja_string *s, span separator, int64_t limit)
{
    jinja_list *out = jinja_list_new(r, LIST_LIST, 0);
    size_t end = s->text.size, found;
    jinja_charge(r, s->text.size / 4);
    while (limit != 0 && (found = search_back(r, span_of(s->text.data, end), separator)) != SIZE_MAX) {
        jinja_charge(r, 1);
        jinja_list_push(r, out, part(r, s, found + separator.size, end - found - separator.size));
        end = found;
        limit--;
    }
    jinja_list_push(r, out, part(r, s, 0, end));
    reverse_items(out);
    return out;
}

static jinja_value split_any(jinja_render *r, jinja_value self, const jinja_value *a, bool back)
{
    int64_t limit = jinja_arg_int(r, a[1], -1, "maxsplit");
    if (!jinja_given(a[0]) || a[0].type == V_NONE) {
        jinja_charge(r, self.string->text.size / 4);
        return jinja_of_list(back ? split_blanks_back(r, self.string, limit) : split_blanks(r, self.string, limit));
    }
    span separator = jinja_arg_str(r, a[0], "split argument")->text;
    if (!separator.size)
        jinja_fail(r, "empty separator");
    return jinja_of_list(back ? split_text_back(r, self.string, separator, limit)
                              : split_text(r, self.string, separator, limit));
}

METHOD(split)
{
    (void)args;
    return split_any(r, self, a, false);
}

METHOD(rsplit)
{
    (void)args;
    return split_any(r, self, a, true);
}

static bool is_line_end(int32_t code)
{
    return (code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
           code == 0x2029;
}

METHOD(splitlines)
{
    (void)args;
    const jinja_string *s = self.string;
    bool keep = jinja_arg_bool(r, a[0], false);
    jinja_list *out = jinja_list_new(r, LIST_LIST, 0);
    size_t start = 0, used;
    jinja_charge(r, s->text.size / 4);
    for (size_t i = 0; i < s->text.size;) {
        int32_t code = jinja_decode(s->text.data + i, s->text.size - i, &used);
        if (!is_line_end(code)) {
            i += used;
            continue;
        }
        size_t end = i + used + (code == '\r' && i + 1 < s->text.size && s->text.data[i + 1] == '\n');
        jinja_list_push(r, out, part(r, s, start, (keep ? end : i) - start));
        i = start = end;
    }
    if (start < s->text.size)
        jinja_list_push(r, out, part(r, s, start, s->text.size - start));
    return jinja_of_list(out);
}

static jinja_value partition_at(jinja_render *r, jinja_value self, jinja_value separator, bool back)
{
    const jinja_string *s = self.string;
    jinja_string *sep = jinja_arg_str(r, separator, "separator");
    if (!sep->text.size)
        jinja_fail(r, "empty separator");
    jinja_charge(r, s->text.size / 64);
    size_t found = back ? search_back(r, s->text, sep->text) : jinja_search(s->text, sep->text, 0);
    jinja_list *out = jinja_list_new(r, LIST_TUPLE, 3);
    if (found == SIZE_MAX) {
        jinja_value empty = part(r, s, 0, 0);
        jinja_list_push(r, out, back ? empty : self);
        jinja_list_push(r, out, empty);
        jinja_list_push(r, out, back ? self : empty);
        return jinja_of_list(out);
    }
    size_t behind = found + sep->text.size;
    jinja_list_push(r, out, part(r, s, 0, found));
    jinja_list_push(r, out, part(r, s, found, sep->text.size));
    jinja_list_push(r, out, part(r, s, behind, s->text.size - behind));
    return jinja_of_list(out);
}

METHOD(partition)
{
    (void)args;
    return partition_at(r, self, a[0], false);
}

METHOD(rpartition)
{
    (void)args;
    return partition_at(r, self, a[0], true);
}

METHOD(join)
{
    (void)args;
    return jinja_of_string(jinja_join(r, self.string, jinja_iterate(r, a[0]), true));
}

/* ---- padding ---- */

static jinja_value pad(jinja_render *r, jinja_value self, const jinja_value *a, int side)
{
    int64_t missing = jinja_arg_int(r, a[0], 0, "width") - (int64_t)jinja_string_chars(self.string);
    jinja_string space = {.text = {" ", 1}, .chars = 1};
    jinja_string *fill = jinja_given(a[1])
                             ? jinja_arg_str(r, a[1], "fill character")
                             : jinja_string_borrow(&r->arena, space.text, jinja_string_trusted(self.string));
    if (jinja_string_chars(fill) != 1)
        jinja_fail(r, "The fill character must be exactly one character long");
    if (missing <= 0)
        return self;
    /* str.center: an odd blank goes left when the width is odd */
    int64_t width = missing + (int64_t)jinja_string_chars(self.string);
    int64_t left = side < 0 ? 0 : side > 0 ? missing : missing / 2 + (missing & width & 1);
    jinja_builder b;
    jinja_build(&b, r);
    jinja_put_string(&b, jinja_repeat(r, fill, left));
    jinja_put_string(&b, self.string);
    jinja_put_string(&b, jinja_repeat(r, fill, missing - left));
    b.markup = self.string->markup;
    return jinja_of_string(jinja_built(&b));
}

METHOD(ljust)
{
    (void)args;
    return pad(r, self, a, -1);
}

METHOD(rjust)
{
    (void)args;
    return pad(r, self, a, 1);
}

METHOD(center)
{
    (void)args;
    return pad(r, self, a, 0);
}

METHOD(zfill)
{
    (void)args;
    span text = self.string->text;
    int64_t missing = jinja_arg_int(r, a[0], 0, "width") - (int64_t)jinja_string_chars(self.string);
    size_t sign = text.size && (text.data[0] == '-' || text.data[0] == '+');
    jinja_builder b;
    jinja_build(&b, r);
    jinja_put_part(&b, self.string, 0, sign);
    jinja_put_string(&b, jinja_repeat(r, jinja_string_copy(r, "0"), missing));
    jinja_put_part(&b, self.string, sign, text.size - sign);
    return jinja_of_string(jinja_built(&b));
}

METHOD(expandtabs)
{
    (void)args;
    int64_t size = jinja_arg_int(r, a[0], 8, "tabsize"), column = 0;
    const jinja_string *s = self.string;
    jinja_builder b;
    jinja_build(&b, r);
    size_t used;
    for (size_t i = 0; i < s->text.size; i += used) {
        int32_t code = jinja_decode(s->text.data + i, s->text.size - i, &used);
        jinja_charge(r, 1);
        if (code != '\t') {
            jinja_put_part(&b, s, i, used);
            column = code == '\n' || code == '\r' ? 0 : column + 1;
            continue;
        }
        for (int64_t blanks = size > 0 ? size - column % size : 0; blanks > 0; blanks--, column++) {
            jinja_put(&b, " ", 1, jinja_trusted_at(s, i, NULL));
            jinja_charge(r, 1);
        }
    }
    return jinja_of_string(jinja_built(&b));
}

/* ---- questions ---- */

typedef bool char_test(int32_t code);

static jinja_value all_chars(jinja_render *r, jinja_value self, char_test *test, bool if_empty)
{
    span text = self.string->text;
    size_t used;
    jinja_charge(r, text.size / 4);
    for (size_t i = 0; i < text.size; i += used)
        if (!test(jinja_decode(text.data + i, text.size - i, &used)))
            return jinja_bool(false);
    return jinja_bool(if_empty || text.size);
}

static bool is_alnum(int32_t code)
{
    return jinja_is_alpha(code) || jinja_is_numeric(code);
}

static bool is_ascii(int32_t code)
{
    return code < 0x80;
}

#define QUESTION(name, test, if_empty)                                                                                 \
    METHOD(name)                                                                                                       \
    {                                                                                                                  \
        (void)a, (void)args;                                                                                           \
        return all_chars(r, self, test, if_empty);                                                                     \
    }
QUESTION(isalpha, jinja_is_alpha, false)
QUESTION(isalnum, is_alnum, false)
QUESTION(isdigit, jinja_is_digit, false)
QUESTION(isnumeric, jinja_is_numeric, false)
QUESTION(isspace, jinja_is_space, false)
QUESTION(isprintable, jinja_is_printable, true)
QUESTION(isascii, is_ascii, true)

/* Has letters, all in this case. */
static jinja_value all_case(jinja_render *r, jinja_value self, bool upper_case)
{
    span text = self.string->text;
    bool any = false;
    size_t used;
    jinja_charge(r, text.size / 4);
    for (size_t i = 0; i < text.size; i += used) {
        int32_t code = jinja_decode(text.data + i, text.size - i, &used);
        if (!jinja_is_cased(code))
            continue;
        if (upper_case ? !jinja_is_upper(code) : !jinja_is_lower(code))
            return jinja_bool(false);
        any = true;
    }
    return jinja_bool(any);
}

METHOD(isupper)
{
    (void)a, (void)args;
    return all_case(r, self, true);
}

METHOD(islower)
{
    (void)a, (void)args;
    return all_case(r, self, false);
}

METHOD(istitle)
{
    (void)a, (void)args;
    const jinja_string *titled = jinja_change_string(r, self.string, CHANGE_TITLE);
    span text = self.string->text;
    size_t used;
    for (size_t i = 0; i < text.size; i += used)
        if (jinja_is_cased(jinja_decode(text.data + i, text.size - i, &used)))
            return jinja_bool(span_equal(titled->text, text));
    return jinja_bool(false);
}

METHOD(isidentifier)
{
    (void)a, (void)args;
    span text = self.string->text;
    size_t used;
    if (!text.size || !jinja_is_name_start(jinja_decode(text.data, text.size, &used)))
        return jinja_bool(false);
    return all_chars(r, self, jinja_is_name, false);
}

/* ---- format ---- */

METHOD(format)
{
    (void)a;
    return jinja_of_string(jinja_brace_format(r, self.string, args));
}

METHOD(format_map)
{
    (void)args;
    if (a[0].type != V_DICT)
        jinja_fail(r, "format_map: '%s' is no dict", jinja_type_name(a[0]));
    jinja_args named = {0};
    size_t count = a[0].dict->live;
    named.names = jinja_alloc(&r->arena, (count + 1) * sizeof *named.names);
    named.named = jinja_alloc(&r->arena, (count + 1) * sizeof *named.named);
    for (size_t i = 0; i < a[0].dict->count; i++) {
        const jinja_entry *e = &a[0].dict->entries[i];
        if (e->gone || e->key.type != V_STRING)
            continue;
        jinja_name *name = jinja_alloc(&r->arena, sizeof *name);
        name->text = e->key.string->text;
        named.names[named.named_count] = name;
        named.named[named.named_count++] = e->value;
    }
    return jinja_of_string(jinja_brace_format(r, self.string, &named));
}

const jinja_function jinja_string_methods[] = {
    {"split", str_split, "sep,maxsplit", 0, {0}},
    {"strip", str_strip, "chars", 0, {0}},
    {"lstrip", str_lstrip, "chars", 0, {0}},
    {"rstrip", str_rstrip, "chars", 0, {0}},
    {"startswith", str_startswith, "prefix,start,end", 1, {0}},
    {"endswith", str_endswith, "suffix,start,end", 1, {0}},
    {"replace", str_replace, "old,new,count", 2, {0}},
    {"upper", str_upper, "", 0, {0}},
    {"lower", str_lower, "", 0, {0}},
    {"casefold", str_lower, "", 0, {0}},
    {"title", str_title, "", 0, {0}},
    {"capitalize", str_capitalize, "", 0, {0}},
    {"swapcase", str_swapcase, "", 0, {0}},
    {"format", str_format, "*", 0, {0}},
    {"format_map", str_format_map, "mapping", 1, {0}},
    {"join", str_join, "iterable", 1, {0}},
    {"find", str_find, "sub,start,end", 1, {0}},
    {"rfind", str_rfind, "sub,start,end", 1, {0}},
    {"index", str_index_of, "sub,start,end", 1, {0}},
    {"rindex", str_rindex, "sub,start,end", 1, {0}},
    {"count", str_count_of, "sub,start,end", 1, {0}},
    {"rsplit", str_rsplit, "sep,maxsplit", 0, {0}},
    {"splitlines", str_splitlines, "keepends", 0, {0}},
    {"partition", str_partition, "sep", 1, {0}},
    {"rpartition", str_rpartition, "sep", 1, {0}},
    {"removeprefix", str_removeprefix, "prefix", 1, {0}},
    {"removesuffix", str_removesuffix, "suffix", 1, {0}},
    {"ljust", str_ljust, "width,fillchar", 1, {0}},
    {"rjust", str_rjust, "width,fillchar", 1, {0}},
    {"center", str_center, "width,fillchar", 1, {0}},
    {"zfill", str_zfill, "width", 1, {0}},
    {"expandtabs", str_expandtabs, "tabsize", 0, {0}},
    {"isalpha", str_isalpha, "", 0, {0}},
    {"isalnum", str_isalnum, "", 0, {0}},
    {"isdigit", str_isdigit, "", 0, {0}},
    {"isdecimal", str_isdigit, "", 0, {0}},
    {"isnumeric", str_isnumeric, "", 0, {0}},
    {"isspace", str_isspace, "", 0, {0}},
    {"isprintable", str_isprintable, "", 0, {0}},
    {"isascii", str_isascii, "", 0, {0}},
    {"isupper", str_isupper, "", 0, {0}},
    {"islower", str_islower, "", 0, {0}},
    {"istitle", str_istitle, "", 0, {0}},
    {"isidentifier", str_isidentifier, "", 0, {0}},
    {"encode", str_not_supported, "*", 0, {0}},
    {"translate", str_not_supported, "*", 0, {0}},
    {"maketrans", str_not_supported, "*", 0, {0}},
};
const size_t jinja_string_method_count = sizeof jinja_string_methods / sizeof *jinja_string_methods;
