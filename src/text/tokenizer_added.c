/* text/tokenizer_added.c: a sorted array of texts, narrowed byte by byte. */
#include "text/tokenizer_added.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "text/tokenizer_utf8.h"

bool added_set_add(added_set *set, const added_token *token)
{
    if (token->text.size == 0)
        return true;
    if (set->count == set->capacity) {
        uint32_t wanted = set->capacity ? set->capacity * 2 : 64;
        added_token *grown = realloc(set->tokens, wanted * sizeof *grown);
        if (!grown)
            return false;
        set->tokens = grown;
        set->capacity = wanted;
    }
    char *copy = malloc(token->text.size);
    if (!copy)
        return false;
    memcpy(copy, token->text.data, token->text.size);
    set->tokens[set->count] = *token;
    set->tokens[set->count++].text.data = copy;
    return true;
}

typedef struct {
    added_token token;
    uint32_t order;
} sorted_token;

static int by_text(const void *a, const void *b)
{
    const sorted_token *x = a, *y = b;
    size_t common = x->token.text.size < y->token.text.size ? x->token.text.size : y->token.text.size;
    int c = memcmp(x->token.text.data, y->token.text.data, common);
    if (c)
        return c;
    if (x->token.text.size != y->token.text.size)
        return x->token.text.size < y->token.text.size ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static void sort_tokens(added_set *set)
{
    sorted_token *list = malloc((set->count ? set->count : 1) * sizeof *list);
    if (!list) { /* slow and sure */
        for (uint32_t i = 1; i < set->count; i++)
            for (uint32_t j = i; j > 0; j--) {
                sorted_token a = {set->tokens[j - 1], 0}, b = {set->tokens[j], 1};
                if (by_text(&a, &b) < 0)
                    break;
                set->tokens[j - 1] = b.token;
                set->tokens[j] = a.token;
            }
        return;
    }
    for (uint32_t i = 0; i < set->count; i++)
        list[i] = (sorted_token){set->tokens[i], i};
    qsort(list, set->count, sizeof *list, by_text);
    for (uint32_t i = 0; i < set->count; i++)
        set->tokens[i] = list[i].token;
    free(list);
}

void added_set_seal(added_set *set)
{
    sort_tokens(set);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (kept && span_equal(set->tokens[kept - 1].text, set->tokens[i].text))
            free((char *)set->tokens[i].text.data);
        else
            set->tokens[kept++] = set->tokens[i];
    }
    set->count = kept;
    uint32_t at = 0;
    for (unsigned b = 0; b < 256; b++) {
        set->first[b] = at;
        while (at < kept && (unsigned char)set->tokens[at].text.data[0] == b)
            at++;
    }
    set->first[256] = at;
}

void added_set_free(added_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        free((char *)set->tokens[i].text.data);
    free(set->tokens);
    *set = (added_set){0};
}

size_t added_set_candidate(const added_set *set, span text, size_t at)
{
    if (set->count == 0)
        return text.size;
    while (at < text.size) {
        unsigned b = (unsigned char)text.data[at];
        if (set->first[b] != set->first[b + 1])
            break;
        at++;
    }
    return at;
}

/* In [low, high) all texts agree on their first `depth` bytes: the first index whose byte there is >= `byte`. A text
 * that ends at `depth` sorts first. */
static uint32_t lower(const added_set *set, uint32_t low, uint32_t high, size_t depth, int byte)
{
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        span t = set->tokens[mid].text;
        int there = t.size > depth ? (unsigned char)t.data[depth] : -1;
        if (there < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const added_token *added_set_longest(const added_set *set, span text, size_t at, size_t end)
{
    if (set->count == 0 || at >= end)
        return NULL;
    unsigned b = (unsigned char)text.data[at];
    uint32_t low = set->first[b], high = set->first[b + 1];
    const added_token *best = NULL;
    for (size_t depth = 1; low < high; depth++) {
        if (set->tokens[low].text.size == depth)
            best = &set->tokens[low];
        if (at + depth >= end)
            break;
        int byte = (unsigned char)text.data[at + depth];
        low = lower(set, low, high, depth, byte);
        high = lower(set, low, high, depth, byte + 1);
    }
    return best;
}

bool added_is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
           code == 0x3000;
}

static bool is_word(uint32_t code)
{
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default: /* circled letters and the two joiners count as well */
        return (code >= 0x24B6 && code <= 0x24E9) || code == 0x200C || code == 0x200D;
    }
}

bool added_word_before(span text, size_t at)
{
    if (at == 0)
        return false;
    do
        at--;
    while (at && ((unsigned char)text.data[at] & 0xC0) == 0x80);
    return is_word(utf8_code(text.data + at));
}

bool added_word_after(span text, size_t at)
{
    return at < text.size && is_word(utf8_code(text.data + at));
}
