/* tests/unit/kv/prefix_cache_test.c: what is found, who sees it, and thousands of random operations against a plain
 * list of paths. */
#include "prefix_fixture.h"

static void lends_what_was_computed(void **state)
{
    (void)state;
    fixture f = fixture_open(64, (prefix_cache_config){.page_tokens = 4});
    int32_t text[40];
    fill_text(text, 40, 1);
    assert_int_equal(request_run(&f, 1, 0, text, 18, 0), 0);
    assert_int_equal(prefix_cache_read_counts(f.cache).nodes, 4);
    prefix_match match = prefix_cache_find(f.cache, 1, text, 40, 9);
    assert_int_equal(match.pages, 4);
    assert_int_equal(match.usable, 4);
    assert_int_equal(match.differs_at, 16); /* the rest of the last page was not kept */
    assert_true(match.line_end);
    assert_int_equal(prefix_cache_find(f.cache, 1, text, 16, 3).usable, 3); /* a token is left to compute */
    assert_int_equal(page_pool_read_counts(f.pool).idle, 4);
    sequence *s = sequence_open(&f, 1, 0, text, 40);
    assert_int_equal(s->hit, 4);
    assert_int_equal(page_pool_read_counts(f.pool).idle, 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(page_pool_holders(f.pool, s->pages[i]), 2);
    sequence_close(&f, s, false);
    fixture_close(&f);
}

static void says_the_first_token_that_differs(void **state)
{
    (void)state;
    fixture f = fixture_open(64, (prefix_cache_config){.page_tokens = 4});
    int32_t text[20], other[20];
    fill_text(text, 20, 1);
    assert_int_equal(prefix_cache_find(f.cache, 1, text, 20, 5).differs_at, 0);
    request_run(&f, 1, 0, text, 20, 0);
    for (uint32_t at = 0; at < 20; at++) {
        memcpy(other, text, sizeof text);
        other[at] = -1;
        prefix_match match = prefix_cache_find(f.cache, 1, other, 20, 5);
        assert_int_equal(match.differs_at, at);
        assert_int_equal(match.pages, at / 4);
    }
    assert_int_equal(prefix_cache_find(f.cache, 1, text, 20, 5).differs_at, 20);
    assert_int_equal(prefix_cache_find(f.cache, 1, text, 18, 4).differs_at, 18);
    fixture_close(&f);
}

static void spaces_do_not_see_each_other(void **state)
{
    (void)state;
    fixture f = fixture_open(64, (prefix_cache_config){.page_tokens = 4});
    int32_t text[20];
    fill_text(text, 20, 1);
    request_run(&f, 1, 0, text, 20, 0);
    for (uint64_t space = 2; space < 100; space++) {
        prefix_match match = prefix_cache_find(f.cache, space, text, 20, 5);
        assert_int_equal(match.pages + match.usable + match.differs_at, 0);
    }
    assert_int_equal(request_run(&f, 2, 1, text, 20, 0), 0);
    assert_int_equal(prefix_cache_read_counts(f.cache).nodes, 10);
    assert_int_equal(prefix_cache_owner_pages(f.cache, 0), 5);
    assert_int_equal(prefix_cache_owner_pages(f.cache, 1), 5);
    fixture_close(&f);
}

static void keys_name_the_path(void **state)
{
    (void)state;
    int32_t text[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    prefix_key root = prefix_key_root(7), other = prefix_key_root(8);
    prefix_key a = prefix_key_next(prefix_key_next(root, text, 4), text + 4, 4);
    prefix_key b = prefix_key_next(prefix_key_next(other, text, 4), text + 4, 4);
    prefix_key c = prefix_key_next(prefix_key_next(root, text + 4, 4), text, 4);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_memory_not_equal(&a, &c, sizeof a);
    prefix_key again = prefix_key_next(prefix_key_next(prefix_key_root(7), text, 4), text + 4, 4);
    assert_memory_equal(&a, &again, sizeof a);
    prefix_key s0 = prefix_key_state(a, 0), s1 = prefix_key_state(a, 1);
    assert_memory_not_equal(&s0, &s1, sizeof s0);
    assert_memory_not_equal(&s0, &a, sizeof s0);
}

static void the_second_of_two_equal_pages_is_not_kept(void **state)
{
    (void)state;
    fixture f = fixture_open(64, (prefix_cache_config){.page_tokens = 4});
    int32_t text[20];
    fill_text(text, 20, 1);
    sequence *a = sequence_open(&f, 1, 0, text, 20), *b = sequence_open(&f, 1, 0, text, 20);
    sequence_compute(&f, a, text, 20, 0);
    sequence_compute(&f, b, text, 20, 0);
    assert_ptr_equal(a->cursor.node, b->cursor.node);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(page_pool_holders(f.pool, a->pages[i]), 2);
        assert_int_equal(page_pool_holders(f.pool, b->pages[i]), 1);
    }
    sequence_close(&f, a, true);
    sequence_close(&f, b, true);
    assert_int_equal(free_pages(&f), 64 - 5);
    fixture_close(&f);
}

static void an_edit_costs_the_edited_turn(void **state)
{
    (void)state;
    for (uint32_t state_pages = 0; state_pages <= 3; state_pages += 3) {
        fixture f = fixture_open(600, (prefix_cache_config){.state_pages = state_pages});
        static int32_t text[3200], edited[3200];
        fill_text(text, 3200, 5);
        for (uint32_t turn = 1; turn <= 8; turn++) /* turns of 400 tokens: 12.5 pages */
            assert_int_equal(request_run(&f, 1, 0, text, turn * 400, 0), (turn - 1) * 400 / 32);
        memcpy(edited, text, sizeof text);
        edited[4 * 400 + 7] = -1; /* the fifth turn's own words */
        prefix_match match = prefix_cache_find(f.cache, 1, edited, 5 * 400, 5 * 400 / 32);
        assert_int_equal(match.differs_at, 4 * 400 + 7);
        assert_true(5 * 400 - match.usable * 32 <= 400 + 32);
        assert_true(match.usable == 50 && match.line_end);
        assert_int_equal(request_run(&f, 1, 0, edited, 2000, 0), 50);
        assert_int_equal(usable_pages(&f, 1, text, 3200), 100); /* the other branch is still there */
        fixture_close(&f);
    }
}

static void a_state_is_needed_to_start(void **state)
{
    (void)state;
    fixture f = fixture_open(100, (prefix_cache_config){.page_tokens = 4, .state_pages = 2});
    int32_t text[60];
    fill_text(text, 60, 1);
    sequence *s = sequence_open(&f, 1, 0, text, 60);
    sequence_compute(&f, s, text, 60, 0);
    prefix_match match = prefix_cache_find(f.cache, 1, text, 60, 15);
    assert_int_equal(match.pages, 15);
    assert_int_equal(match.usable, 0);
    sequence_close(&f, s, false);
    s = sequence_open(&f, 1, 0, text, 60);
    sequence_compute(&f, s, text, 60, 6); /* finds all the pages, and puts checkpoints at 6 and 12 */
    sequence_close(&f, s, true);
    assert_int_equal(prefix_cache_read_counts(f.cache).nodes, 15);
    assert_int_equal(prefix_cache_read_counts(f.cache).state_checkpoints, 2);
    assert_int_equal(prefix_cache_find(f.cache, 1, text, 60, 14).usable, 12);
    assert_int_equal(prefix_cache_find(f.cache, 1, text, 60, 11).usable, 6);
    assert_int_equal(free_pages(&f), 100 - 15 - 4);
    fixture_close(&f);
}

static void a_turn_continues_a_line(void **state)
{
    (void)state;
    fixture f = fixture_open(400, (prefix_cache_config){.page_tokens = 4});
    static int32_t text[400], document[80];
    prefix_line lines[8];
    fill_text(text, 400, 1);
    for (uint32_t turn = 1; turn <= 5; turn++)
        request_run(&f, 1, 3, text, turn * 50, 0);
    fill_text(document, 80, 2);
    request_run(&f, 1, 4, document, 80, 0);
    assert_int_equal(prefix_cache_lines(f.cache, lines, 8), 2);
    assert_int_equal(lines[0].owner, 4);
    assert_int_equal(lines[0].uses, 0);
    assert_int_equal(lines[1].owner, 3);
    assert_int_equal(lines[1].tokens, 248);
    assert_int_equal(lines[1].pages_here, 62);
    assert_int_equal(lines[1].uses, 4);
    assert_int_equal(prefix_cache_lines(f.cache, lines, 1), 1);
    prefix_cache_make_room(f.cache, 400, 0, f.now_us);
    assert_int_equal(prefix_cache_lines(f.cache, lines, 8), 2);
    assert_int_equal(lines[1].pages_here, 0);
    request_run(&f, 1, 3, text, 300, 0); /* it comes back, and is the same line */
    assert_int_equal(prefix_cache_lines(f.cache, lines, 8), 2);
    assert_int_equal(lines[0].pages_here, 75);
    assert_int_equal(lines[0].uses, 5);
    for (uint32_t i = 0; i < 2000; i++) { /* bounded */
        fill_text(document, 8, 100 + i);
        request_run(&f, 1, 4, document, 8, 0);
    }
    assert_int_equal(prefix_cache_read_counts(f.cache).lines, PREFIX_LINES_MAX * 4);
    fixture_close(&f);
}

static void refuses_what_makes_no_sense(void **state)
{
    (void)state;
    page_pool *pool;
    prefix_cache *cache;
    error err = {""};
    assert_int_equal(page_pool_create(&pool, &(page_pool_config){.page_count = 4}, NULL), OK);
    assert_int_equal(prefix_cache_create(&cache, &(prefix_cache_config){.pool = pool}, &err), ERR_INVALID);
    assert_true(err.text[0]);
    prefix_cache_destroy(NULL);
    page_pool_destroy(pool);
}

/* The model: every path that is in the tree, as a plain list. Few tokens and tiny pages, so that paths meet all the
 * time. What the cache gives up is read off the pool: only the tree held those pages. */
enum { PAGE_TOKENS = 2, PATH_MAX_PAGES = 12, POOL_PAGES = 70, SEQUENCES = 6, OWNERS = 4, STATE_PAGES = 2 };

typedef struct {
    uint64_t space;
    uint32_t owner, depth;
    int32_t tokens[PAGE_TOKENS * PATH_MAX_PAGES];
    page_id page;
    bool has_state;
    page_id state[STATE_PAGES];
} path;

typedef struct {
    bool open, dead;
    uint64_t space;
    int32_t tokens[PAGE_TOKENS * PATH_MAX_PAGES];
    uint32_t depth;
    page_id pages[PATH_MAX_PAGES];
    prefix_cursor cursor;
} runner;

typedef struct {
    fixture f;
    rng random;
    path paths[POOL_PAGES];
    uint32_t path_count;
    runner runners[SEQUENCES];
    page_id held[POOL_PAGES]; /* shares of somebody else's, a store's */
    uint32_t held_count;
    uint32_t floors[OWNERS];
    uint64_t evictions, finds, hits;
} model;

static uint32_t below(model *m, uint32_t bound)
{
    return (uint32_t)rng_below(&m->random, bound);
}

static bool same_path(const path *p, uint64_t space, const int32_t *tokens, uint32_t depth)
{
    return p->space == space && p->depth == depth &&
           memcmp(p->tokens, tokens, depth * PAGE_TOKENS * sizeof *tokens) == 0;
}

static path *path_of(model *m, uint64_t space, const int32_t *tokens, uint32_t depth)
{
    for (uint32_t i = 0; i < m->path_count; i++)
        if (same_path(&m->paths[i], space, tokens, depth))
            return &m->paths[i];
    return NULL;
}

static bool is_above(const path *a, const path *b)
{
    return a->depth <= b->depth && same_path(a, b->space, b->tokens, a->depth);
}

static uint32_t owned(const model *m, uint32_t owner)
{
    uint32_t pages = 0;
    for (uint32_t i = 0; i < m->path_count; i++)
        if (m->paths[i].owner == owner)
            pages += 1 + (m->paths[i].has_state ? m->f.config.state_pages : 0);
    return pages;
}

/* Takes note of what was given up: those pages are free now. Every path must still hang on what is above it. */
static void note_evictions(model *m)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->path_count; i++) {
        path *p = &m->paths[i];
        if (p->has_state && page_pool_holders(m->f.pool, p->state[0]) == 0)
            p->has_state = false;
        if (page_pool_holders(m->f.pool, p->page) > 0)
            m->paths[kept++] = *p;
        else
            m->evictions++;
    }
    m->path_count = kept;
    for (uint32_t i = 0; i < kept; i++)
        for (uint32_t depth = 1; depth < m->paths[i].depth; depth++)
            assert_non_null(path_of(m, m->paths[i].space, m->paths[i].tokens, depth));
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        const runner *r = &m->runners[i];
        assert_true(!r->open || r->dead || r->depth == 0 || path_of(m, r->space, r->tokens, r->depth));
    }
}

