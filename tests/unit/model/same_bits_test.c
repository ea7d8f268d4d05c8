/* tests/unit/model/same_bits_test.c: a row's logits are the same bits alone, in any batch, any chunking, at any yield,
 * on any pages, on one thread or two. Random schedules advance several sequences through two batches that take turns op
 * by op (a yield at any row block); every row is compared with the logits of its sequence run alone, whole, on one
 * thread. Where the model keeps a state, it is saved at random tokens and put back later, into another slot. */
#include "fixture.h"

#include "base/rng.h"
#include "tensor/kv_type.h"

enum {
    SEQUENCES = 5,
    TOKENS = 500,
    PAGES_EACH = TOKENS / KV_PAGE_TOKENS + 1,
    POOL = SEQUENCES * PAGES_EACH,
    STATE_PAGES_MAX = 16, /* of q4 */
    BATCHES = 2,
    ROWS_MAX = 320
};

typedef struct {
    int32_t tokens[TOKENS];
    uint32_t count, done;
    bool busy; /* in a batch now */
    uint32_t pages[PAGES_EACH];
    float *reference; /* (count, vocab) */
    uint32_t slot, saved_at;
    uint32_t saved[STATE_PAGES_MAX]; /* pages: state after saved_at tokens */
    bool has_saved;
} sequence;

typedef struct {
    batch *batch;
    bool running;
    uint32_t members[SEQUENCES], member_count;
} lane;

static void compute_references(const char *path, kv_type stored, sequence *sequences, uint32_t *vocab)
{
    fixture f;
    error err;
    batch *b;
    uint32_t pages[PAGES_EACH];
    fixture_open_kv(&f, path, 1, PAGES_EACH, stored);
    *vocab = f.model->config.vocab;
    assert_int_equal(batch_create(&b, f.model, TOKENS, 1, &err), OK);
    rng r = {99};
    for (uint32_t i = 0; i < PAGES_EACH; i++)
        pages[i] = i;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        sequence *q = &sequences[s];
        q->count = s == 0 ? TOKENS : 1 + (uint32_t)rng_below(&r, 200);
        for (uint32_t i = 0; i < q->count; i++)
            q->tokens[i] = (int32_t)rng_below(&r, *vocab);
        q->reference = malloc((size_t)q->count * *vocab * sizeof *q->reference);
        batch_start(b, f.cache, f.states);
        batch_add(b, s, pages, 0, q->tokens, q->count);
        while (!batch_advance(f.model, b))
            ;
        fixture_logits(&f, b, q->reference);
    }
    batch_destroy(f.model, b);
    fixture_close(&f);
}

static void shuffle_pages(sequence *sequences, rng *r)
{
    uint32_t ids[POOL];
    for (uint32_t i = 0; i < POOL; i++)
        ids[i] = i;
    for (uint32_t i = POOL - 1; i > 0; i--) {
        uint32_t j = (uint32_t)rng_below(r, i + 1), t = ids[i];
        ids[i] = ids[j];
        ids[j] = t;
    }
    for (uint32_t i = 0; i < POOL; i++)
        sequences[i / PAGES_EACH].pages[i % PAGES_EACH] = ids[i];
}

/* A random mix of decode rows and chunks of the sequences that are not in the other batch. */
static void fill_lane(const fixture *f, lane *l, sequence *sequences, rng *r)
{
    static const uint32_t sizes[] = {1, 1, 1, 2, 3, 5, 8, 17, 31, 32, 33, 64, 100, 256, 300};
    batch_start(l->batch, f->cache, f->states);
    l->member_count = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        sequence *q = &sequences[s];
        if (q->busy || q->done == q->count || rng_below(r, 3) == 0)
            continue;
        uint32_t n = sizes[rng_below(r, sizeof sizes / sizeof *sizes)], left = q->count - q->done;
        n = n < left ? n : left;
        if (l->batch->rows + n > ROWS_MAX)
            continue;
        batch_add(l->batch, q->slot, q->pages, q->done, q->tokens + q->done, n);
        q->busy = true;
        l->members[l->member_count++] = s;
    }
    l->running = l->member_count > 0;
}

