/* text/grammar/schema.h: how a JSON schema (draft 2020-12) becomes rules; private to the schema_*.c files. A place in
 * the output is described by a set of subschemas that all hold there. Expanding it follows $ref and allOf and makes an
 * alternative of each branch of anyOf and oneOf; an alternative is a set of schemas of which only the plain keywords
 * count: a flat set. */
#ifndef HEADWAY_TEXT_GRAMMAR_SCHEMA_H
#define HEADWAY_TEXT_GRAMMAR_SCHEMA_H

#include "text/grammar/parts.h"

enum { FLATS_MAX = 64, ALTERNATIVES_MAX = 256, SETS_MAX = 20000, PATTERNS_MAX = 4 };

typedef struct {
    const json_t *schemas[FLATS_MAX];
    uint8_t parents[FLATS_MAX]; /* by schema: which one brought it in; itself: none */
    uint32_t count;
} schema_set;

typedef struct {
    schema_set *sets;
    uint32_t count, capacity;
} schema_sets;

typedef struct {
    schema_set *keys; /* by rule: the set it is for */
    grammar_rule *rules;
    uint32_t count, capacity;
    uint32_t *table, table_size;
} set_table;

typedef struct {
    grammar_builder *b;
    const json_t *root;
    set_table done;
    json_t *made; /* schemas that stand for others, kept as long as this */
    uint32_t depth;
} schema_reader;

enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8, /* numbers that are not written as integers; never without TYPE_INTEGER */
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ALL = 127
};

/* schema.c. In all of these 0 and false mean that the builder has failed. */
bool set_add(schema_reader *r, schema_set *set, const json_t *schema);
grammar_rule set_rule(schema_reader *r, const schema_set *set); /* what satisfies all of it */
bool set_expand(schema_reader *r, const schema_set *set, schema_sets *out);
bool set_below(const schema_set *set, uint32_t at, uint32_t ancestor); /* brought in by it, directly or not; or it */
const json_t *schema_resolve(schema_reader *r, const json_t *ref);
bool schema_check(schema_reader *r, const json_t *schema); /* only keywords that are known, of the right kind */

/* schema_shape.c: flat sets */
bool flat_types(schema_reader *r, const schema_set *flat, uint32_t *types);
json_t *flat_values(schema_reader *r, const schema_set *flat,
                    bool *listed); /* a new array, when enum or const list them */
bool flat_disjoint(schema_reader *r, const schema_set *x, const schema_set *y);
grammar_rule flat_rule(schema_reader *r, const schema_set *flat);
/* The smallest of `lower` names' values, or the largest with `largest`; false: none. */
bool flat_count(schema_reader *r, const schema_set *flat, const char *name, bool largest, uint32_t *out);
grammar_rule schema_string(schema_reader *r, const schema_set *flat);
grammar_rule schema_number(schema_reader *r, const schema_set *flat, uint32_t types);

/* schema_object.c */
grammar_rule schema_object(schema_reader *r, const schema_set *flat);
grammar_rule schema_array(schema_reader *r, const schema_set *flat);

/* schema_value.c */
uint32_t value_type(const json_t *value);        /* one TYPE_*, or TYPE_INTEGER for numbers like 1.0 */
uint32_t schema_types_named(const json_t *name); /* the TYPE_* that the word of a "type" stands for; 0: no type */
bool value_equal(const json_t *x, const json_t *y);
bool value_valid(schema_reader *r, const json_t *value, const json_t *schema); /* look at the builder's failure too */
bool pattern_found(schema_reader *r, span pattern, span text);

#endif
