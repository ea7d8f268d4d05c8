/* text/grammar/numbers.c: numbers between bounds, digit by digit. */
#include "text/grammar/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIGITS_MAX = 18, FRACTION_MAX = 9, EXACT_DIGITS = 15 };

static grammar_rule digits(grammar_builder *b, int lo, int hi, uint32_t min, uint32_t max)
{
    return lo > hi ? builder_never(b) : grammar_repeat(b, builder_range(b, (uint8_t)lo, (uint8_t)hi), min, max);
}

/* Runs of n digits from s on, or up to s. */
static grammar_rule run_from(grammar_builder *b, const char *s, uint32_t n, bool up)
{
    grammar_rule rule = builder_empty(b);
    for (uint32_t i = n; i-- > 0;) {
        grammar_rule beyond = up ? digits(b, s[i] + 1, '9', 1, 1) : digits(b, '0', s[i] - 1, 1, 1);
        rule = builder_either(b, builder_pair(b, digits(b, s[i], s[i], 1, 1), rule),
                              builder_pair(b, beyond, digits(b, '0', '9', n - 1 - i, n - 1 - i)));
    }
    return rule;
}

static grammar_rule run_between(grammar_builder *b, const char *lo, const char *hi, uint32_t n)
{
    uint32_t same = 0;
    while (same < n && lo[same] == hi[same])
        same++;
    grammar_rule head = grammar_text(b, span_of(lo, same));
    if (same == n)
        return head;
    lo += same;
    hi += same;
    n -= same + 1;
    grammar_rule ways[] = {
        builder_pair(b, digits(b, lo[0], lo[0], 1, 1), run_from(b, lo + 1, n, true)),
        builder_pair(b, digits(b, lo[0] + 1, hi[0] - 1, 1, 1), digits(b, '0', '9', n, n)),
        builder_pair(b, digits(b, hi[0], hi[0], 1, 1), run_from(b, hi + 1, n, false)),
    };
    return builder_pair(b, head, grammar_choice(b, ways, 3));
}

/* Whole numbers without a sign, lo <= hi. */
static grammar_rule whole_between(grammar_builder *b, uint64_t lo, uint64_t hi)
{
    char low[24], high[24], nines[24];
    grammar_rule ways[24];
    uint32_t count = 0;
    uint32_t first = (uint32_t)snprintf(low, sizeof low, "%llu", (unsigned long long)lo);
    uint32_t last = (uint32_t)snprintf(high, sizeof high, "%llu", (unsigned long long)hi);
    for (uint32_t n = first; n <= last; n++) {
        char from[24] = "1000000000000000000000";
        memset(nines, '9', sizeof nines);
        ways[count++] = run_between(b, n == first ? low : from, n == last ? high : nines, n);
    }
    return grammar_choice(b, ways, count);
}

static const int64_t largest = 999999999999999999; /* DIGITS_MAX digits */

static grammar_rule signed_between(grammar_builder *b, int64_t lo, int64_t hi)
{
    grammar_rule ways[2];
    uint32_t count = 0;
    if (lo > hi)
        return builder_never(b);
    if (hi >= 0)
        ways[count++] = whole_between(b, lo > 0 ? (uint64_t)lo : 0, (uint64_t)hi);
    if (lo < 0)
        ways[count++] =
            builder_pair(b, builder_string(b, "-"), whole_between(b, hi < 0 ? (uint64_t)-hi : 1, (uint64_t)-lo));
    return grammar_choice(b, ways, count);
}

static bool add_digit_edges(automaton *a, uint32_t rest, uint32_t n, int from)
{
    bool ok = true;
    for (uint32_t d = (uint32_t)from; ok && d < 10; d++)
        ok = automaton_add_edge(a, (uint8_t)('0' + d), (uint8_t)('0' + d), 3 + (rest * 10 + d) % n);
    return ok;
}