static prefix_match naive_find(model *m, uint64_t space, const int32_t *tokens, uint32_t count, uint32_t pages_max)
{
    prefix_match match = {0};
    for (uint32_t depth = 1; depth <= count / PAGE_TOKENS; depth++) {
        const path *p = path_of(m, space, tokens, depth);
        if (!p)
            break;
        match.pages = depth;
        if (depth <= pages_max && (p->has_state || !m->f.config.state_pages))
            match.usable = depth;
    }
    for (uint32_t depth = 1; depth <= match.usable; depth++)
        match.in_use += page_pool_holders(m->f.pool, path_of(m, space, tokens, depth)->page) > 1;
    for (uint32_t i = 0; i < m->path_count; i++) {
        uint32_t same = 0;
        while (m->paths[i].space == space && same < count && same < m->paths[i].depth * PAGE_TOKENS &&
               m->paths[i].tokens[same] == tokens[same])
            same++;
        match.differs_at = same > match.differs_at ? same : match.differs_at;
    }
    return match;
}

static void act_open(model *m, runner *r)
{
    fixture *f = &m->f;
    uint32_t count = below(m, PAGE_TOKENS * PATH_MAX_PAGES + 1);
    uint32_t pages_max = below(m, PATH_MAX_PAGES + 1);
    *r = (runner){.open = true, .space = below(m, 2)};
    for (uint32_t i = 0; i < PAGE_TOKENS * PATH_MAX_PAGES; i++)
        r->tokens[i] = below(m, 5) == 0;
    prefix_match naive = naive_find(m, r->space, r->tokens, count, pages_max);
    prefix_match match = prefix_cache_find(f->cache, r->space, r->tokens, count, pages_max);
    assert_int_equal(match.pages, naive.pages);
    assert_int_equal(match.usable, naive.usable);
    assert_int_equal(match.differs_at, naive.differs_at);
    assert_int_equal(match.in_use, naive.in_use);
    page_id state[STATE_PAGES];
    r->depth = match.usable ? 1 + below(m, match.usable) : 0;
    bool with_state = below(m, 3) > 0; /* else only the pages are wanted: any of them will do */
    if (!with_state && match.pages)
        r->depth = 1 + below(m, match.pages);
    while (r->depth && f->config.state_pages && with_state && !path_of(m, r->space, r->tokens, r->depth)->has_state)
        r->depth--;
    uint32_t owner = below(m, OWNERS);
    prefix_cache_open(f->cache, &r->cursor, r->space, owner, r->tokens, r->depth, f->now_us, r->pages,
                      with_state ? state : NULL);
    for (uint32_t i = 0; i < r->depth; i++)
        assert_int_equal(r->pages[i], path_of(m, r->space, r->tokens, i + 1)->page);
    for (uint32_t i = 0; r->depth && with_state && i < f->config.state_pages; i++) {
        assert_int_equal(state[i], path_of(m, r->space, r->tokens, r->depth)->state[i]);
        page_pool_release(f->pool, state[i]);
    }
    m->finds++;
    m->hits += match.usable > 0;
}

