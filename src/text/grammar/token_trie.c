/* text/grammar/token_trie.c: sorted tokens, and the tree that their common beginnings are. */
#include "text/grammar/token_trie.h"

#include <stdlib.h>

typedef struct {
    span bytes;
    uint32_t token;
} sorted_token;

static int by_bytes(const void *a, const void *b)
{
    const sorted_token *x = a, *y = b;
    size_t common = x->bytes.size < y->bytes.size ? x->bytes.size : y->bytes.size;
    int order = memcmp(x->bytes.data, y->bytes.data, common);
    if (order)
        return order;
    if (x->bytes.size != y->bytes.size)
        return x->bytes.size < y->bytes.size ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

static status collect_bytes(token_trie *out, const tokenizer *t)
{
    buf bytes = {0};
    uint32_t known = tokenizer_vocab_size(t);
    for (uint32_t i = 0; i < out->vocab; i++) {
        out->offsets[i] = (uint32_t)bytes.size;
        if (i < known && !tokenizer_is_eog(t, (token_id)i))
            tokenizer_token_bytes(t, (token_id)i, &bytes);
        uint32_t size = (uint32_t)bytes.size - out->offsets[i];
        if (size > TOKEN_BYTES_MAX) {
            bytes.size = out->offsets[i];
            size = 0;
        }
        out->longest = size > out->longest ? size : out->longest;
    }
    out->offsets[out->vocab] = (uint32_t)bytes.size;
    out->bytes = bytes.data;
    return bytes.failed ? ERR_MEMORY : OK;
}

static size_t common_size(span a, span b)
{
    size_t i = 0;
    while (i < a.size && i < b.size && a.data[i] == b.data[i])
        i++;
    return i;
}

/* `path`: (longest) the nodes above, scratch. */
static void build_nodes(token_trie *out, const sorted_token *sorted, uint32_t count, uint32_t *path)
{
    size_t depth = 0;
    for (uint32_t i = 0; i < count; i++) {
        span bytes = sorted[i].bytes;
        size_t common = i ? common_size(sorted[i - 1].bytes, bytes) : 0;
        while (depth > common)
            out->nodes[path[--depth]].skip = out->node_count;
        while (depth < bytes.size) {
            out->nodes[out->node_count] = (trie_node){.byte = (uint8_t)bytes.data[depth], .first = i};
            path[depth++] = out->node_count++;
        }
        out->tokens[i] = sorted[i].token;
        out->nodes[path[depth - 1]].count++;
    }
    while (depth > 0)
        out->nodes[path[--depth]].skip = out->node_count;
}

static status build(token_trie *out)
{
    sorted_token *sorted = malloc((out->vocab + 1) * sizeof *sorted);
    uint32_t *path = malloc((out->longest + 1) * sizeof *path), count = 0;
    out->tokens = malloc((out->vocab + 1) * sizeof *out->tokens);
    out->nodes = malloc((out->offsets[out->vocab] + 1) * sizeof *out->nodes);
    bool ok = sorted && path && out->tokens && out->nodes;
    for (uint32_t i = 0; ok && i < out->vocab; i++) {
        span bytes = token_trie_bytes(out, (int32_t)i);
        if (bytes.size)
            sorted[count++] = (sorted_token){bytes, i};
    }
    if (ok && count) {
        qsort(sorted, count, sizeof *sorted, by_bytes);
        build_nodes(out, sorted, count, path);
        trie_node *fitted = realloc(out->nodes, (out->node_count + 1) * sizeof *fitted);
        out->nodes = fitted ? fitted : out->nodes;
    }
    free(sorted);
    free(path);
    return ok ? OK : ERR_MEMORY;
}

status token_trie_init(token_trie *out, const tokenizer *t, uint32_t vocab, error *err)
{
    *out = (token_trie){.vocab = vocab, .drops_space = tokenizer_drops_first_space(t)};
    out->offsets = malloc((vocab + 1) * sizeof *out->offsets);
    if (!out->offsets || collect_bytes(out, t) || build(out)) {
        token_trie_free(out);
        return error_set(err, ERR_MEMORY, "token masks: no memory for %u tokens", vocab);
    }
    return OK;
}

void token_trie_free(token_trie *t)
{
    free(t->nodes);
    free(t->tokens);
    free(t->offsets);
    free(t->bytes);
    *t = (token_trie){0};
}