/* Differing logits of a finished batch. */
static uint64_t compare_lane(const fixture *f, lane *l, sequence *sequences, float *got)
{
    uint64_t differing = 0;
    uint32_t vocab = f->model->config.vocab;
    fixture_logits(f, l->batch, got);
    for (uint32_t i = 0; i < l->member_count; i++) {
        sequence *q = &sequences[l->members[i]];
        const batch_segment *g = &l->batch->segments[i];
        const float *want = q->reference + (size_t)g->position * vocab, *have = got + (size_t)g->row_start * vocab;
        for (size_t k = 0; k < (size_t)g->row_count * vocab; k++)
            differing += memcmp(&want[k], &have[k], sizeof want[k]) != 0;
        q->done += g->row_count;
        q->busy = false;
    }
    l->running = false;
    return differing;
}

static uint32_t free_slot(const sequence *sequences, rng *r)
{
    for (;;) {
        uint32_t slot = (uint32_t)rng_below(r, FIXTURE_SLOTS), taken = 0;
        for (uint32_t s = 0; s < SEQUENCES; s++)
            taken += sequences[s].slot == slot;
        if (!taken)
            return slot;
    }
}

static size_t page_bytes(const fixture *f)
{
    kv_cache_config kv = model_kv_config(f->model, f->page_count);
    return f->device->ops->kv_page_bytes(&kv);
}

/* Saves the state of a resting sequence, or goes back to what was saved, in another slot; the old one gets rubbish. */
static void checkpoint(const fixture *f, sequence *sequences, rng *r, uint32_t *restored)
{
    sequence *q = &sequences[rng_below(r, SEQUENCES)];
    const backend_ops *ops = f->device->ops;
    state_config one = model_state_config(f->model, 1);
    if (!one.layers || q->busy || !q->done)
        return;
    if (!q->has_saved || rng_below(r, 2)) {
        ops->state_save(f->device, f->states, q->slot, f->cache, q->saved);
        q->saved_at = q->done;
        q->has_saved = true;
        return;
    }
    uint32_t rubbish[STATE_PAGES_MAX];
    for (uint32_t i = 0; i < STATE_PAGES_MAX; i++) {
        rubbish[i] = POOL + SEQUENCES * STATE_PAGES_MAX + i;
        memset(ops->kv_page_at(f->device, f->cache, rubbish[i]), 0x7f, page_bytes(f));
    }
    ops->state_load(f->device, f->states, q->slot, f->cache, rubbish);
    q->slot = free_slot(sequences, r);
    ops->state_load(f->device, f->states, q->slot, f->cache, q->saved);
    q->done = q->saved_at;
    q->has_saved = false; /* so that it comes to an end */
    ++*restored;
}

static uint64_t run_schedule(const fixture *f, lane *lanes, sequence *sequences, float *got, rng *r, uint32_t *restored)
{
    uint64_t differing = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        sequences[s].done = 0;
        sequences[s].slot = s;
        sequences[s].has_saved = false;
    }
    shuffle_pages(sequences, r);
    for (;;) {
        uint32_t unfinished = 0, turn = (uint32_t)rng_below(r, BATCHES);
        for (uint32_t s = 0; s < SEQUENCES; s++)
            unfinished += sequences[s].done < sequences[s].count;
        if (!unfinished)
            return differing;
        lane *l = &lanes[turn];
        if (rng_below(r, 4) == 0)
            checkpoint(f, sequences, r, restored);
        if (!l->running)
            fill_lane(f, l, sequences, r);
        for (uint32_t ops = 1 + (uint32_t)rng_below(r, 9); l->running && ops > 0; ops--)
            if (batch_advance(f->model, l->batch))
                differing += compare_lane(f, l, sequences, got);
    }
}