static bool make_room(model *m, uint32_t owner, uint32_t pages)
{
    uint32_t before[OWNERS], available = prefix_cache_available(m->f.cache, owner);
    for (uint32_t o = 0; o < OWNERS; o++)
        before[o] = owned(m, o);
    assert_true(prefix_cache_spare(m->f.cache, owner) <= available);
    uint32_t free = prefix_cache_make_room(m->f.cache, pages, owner, m->f.now_us);
    note_evictions(m);
    assert_int_equal(free, free_pages(&m->f));
    assert_true(free >= (available < pages ? available : pages));
    for (uint32_t o = 0; o < OWNERS; o++)
        assert_true(o == owner || owned(m, o) == before[o] || owned(m, o) >= m->floors[o]);
    return free >= pages;
}

static bool model_page(model *m, uint32_t owner, page_id *page)
{
    return (free_pages(&m->f) > 0 || make_room(m, owner, 1)) && page_pool_acquire(m->f.pool, page);
}

static void act_extend(model *m, runner *r)
{
    page_id page;
    if (r->depth == PATH_MAX_PAGES || !model_page(m, r->cursor.owner, &page))
        return;
    const int32_t *tokens = r->tokens + r->depth * PAGE_TOKENS;
    assert_true(prefix_cache_extend(m->f.cache, &r->cursor, tokens, page, m->f.now_us));
    r->pages[r->depth++] = page;
    bool there = path_of(m, r->space, r->tokens, r->depth);
    assert_int_equal(page_pool_holders(m->f.pool, page), there || r->dead ? 1 : 2);
    if (there || r->dead)
        return;
    path *p = &m->paths[m->path_count++];
    *p = (path){.space = r->space, .owner = r->cursor.owner, .depth = r->depth, .page = page};
    memcpy(p->tokens, r->tokens, r->depth * PAGE_TOKENS * sizeof *tokens);
}

