/* text/jinja_value.h: what is a value of the template language?
 * Values behave as Python's: str, int (64 bits), float, bool, None, list, tuple, dict, and jinja2's Undefined,
 * Namespace, Macro. A string knows of every byte whether the template wrote it (trusted) or the request did: its
 * `runs`. Everything lives in the arena of one rendering (constants: in the template's arena) and is never freed alone.
 * One thread per rendering. */
#ifndef HEADWAY_TEXT_JINJA_VALUE_H
#define HEADWAY_TEXT_JINJA_VALUE_H

#include "text/jinja_arena.h"

typedef enum {
    V_UNDEFINED,
    V_NONE,
    V_BOOL,
    V_INT,
    V_BIG, /* an integer over 64 bits: its digits in `string`; prints, compares, takes no part in arithmetic */
    V_FLOAT,
    V_STRING,
    V_LIST, /* list, tuple, range, generator, dict views: see list kind */
    V_DICT,
    V_NAMESPACE,
    V_MACRO,
    V_FUNCTION, /* a global function or a bound method */
    V_LOOP,
    V_OBJECT, /* cycler, joiner */
} jinja_type;

typedef struct {
    span text;
    uint32_t hash;
} jinja_name; /* interned */

typedef struct {
    const jinja_name **slots;
    size_t count, capacity; /* capacity: power of two */
} jinja_names;

const jinja_name *jinja_intern(jinja_arena *arena, jinja_names *names, span text);
const jinja_name *jinja_find_name(const jinja_names *names, span text); /* NULL: never spelled in the template */

typedef struct {
    size_t start; /* byte offset; the first run of a string starts at 0 */
    bool trusted;
} jinja_run;

typedef struct jinja_buffer jinja_buffer; /* bytes that may still grow at the end */

typedef struct {
    span text;
    size_t chars; /* code points; SIZE_MAX: not counted yet */
    const jinja_run *runs;
    uint32_t run_count; /* at least 1 */
    bool markup;        /* came out of `safe` or `escape` */
    jinja_buffer *tail; /* set when the text ends where its buffer ends: appending needs no copy */
} jinja_string;

typedef struct jinja_list jinja_list;
typedef struct jinja_dict jinja_dict;
typedef struct jinja_macro jinja_macro;
typedef struct jinja_function jinja_function;
typedef struct jinja_loop jinja_loop;
typedef struct jinja_object jinja_object;

typedef struct {
    uint8_t type; /* jinja_type */
    union {
        bool boolean;
        int64_t integer;
        double real;
        jinja_string *string;
        jinja_list *list;
        jinja_dict *dict; /* also the namespace */
        jinja_macro *macro;
        const jinja_function *function;
        jinja_loop *loop;
        jinja_object *object;
        const char *undefined; /* why it is undefined; NULL allowed */
    };
} jinja_value;

typedef enum {
    LIST_LIST,
    LIST_TUPLE,
    LIST_RANGE,
    LIST_GENERATOR, /* gone once it was read */
    LIST_KEYS,
    LIST_VALUES,
    LIST_ITEMS,
} jinja_list_kind;

struct jinja_list {
    uint8_t kind; /* jinja_list_kind */
    jinja_value *items;
    size_t count, capacity;
    int64_t start, stop, step; /* LIST_RANGE */
};

typedef struct {
    jinja_value key, value;
    uint32_t hash;
    bool gone; /* popped */
} jinja_entry;

struct jinja_dict {
    jinja_entry *entries;   /* in order of insertion */
    size_t count, capacity; /* of entries, gone ones included */
    size_t live;
    uint32_t *index; /* hash table of entry numbers + 1, NULL while small */
    size_t index_capacity;
};

/* One rendering. */
typedef struct jinja_render jinja_render;

static inline jinja_value jinja_none(void)
{
    return (jinja_value){.type = V_NONE};
}
static inline jinja_value jinja_bool(bool b)
{
    return (jinja_value){.type = V_BOOL, .boolean = b};
}
static inline jinja_value jinja_int(int64_t i)
{
    return (jinja_value){.type = V_INT, .integer = i};
}
static inline jinja_value jinja_float(double d)
{
    return (jinja_value){.type = V_FLOAT, .real = d};
}
static inline jinja_value jinja_of_string(jinja_string *s)
{
    return (jinja_value){.type = V_STRING, .string = s};
}
static inline jinja_value jinja_of_list(jinja_list *l)
{
    return (jinja_value){.type = V_LIST, .list = l};
}
static inline jinja_value jinja_of_dict(jinja_dict *d)
{
    return (jinja_value){.type = V_DICT, .dict = d};
}
static inline bool jinja_is_str(jinja_value v)
{
    return v.type == V_STRING;
}
static inline bool jinja_is_mapping(jinja_value v)
{
    return v.type == V_DICT;
}