static void run_stored(const char *path, kv_type stored, uint32_t count)
{
    static sequence sequences[SEQUENCES];
    uint32_t vocab, restored = 0;
    uint64_t differing = 0;
    error err;
    compute_references(path, stored, sequences, &vocab);
    float *got = malloc((size_t)ROWS_MAX * vocab * sizeof *got);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        fixture f;
        lane lanes[BATCHES] = {0};
        fixture_open_kv(&f, path, threads, POOL + (SEQUENCES + 1) * STATE_PAGES_MAX, stored);
        state_config one = model_state_config(f.model, 1);
        assert_true(!one.layers || f.device->ops->state_bytes(&one) <= STATE_PAGES_MAX * page_bytes(&f));
        for (uint32_t i = 0; i < SEQUENCES * STATE_PAGES_MAX; i++)
            sequences[i / STATE_PAGES_MAX].saved[i % STATE_PAGES_MAX] = POOL + i;
        for (uint32_t i = 0; i < BATCHES; i++)
            assert_int_equal(batch_create(&lanes[i].batch, f.model, ROWS_MAX, SEQUENCES, &err), OK);
        if (threads == 2) /* so that a chunk has several */
            f.model->row_block = 48, f.model->slice_flops = 2e5;
        rng r = {threads};
        for (uint32_t i = 0; i < count / 2; i++)
            differing += run_schedule(&f, lanes, sequences, got, &r, &restored);
        for (uint32_t i = 0; i < BATCHES; i++)
            batch_destroy(f.model, lanes[i].batch);
        fixture_close(&f);
    }
    printf("%s, KV %s: %u schedules, %u states put back, %llu differing logits\n", path, kv_type_name(stored),
           count / 2 * 2, restored, (unsigned long long)differing);
    assert_int_equal(differing, 0);
    free(got);
    for (uint32_t s = 0; s < SEQUENCES; s++)
        free(sequences[s].reference);
}

/* All of them with f16, a fifth with each type of codes. */
static void run_schedules(const char *path, uint32_t count)
{
    run_stored(path, KV_F16, count);
    run_stored(path, KV_Q8, (count + 9) / 10 * 2);
    run_stored(path, KV_Q4, (count + 9) / 10 * 2);
}

static uint32_t schedule_count(uint32_t fallback)
{
    const char *text = getenv("HEADWAY_SCHEDULES");
    return text ? (uint32_t)strtoul(text, NULL, 10) : fallback;
}

static void llama_gives_the_same_bits_in_every_schedule(void **state)
{
    (void)state;
    run_schedules(VECTORS "llama.gguf", schedule_count(500));
}

static void sliding_windows_give_the_same_bits_in_every_schedule(void **state)
{
    (void)state;
    run_schedules(VECTORS "gemma3.gguf", schedule_count(500));
}

static void experts_and_states_give_the_same_bits_in_every_schedule(void **state)
{
    (void)state;
    run_schedules(HYBRIDS "qwen35moe.gguf", schedule_count(500));
}

static void the_default_model_gives_the_same_bits_in_every_schedule(void **state)
{
    (void)state;
    char path[512];
    const char *home = getenv("HOME"), *cache = getenv("XDG_CACHE_HOME");
    snprintf(path, sizeof path, "%s%s/headway/models/SmolLM2-135M-Instruct.Q4_1.gguf",
             cache  ? cache
             : home ? home
                    : "",
             cache ? "" : "/.cache");
    if (access(path, R_OK)) {
        printf("skipped: the default model is not in the cache\n");
        skip();
    }
    run_schedules(path, getenv("HEADWAY_SCHEDULES") ? schedule_count(0) : 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_gives_the_same_bits_in_every_schedule),
        cmocka_unit_test(sliding_windows_give_the_same_bits_in_every_schedule),
        cmocka_unit_test(experts_and_states_give_the_same_bits_in_every_schedule),
        cmocka_unit_test(the_default_model_gives_the_same_bits_in_every_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