/* States: 0 start, 1 behind the sign, 2 zero, 3 + r: so far r modulo n. */
static bool multiples_of(uint32_t n, automaton *a)
{
    *a = (automaton){0};
    bool ok = automaton_add_state(a, false) && automaton_add_edge(a, '-', '-', 1) &&
              automaton_add_edge(a, '0', '0', 2) && add_digit_edges(a, 0, n, 1) && automaton_add_state(a, false) &&
              add_digit_edges(a, 0, n, 1) && automaton_add_state(a, true);
    for (uint32_t r = 0; ok && r < n; r++)
        ok = automaton_add_state(a, r == 0) && add_digit_edges(a, r, n, 0);
    return ok;
}

static grammar_rule both(grammar_builder *b, grammar_rule rule, automaton *second) /* takes `second` */
{
    automaton first, out;
    grammar_rule result = 0;
    if (regular_of(b, rule, &first)) {
        if (regular_combine(b, &first, second, REGULAR_AND, &out))
            result = builder_automaton(b, &out);
        automaton_free(&first);
    }
    automaton_free(second);
    return result;
}

grammar_rule integer_rule(grammar_builder *b, const integer_range *r)
{
    int64_t low = r->has_low && r->low > -largest ? r->low : -largest;
    int64_t high = r->has_high && r->high < largest ? r->high : largest;
    if (low > high || low > largest || high < -largest)
        return builder_never(b);
    grammar_rule rule = signed_between(b, low, high);
    if (r->multiple_of <= 1)
        return rule;
    automaton multiples;
    if (!multiples_of(r->multiple_of, &multiples)) {
        automaton_free(&multiples);
        return builder_fail(b, ERR_MEMORY, "grammar: out of memory");
    }
    return both(b, rule, &multiples);
}

/* ---- decimals ---- */

typedef struct {
    char text[64];
    uint64_t whole;
    const char *fraction; /* without zeros at its end */
    uint32_t digits;      /* of the fraction */
} decimal;

/* False: too large, or too fine to be compared exactly. */
static bool to_decimal(double value, decimal *out)
{
    if (!(value >= 0) || value >= 1e15)
        return false;
    for (int precision = 0; precision <= 25; precision++) {
        snprintf(out->text, sizeof out->text, "%.*f", precision, value);
        if (strtod(out->text, NULL) == value) {
            char *point = strchr(out->text, '.');
            out->whole = strtoull(out->text, NULL, 10);
            out->fraction = point ? point + 1 : "";
            out->digits = (uint32_t)strlen(out->fraction);
            while (out->digits && out->fraction[out->digits - 1] == '0')
                out->digits--;
            return true;
        }
    }
    return false;
}

static grammar_rule any_digits(grammar_builder *b)
{
    return digits(b, '0', '9', 0, FRACTION_MAX);
}

static grammar_rule not_zero(grammar_builder *b) /* digits of which one is not 0 */
{
    return grammar_sequence(
        b, (grammar_rule[]){digits(b, '0', '0', 0, FRACTION_MAX), digits(b, '1', '9', 1, 1), any_digits(b)}, 3);
}

/* "" or ".ddd", at least (or above) 0.fraction. */
static grammar_rule fraction_from(grammar_builder *b, const decimal *d, bool exclusive)
{
    grammar_rule point = builder_string(b, ".");
    if (!d->digits)
        return exclusive ? builder_pair(b, point, not_zero(b))
                         : builder_optional(b, builder_pair(b, point, digits(b, '0', '9', 1, FRACTION_MAX)));
    grammar_rule rule = exclusive ? not_zero(b) : any_digits(b);
    for (uint32_t i = d->digits; i-- > 0;) {
        int c = d->fraction[i];
        rule = builder_either(b, builder_pair(b, digits(b, c, c, 1, 1), rule),
                              builder_pair(b, digits(b, c + 1, '9', 1, 1), any_digits(b)));
    }
    return builder_pair(b, point, rule);
}