/* strings (jinja_string.c) */
jinja_string *jinja_string_borrow(jinja_arena *arena, span text, bool trusted);
jinja_string *jinja_string_copy(jinja_render *r, const char *text); /* a short text that no one trusts */
jinja_string *jinja_as_markup(jinja_render *r, const jinja_string *s);
jinja_string *jinja_string_sub(jinja_arena *arena, const jinja_string *s, size_t offset, size_t size); /* bytes */
bool jinja_string_trusted(const jinja_string *s);                                                      /* every byte */
bool jinja_trusted_at(const jinja_string *s, size_t offset, size_t *run_end); /* run_end NULL allowed */
size_t jinja_string_chars(jinja_string *s);
size_t jinja_string_offset(jinja_string *s, size_t index); /* byte offset of a character */

/* A string under construction. */
typedef struct {
    jinja_render *render;
    jinja_buffer *buffer;
    bool markup;
} jinja_builder;
void jinja_build(jinja_builder *b, jinja_render *r);
void jinja_put(jinja_builder *b, const char *data, size_t size, bool trusted);
void jinja_put_text(jinja_builder *b, const char *text, bool trusted);
void jinja_put_code(jinja_builder *b, int32_t code, bool trusted);
void jinja_put_string(jinja_builder *b, const jinja_string *s);
void jinja_put_part(jinja_builder *b, const jinja_string *s, size_t offset, size_t size);
size_t jinja_built_size(const jinja_builder *b);
jinja_string *jinja_built(jinja_builder *b);
jinja_value jinja_concat(jinja_render *r, jinja_string *a, const jinja_string *b);

/* containers (jinja_value.c) */
jinja_list *jinja_list_new(jinja_render *r, jinja_list_kind kind, size_t capacity);
void jinja_list_push(jinja_render *r, jinja_list *l, jinja_value v);
jinja_dict *jinja_dict_new(jinja_render *r, size_t capacity);
jinja_value *jinja_dict_get(jinja_render *r, const jinja_dict *d, jinja_value key); /* NULL: not there */
jinja_value *jinja_dict_find(jinja_render *r, const jinja_dict *d, span key);
void jinja_dict_put(jinja_render *r, jinja_dict *d, jinja_value key, jinja_value value);
bool jinja_dict_drop(jinja_render *r, jinja_dict *d, jinja_value key);

bool jinja_truth(jinja_render *r, jinja_value v);
bool jinja_equal(jinja_render *r, jinja_value a, jinja_value b);
int jinja_order(jinja_render *r, jinja_value a, jinja_value b,
                const char *op); /* <0, 0, >0; fails when not comparable */
bool jinja_contains(jinja_render *r, jinja_value container, jinja_value item);
bool jinja_number(jinja_value v, double *out);   /* int, float or bool */
bool jinja_integer(jinja_value v, int64_t *out); /* int or bool */
const char *jinja_type_name(jinja_value v);      /* as Python says it */
/* The items of anything that can be iterated, as a list that shares nothing mutable; fails otherwise. */
jinja_list *jinja_iterate(jinja_render *r, jinja_value v);
bool jinja_iterable(jinja_value v);
int64_t jinja_length(jinja_render *r, jinja_value v); /* -1: has no length */

/* text of values (jinja_format.c) */
jinja_string *jinja_to_string(jinja_render *r, jinja_value v); /* str(): strings come back as they are */
void jinja_put_value(jinja_builder *b, jinja_value v);         /* str() into a builder */
void jinja_put_repr(jinja_builder *b, jinja_value v, int depth);
size_t jinja_float_text(double d, char out[40]);
typedef struct {
    bool ascii, sort_keys;
    int indent;       /* -1: one line */
    span indent_text; /* used when indent >= 0 */
    span item_separator, key_separator;
} jinja_json_style;
jinja_string *jinja_to_json(jinja_render *r, jinja_value v, const jinja_json_style *style);

#endif