static void act_put_state(model *m, runner *r)
{
    path *p = r->dead || !r->depth ? NULL : path_of(m, r->space, r->tokens, r->depth);
    if (!m->f.config.state_pages || (!r->depth && !r->dead))
        return;
    assert_int_equal(prefix_cache_has_state(m->f.cache, &r->cursor), r->dead || p->has_state);
    page_id state[STATE_PAGES];
    uint32_t got = 0;
    while (got < m->f.config.state_pages && model_page(m, r->cursor.owner, &state[got]))
        got++;
    p = r->dead ? NULL : path_of(m, r->space, r->tokens, r->depth); /* making room moves the list */
    if (got == m->f.config.state_pages) {
        prefix_cache_put_state(m->f.cache, &r->cursor, state, m->f.now_us);
        if (p && !p->has_state) {
            p->has_state = true;
            memcpy(p->state, state, sizeof state);
        }
    }
    while (got > 0)
        page_pool_release(m->f.pool, state[--got]);
}

static void release_pages(model *m, runner *r)
{
    for (uint32_t i = 0; i < r->depth; i++)
        page_pool_release(m->f.pool, r->pages[i]);
}

static void act_close(model *m, runner *r)
{
    bool first = below(m, 2);
    if (first)
        release_pages(m, r);
    if (first && below(m, 2)) /* the cursor alone keeps the path */
        make_room(m, below(m, OWNERS), POOL_PAGES);
    prefix_cache_close(m->f.cache, &r->cursor, below(m, 2), m->f.now_us);
    if (!first)
        release_pages(m, r);
    r->open = false;
}