static grammar_rule fraction_upto(grammar_builder *b, const decimal *d, bool exclusive)
{
    grammar_rule point = builder_string(b, ".");
    if (!d->digits)
        return exclusive ? builder_never(b)
                         : builder_optional(b, builder_pair(b, point, digits(b, '0', '0', 1, FRACTION_MAX)));
    grammar_rule rule = exclusive ? builder_never(b) : digits(b, '0', '0', 0, FRACTION_MAX);
    for (uint32_t i = d->digits; i-- > 0;) {
        int c = d->fraction[i];
        if (i + 1 < d->digits)
            rule = builder_either(b, rule, builder_empty(b)); /* it may stop short: then it is less */
        rule = builder_either(b, builder_pair(b, digits(b, c, c, 1, 1), rule),
                              builder_pair(b, digits(b, '0', c - 1, 1, 1), any_digits(b)));
    }
    return builder_optional(b, builder_pair(b, point, rule));
}

static grammar_rule any_fraction(grammar_builder *b)
{
    return builder_optional(b, builder_pair(b, builder_string(b, "."), digits(b, '0', '9', 1, FRACTION_MAX)));
}

static grammar_rule magnitude_from(grammar_builder *b, const decimal *d, bool exclusive)
{
    grammar_rule same = builder_pair(b, whole_between(b, d->whole, d->whole), fraction_from(b, d, exclusive));
    grammar_rule more = builder_pair(b, whole_between(b, d->whole + 1, 999999999999999), any_fraction(b));
    return d->whole + 1 > 999999999999999 ? same : builder_either(b, same, more);
}

static grammar_rule magnitude_upto(grammar_builder *b, const decimal *d, bool exclusive)
{
    grammar_rule same = builder_pair(b, whole_between(b, d->whole, d->whole), fraction_upto(b, d, exclusive));
    if (!d->whole)
        return same;
    return builder_either(b, same, builder_pair(b, whole_between(b, 0, d->whole - 1), any_fraction(b)));
}

/* Numbers without a sign, both bounds >= 0. The digits behind the point are so few that different texts are different
 * numbers to a reader who takes doubles. */
static grammar_rule magnitude_between(grammar_builder *b, number_bound low, number_bound high)
{
    decimal from, to;
    if ((low.present && !to_decimal(low.value, &from)) || (high.present && !to_decimal(high.value, &to)))
        return builder_fail(b, ERR_UNSUPPORTED, "minimum and maximum must be below 1e15 and have few digits");
    uint64_t largest_whole = low.present ? from.whole : 0;
    largest_whole = high.present && to.whole > largest_whole ? to.whole : largest_whole;
    uint32_t whole_digits = (uint32_t)snprintf(NULL, 0, "%llu", (unsigned long long)largest_whole);
    uint32_t fraction = whole_digits < EXACT_DIGITS ? EXACT_DIGITS - whole_digits : 0;
    fraction = fraction < FRACTION_MAX ? fraction : FRACTION_MAX;
    grammar_rule whole = builder_pair(
        b,
        builder_either(b, builder_string(b, "0"),
                       builder_pair(b, digits(b, '1', '9', 1, 1), digits(b, '0', '9', 0, 14))),
        fraction ? builder_optional(b, builder_pair(b, builder_string(b, "."), digits(b, '0', '9', 1, fraction)))
                 : builder_empty(b));
    automaton other;
    if (high.present && regular_of(b, magnitude_upto(b, &to, high.exclusive), &other))
        whole = both(b, whole, &other);
    if (low.present && regular_of(b, magnitude_from(b, &from, low.exclusive), &other))
        whole = both(b, whole, &other);
    return whole;
}

grammar_rule number_rule(grammar_builder *b, number_bound low, number_bound high)
{
    grammar_rule ways[2];
    uint32_t count = 0;
    const number_bound none = {0}, zero = {.present = true, .exclusive = false};
    if (low.present && high.present &&
        (low.value > high.value || (low.value == high.value && (low.exclusive || high.exclusive))))
        return builder_never(b);
    if (!high.present || high.value > 0 || (high.value == 0 && !high.exclusive))
        ways[count++] = magnitude_between(b, low.present && low.value >= 0 ? low : none, high);
    if (!low.present || low.value < 0) {
        number_bound least = zero, most = low;
        most.value = -low.value;
        if (high.present && high.value <= 0) {
            least = high;
            least.value = -high.value;
        }
        ways[count++] = builder_pair(b, builder_string(b, "-"), magnitude_between(b, least, most));
    }
    return grammar_choice(b, ways, count);
}