static void act_hold_or_release(model *m)
{
    if (m->held_count && below(m, 2)) {
        uint32_t at = below(m, m->held_count);
        page_pool_release(m->f.pool, m->held[at]);
        m->held[at] = m->held[--m->held_count];
    } else if (m->path_count && m->held_count < 10) {
        const path *p = &m->paths[below(m, m->path_count)];
        page_id page = p->has_state && below(m, 2) ? p->state[below(m, STATE_PAGES)] : p->page;
        page_pool_share(m->f.pool, page);
        m->held[m->held_count++] = page;
    }
}

static void act_forget(model *m)
{
    uint32_t first = below(m, OWNERS);
    uint32_t count = 1 + below(m, 2);
    bool gone[POOL_PAGES] = {false};
    for (uint32_t i = 0; i < m->path_count; i++)
        for (uint32_t j = 0; j < m->path_count; j++)
            gone[i] |= is_above(&m->paths[j], &m->paths[i]) && m->paths[j].owner - first < count;
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        runner *r = &m->runners[i];
        const path *p = r->open && !r->dead && r->depth ? path_of(m, r->space, r->tokens, r->depth) : NULL;
        r->dead |= r->open && (r->cursor.owner - first < count || (p && gone[p - m->paths]));
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->path_count; i++)
        if (!gone[i])
            m->paths[kept++] = m->paths[i];
    m->path_count = kept;
    uint32_t before = free_pages(&m->f);
    uint32_t freed = prefix_cache_forget(m->f.cache, first, count);
    assert_int_equal(free_pages(&m->f), before + freed);
    note_evictions(m);
}

static void check_counts(model *m)
{
    prefix_cache_counts counts = prefix_cache_read_counts(m->f.cache);
    uint32_t states = 0;
    for (uint32_t i = 0; i < m->path_count; i++)
        states += m->paths[i].has_state;
    assert_int_equal(counts.nodes, m->path_count);
    assert_int_equal(counts.state_checkpoints, states);
    for (uint32_t o = 0; o < OWNERS; o++)
        assert_int_equal(prefix_cache_owner_pages(m->f.cache, o), owned(m, o));
}

static void act(model *m)
{
    runner *r = &m->runners[below(m, SEQUENCES)];
    uint32_t what = below(m, 100);
    m->f.now_us += below(m, 50);
    if (what < 70 && !r->open) {
        act_open(m, r);
    } else if (what < 45) {
        act_extend(m, r);
    } else if (what < 55) {
        act_put_state(m, r);
    } else if (what < 70) {
        act_close(m, r);
    } else if (what < 80) {
        act_hold_or_release(m);
    } else if (what < 84) {
        uint32_t pages = below(m, POOL_PAGES);
        make_room(m, below(m, OWNERS), pages);
    } else if (what < 88) {
        prefix_cache_trim(m->f.cache, m->f.now_us);
        note_evictions(m);
    } else if (what < 89) {
        act_forget(m);
    } else if (what < 91) {
        m->floors[below(m, OWNERS)] = 0;
        uint32_t o = below(m, OWNERS);
        m->floors[o] = below(m, 24);
        m->floors[o] = m->floors[o] < 12 ? m->floors[o] : 0;
        for (o = 0; o < OWNERS; o++)
            prefix_cache_set_floor(m->f.cache, o, m->floors[o]);
    } else if (what < 92) {
        uint32_t token_us = below(m, 100);
        prefix_cache_set_cost(m->f.cache, token_us, below(m, 3));
    } else {
        check_counts(m);
    }
}

static void model_run(uint64_t seed, prefix_cache_config config)
{
    model *m = calloc(1, sizeof *m);
    config.page_tokens = PAGE_TOKENS;
    m->f = fixture_open(POOL_PAGES, config);
    m->random.state = seed;
    for (uint32_t i = 0; i < 6000; i++)
        act(m);
    assert_true(m->evictions > 100 && m->finds > 500 && m->hits > 20);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        if (m->runners[i].open)
            act_close(m, &m->runners[i]);
    while (m->held_count)
        page_pool_release(m->f.pool, m->held[--m->held_count]);
    prefix_cache_trim(m->f.cache, m->f.now_us);
    note_evictions(m);
    check_counts(m);
    uint32_t in_tree = 0;
    for (uint32_t o = 0; o < OWNERS; o++)
        in_tree += owned(m, o);
    assert_int_equal(free_pages(&m->f), POOL_PAGES - in_tree); /* what was forgotten went when it could */
    for (uint32_t o = 0; o < OWNERS; o++)
        prefix_cache_set_floor(m->f.cache, o, m->floors[o] = 0);
    assert_int_equal(prefix_cache_available(m->f.cache, 0), POOL_PAGES);
    assert_true(make_room(m, 0, POOL_PAGES));
    assert_int_equal(m->path_count, 0);
    assert_int_equal(prefix_cache_spare(m->f.cache, 0), POOL_PAGES);
    fixture_close(&m->f);
    free(m);
}

static void agrees_with_a_plain_list(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        model_run(seed, (prefix_cache_config){.depth_us = seed % 2});
        model_run(seed, (prefix_cache_config){.idle_pages_max = 30, .ttl_us = seed % 2 ? 2000 : 0});
    }
}

static void agrees_with_a_plain_list_with_states(void **state)
{
    (void)state;
    for (uint64_t seed = 11; seed <= 16; seed++) {
        model_run(seed, (prefix_cache_config){.state_pages = STATE_PAGES, .depth_us = seed % 2});
        model_run(seed, (prefix_cache_config){
                            .state_pages = STATE_PAGES, .idle_pages_max = 40, .ttl_us = seed % 2 ? 2000 : 0});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lends_what_was_computed),
        cmocka_unit_test(says_the_first_token_that_differs),
        cmocka_unit_test(spaces_do_not_see_each_other),
        cmocka_unit_test(keys_name_the_path),
        cmocka_unit_test(the_second_of_two_equal_pages_is_not_kept),
        cmocka_unit_test(an_edit_costs_the_edited_turn),
        cmocka_unit_test(a_state_is_needed_to_start),
        cmocka_unit_test(a_turn_continues_a_line),
        cmocka_unit_test(refuses_what_makes_no_sense),
        cmocka_unit_test(agrees_with_a_plain_list),
        cmocka_unit_test(agrees_with_a_plain_list_with_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
