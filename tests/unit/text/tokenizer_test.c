/* tests/unit/text/tokenizer_test.c: ids equal to the reference package's, provenance of control tokens, streams of
 * text. */
#include "unit/text/tokenizer_fixture.h"

#include <time.h>

#include "base/rng.h"
#include "text/tokenizer_regex.h"
#include "text/tokenizer_utf8.h"

/* --- ids --- */

static void little_json_files_give_the_ids_of_the_reference(void **state)
{
    (void)state;
    json_t *root = load_vectors(), *file;
    size_t i, wrong = 0, texts = 0;
    json_array_foreach(json_object_get(root, "small"), i, file)
    {
        error err = {""};
        tokenizer *t = NULL;
        const char *name = json_string_value(json_object_get(file, "name"));
        const json_t *cases = json_object_get(file, "cases");
        if (tokenizer_create_json(&t, json_span(json_object_get(file, "json")), span_from(""), &err))
            fail_msg("%s: %s", name, err.text);
        wrong += count_differences(t, cases, TOKENIZE_SPECIALS, name);
        texts += json_array_size(cases);
        tokenizer_destroy(t);
    }
    json_decref(root);
    assert_true(texts > 500);
    assert_int_equal(wrong, 0);
}

static bool read_command(const char *command, buf *out)
{
    FILE *pipe = popen(command, "r");
    char block[65536];
    size_t got;
    if (!pipe)
        return false;
    while ((got = fread(block, 1, sizeof block, pipe)) > 0)
        buf_append(out, block, got);
    return pclose(pipe) == 0 && !out->failed;
}

static void published_json_files_give_the_ids_of_the_reference(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3", "llama3_1", "deepseek_v3", "gemma3"};
    const char *shared = getenv("HEADWAY_SHARED") ? getenv("HEADWAY_SHARED") : "../shared";
    json_t *root = load_vectors();
    const char *some = getenv("TOKENIZER_FILES"); /* a sanitizer takes a minute for all four */
    size_t count = some ? strtoul(some, NULL, 10) : 4, wrong = 0, tried = 0;
    assert_true(count >= 1 && count <= 4);
    for (size_t i = 0; i < count; i++) {
        char command[1024];
        snprintf(command, sizeof command, "xz -dc '%s/tokenizers/%s.tokenizer.json.xz' 2>/dev/null", shared, names[i]);
        buf json = {0};
        if (!read_command(command, &json)) {
            print_message("skipped: %s/tokenizers/%s.tokenizer.json.xz cannot be read\n", shared, names[i]);
            buf_free(&json);
            continue;
        }
        error err = {""};
        tokenizer *t = NULL;
        if (tokenizer_create_json(&t, buf_span(&json), span_from(""), &err))
            fail_msg("%s: %s", names[i], err.text);
        wrong += count_differences(t, json_object_get(json_object_get(root, "models"), names[i]), 0, names[i]);
        tried++;
        tokenizer_destroy(t);
        buf_free(&json);
    }
    json_decref(root);
    assert_int_equal(wrong, 0);
    if (!tried)
        skip();
}

/* --- provenance --- */

static void assert_pieces(const tokenizer *t, const text_piece *pieces, size_t count, const char *want)
{
    token_list ids = {0};
    error err = {""};
    char got[4096];
    assert_int_equal(tokenizer_encode_pieces(t, pieces, count, TOKENIZE_SPECIALS, &ids, &err), OK);
    show_ids(&ids, got, sizeof got);
    assert_string_equal(got, want);
    token_list_free(&ids);
}

static void encode_plain(const tokenizer *t, const char *text, unsigned flags, char *out, size_t size)
{
    token_list ids = {0};
    error err = {""};
    assert_int_equal(tokenizer_encode(t, span_from(text), flags, &ids, &err), OK);
    show_ids(&ids, out, size);
    token_list_free(&ids);
}

static text_piece trusted(const char *text)
{
    return (text_piece){span_from(text), true};
}

static text_piece message(const char *text)
{
    return (text_piece){span_from(text), false};
}

static void a_control_token_in_message_text_stays_text(void **state)
{
    (void)state;
    tokenizer *t = little_create("gpt-2");
    char spelled[512], want[1024];
    encode_plain(t, "<|im_end|>", 0, spelled, sizeof spelled);
    assert_null(strstr(spelled, "300"));
    snprintf(want, sizeof want, "301 %s 300", spelled);
    assert_pieces(t, (text_piece[]){trusted("<|im_start|>"), message("<|im_end|>"), trusted("<|im_end|>")}, 3, want);
    tokenizer_destroy(t);
}

static void a_control_token_across_a_trust_border_is_text(void **state)
{
    (void)state;
    tokenizer *t = little_create("gpt-2");
    char spelled[512], want[1024];
    encode_plain(t, "<|im_end|>", 0, spelled, sizeof spelled);
    for (size_t cut = 1; cut < 10; cut++) {
        static const char token[] = "<|im_end|>";
        text_piece head = {span_of(token, cut), true}, tail = {span_of(token + cut, 10 - cut), false};
        assert_pieces(t, (text_piece[]){head, tail}, 2, spelled);
        head.trusted = false;
        tail.trusted = true;
        assert_pieces(t, (text_piece[]){head, tail}, 2, spelled);
        head.trusted = true; /* both from the template: it is one */
        assert_pieces(t, (text_piece[]){head, tail}, 2, "300");
    }
    encode_plain(t, "<", 0, spelled, sizeof spelled);
    snprintf(want, sizeof want, "%s 300", spelled); /* a message's last byte cannot hide the template's token */
    assert_pieces(t, (text_piece[]){message("<"), trusted("<|im_end|>")}, 2, want);
    tokenizer_destroy(t);
}

static void merges_do_not_see_the_borders_of_pieces(void **state)
{
    (void)state;
    tokenizer *t = little_create("gpt-2");
    char want[512];
    encode_plain(t, "abc abc", 0, want, sizeof want);
    assert_pieces(t, (text_piece[]){trusted("a"), message("bc "), message(""), trusted("abc")}, 4, want);
    encode_plain(t, "x語y", 0, want, sizeof want);
    assert_pieces(t, (text_piece[]){message("x\xE8"), trusted("\xAA"), message("\x9Ey")}, 3, want);
    encode_plain(t, "x\xEF\xBF\xBDy\xEF\xBF\xBD", 0, want, sizeof want);
    assert_pieces(t, (text_piece[]){message("x\xE8\xAA"), trusted("y\xE8")}, 2, want);
    tokenizer_destroy(t);
}

static void a_character_of_two_owners_makes_no_control_token(void **state)
{
    (void)state;
    tokenizer *t = little_create("gpt-2");
    char spelled[512];
    encode_plain(t, "<語>", 0, spelled, sizeof spelled);
    assert_pieces(t, (text_piece[]){trusted("<\xE8\xAA"), trusted("\x9E>")}, 2, "303");
    assert_pieces(t, (text_piece[]){trusted("<\xE8\xAA"), message("\x9E"), trusted(">")}, 3, spelled);
    assert_pieces(t, (text_piece[]){trusted("<\xE8"), message("\xAA"), trusted("\x9E>")}, 3, spelled);
    tokenizer_destroy(t);
}

static void user_defined_tokens_split_everywhere(void **state)
{
    (void)state;
    tokenizer *t = little_create("gpt-2");
    assert_pieces(t, (text_piece[]){message("<tool>"), trusted("<tool>")}, 2, "302 302");
    assert_pieces(t, (text_piece[]){message("<to"), trusted("ol>")}, 2, "302");
    tokenizer_destroy(t);
}

static void bos_is_added_only_when_asked_for(void **state)
{
    (void)state;
    tokenizer *t = little_create("gpt-2");
    char got[64];
    encode_plain(t, "", TOKENIZE_BOS_EOS, got, sizeof got);
    assert_string_equal(got, "301");
    encode_plain(t, "", 0, got, sizeof got);
    assert_string_equal(got, "");
    assert_true(tokenizer_is_eog(t, LITTLE_EOS));
    assert_false(tokenizer_is_eog(t, LITTLE_START));
    assert_true(tokenizer_is_control(t, LITTLE_EOS));
    assert_int_equal(tokenizer_find(t, span_from("<|im_end|>")), LITTLE_EOS);
    tokenizer_destroy(t);
}

/* --- refusals --- */

static void an_unknown_pre_tokenizer_is_named(void **state)
{
    (void)state;
    little_vocab *l = malloc(sizeof *l);
    error err = {""};
    tokenizer *t = NULL;
    little_fill(l, "martian-7");
    assert_int_equal(tokenizer_create(&t, &l->spec, &err), ERR_UNSUPPORTED);
    assert_null(t);
    assert_non_null(strstr(err.text, "martian-7"));
    l->spec.pre = span_from("gpt-2");
    l->spec.eos = LITTLE_COUNT;
    assert_int_equal(tokenizer_create(&t, &l->spec, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "eos_token_id"));
    free(l);
}

static void a_bad_json_file_gets_words(void **state)
{
    (void)state;
    static const struct {
        const char *json, *word;
    } cases[] = {
        {"", "line 1"},
        {"[]", "no JSON object"},
        {"{\"model\":{\"type\":\"Unigram\"}}", "Unigram"},
        {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", "token id"},
        {"{\"model\":{\"vocab\":{\"a\":99999999999},\"merges\":[]}}", "token id"},
        {"{\"model\":{\"vocab\":{\"a\":16000000},\"merges\":[]}}", "only 1 tokens"},
        {"{\"model\":{\"vocab\":{},\"merges\":[]}}", "0 tokens"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "two texts"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "not in the vocabulary"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[7]}}", "no pair"},
        {"{\"normalizer\":{\"type\":\"Nmt\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}", "Nmt"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"(\"}},\"model\":{}"
         "}",
         "("},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"[a&&b]\"}},"
         "\"model\":{}}",
         "intersection"},
        {"{\"decoder\":{\"type\":\"CTC\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}", "CTC"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        error err = {""};
        tokenizer *t = NULL;
        assert_int_not_equal(tokenizer_create_json(&t, span_from(cases[i].json), span_from(""), &err), OK);
        assert_null(t);
        if (!strstr(err.text, cases[i].word))
            fail_msg("case %zu says \"%s\", expected \"%s\" in it", i, err.text, cases[i].word);
    }
}

/* Encodes and decodes with a tokenizer that should not be: nothing may break, whatever comes out. */
static void exercise(const tokenizer *t)
{
    static const char text[] =
        "Hello abc, 123 <s>the</s> <|im_end|> \xE8\xAA\x9E\xF0\x9F\x98\x80 a\xCC\x81  \n\n\xFFx \xE2\x96\x81 a";
    token_list ids = {0};
    buf out = {0};
    error err = {""};
    unsigned flags = TOKENIZE_SPECIALS | TOKENIZE_BOS_EOS;
    status st = tokenizer_encode(t, span_of(text, sizeof text - 1), flags, &ids, &err);
    assert_true(st == OK || err.text[0]);
    for (size_t i = 0; i < ids.count; i++)
        assert_true(ids.ids[i] >= 0 && (uint32_t)ids.ids[i] < tokenizer_vocab_size(t));
    tokenizer_decode(t, ids.ids, ids.count, true, &out);
    assert_int_equal(utf8_valid_prefix(buf_span(&out)), out.size);
    token_list_free(&ids);
    buf_free(&out);
}

static void mutate(buf *bytes, rng *r)
{
    static const char likely[] = "\"{}[]:,0129-\\u.tfn";
    for (uint64_t n = 1 + rng_below(r, 2); n > 0 && bytes->size; n--) {
        size_t at = rng_below(r, bytes->size), size = 1 + rng_below(r, 20);
        size = at + size > bytes->size ? bytes->size - at : size;
        switch (rng_below(r, 4)) {
        case 0:
            bytes->data[at] = (char)rng_next(r);
            break;
        case 1:
            bytes->data[at] = likely[rng_below(r, sizeof likely - 1)];
            break;
        case 2: /* one stretch over another */
            memmove(bytes->data + at, bytes->data + rng_below(r, bytes->size - size + 1), size);
            break;
        default: /* leave out */
            memmove(bytes->data + at, bytes->data + at + size, bytes->size - at - size);
            bytes->size -= size;
        }
    }
}

static void mutated_json_files_load_or_are_refused_with_words(void **state)
{
    (void)state;
    json_t *root = load_vectors(), *file;
    size_t i, loaded = 0, refused = 0;
    rng r = {5};
    json_array_foreach(json_object_get(root, "small"), i, file)
    {
        for (int round = 0; round < 100; round++) {
            buf bytes = {0};
            error err = {""};
            tokenizer *t = NULL;
            span whole = json_span(json_object_get(file, "json"));
            buf_append(&bytes, whole.data, whole.size);
            mutate(&bytes, &r);
            if (tokenizer_create_json(&t, buf_span(&bytes), span_from(""), &err) == OK) {
                exercise(t);
                loaded++;
            } else {
                assert_true(!t && err.text[0]);
                refused++;
            }
            tokenizer_destroy(t);
            buf_free(&bytes);
        }
    }
    json_decref(root);
    print_message("%zu loaded, %zu refused\n", loaded, refused);
    assert_true(loaded > 30 && refused > 30);
}

static void mutated_vocabularies_load_or_are_refused_with_words(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt2", "llama", "gpt2", "llama", "bert"};
    static const char *const odd[] = {"",     " ",      "\xFF",   "\xE2\x96", "a  b",
                                      " a b", "<0xZZ>", "<0x41>", "</s>",     "\xE2\x96\x81\xE2\x96\x81"};
    little_vocab *l = malloc(sizeof *l);
    size_t loaded = 0, refused = 0;
    rng r = {6};
    for (int round = 0; round < 1500; round++) {
        tokenizer *t = NULL;
        error err = {""};
        little_fill(l, "gpt-2");
        l->spec.model = span_from(models[rng_below(&r, 5)]);
        l->spec.add_space_prefix = rng_below(&r, 2);
        for (uint64_t n = rng_below(&r, 5); n > 0; n--) {
            size_t at = rng_below(&r, LITTLE_COUNT);
            switch (rng_below(&r, 5)) {
            case 0:
                l->types[at] = (int32_t)rng_below(&r, 9) - 1;
                break;
            case 1:
                l->tokens[at] = span_from(odd[rng_below(&r, 10)]);
                l->types[at] = (int32_t)rng_below(&r, 7);
                break;
            case 2:
                l->merges[rng_below(&r, 6)] = span_from(odd[rng_below(&r, 10)]);
                break;
            case 3:
                l->spec.eos = (token_id)rng_below(&r, LITTLE_COUNT + 20) - 10;
                break;
            default:
                l->spec.unknown = (token_id)rng_below(&r, LITTLE_COUNT) - 1;
            }
        }
        if (tokenizer_create(&t, &l->spec, &err) == OK) {
            exercise(t);
            loaded++;
        } else {
            assert_true(!t && err.text[0]);
            refused++;
        }
        tokenizer_destroy(t);
    }
    free(l);
    print_message("%zu loaded, %zu refused\n", loaded, refused);
    assert_true(loaded > 30 && refused > 30);
}

static void a_pattern_that_backtracks_without_end_is_stopped(void **state)
{
    (void)state;
    static const char json[] =
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"(a|aa|a)+b\"}},"
        "\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}";
    error err = {""};
    tokenizer *t = NULL;
    token_list ids = {0};
    char text[203];
    memset(text, 'a', 200);
    memcpy(text + 200, "cb", 3);
    assert_int_equal(tokenizer_create_json(&t, span_from(json), span_from(""), &err), OK);
    assert_int_equal(tokenizer_encode(t, span_from(text), 0, &ids, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "regular expression"));
    assert_int_equal(ids.count, 0);
    token_list_free(&ids);
    tokenizer_destroy(t);
}

static void patterns_keep_their_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        size_t start, end; /* of the first match; end 0: none */
    } cases[] = {
        {"\\s", "\xE1\xA0\x8E", 0, 0},     /* U+180E is no space */
        {"\\s+", "a\xE3\x80\x80 b", 1, 5}, /* U+3000 is */
        {"[^\\s]", " \xE1\xA0\x8E", 1, 4},
        {"[\\S]+", " x\xC2\xA0", 1, 2},
        {"\\p{L}+", "1\xF0\x96\x84\x80", 1, 5}, /* U+16100, of Unicode 16 */
        {"[^\\p{L}]", "\xF0\x96\x84\x80", 0, 0},
        {"\\P{L}",
         "a\xF0\x96\x84\x80"
         "1",
         5, 6},
        {"\\p{Han}+", "\xE3\x80\x81\xE4\xB8\x80", 3, 6}, /* not the comma that Han text shares */
        {"\\h", "g7", 1, 2},
        {"\\w", "\xC2\xB2_", 2, 3}, /* superscript two is no word character */
        {"^b", "a\nb", 2, 3},
    };
    regex_scratch *scratch = regex_scratch_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        regex *r = NULL;
        error err = {""};
        bool found;
        size_t start = 0, end = 0;
        assert_int_equal(regex_compile(&r, span_from(cases[i].pattern), &err), OK);
        assert_int_equal(regex_find(r, scratch, span_from(cases[i].text), 0, &found, &start, &end, &err), OK);
        if (found != (cases[i].end > 0) || (found && (start != cases[i].start || end != cases[i].end)))
            fail_msg("%s: found %d, %zu to %zu", cases[i].pattern, found, start, end);
        regex_free(r);
    }
    regex_scratch_free(scratch);
}

/* --- text back --- */

static void ill_formed_parts_become_one_replacement_each(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *want;
    } cases[] = {
        {"a\xFF"
         "b",
         "a\xEF\xBF\xBD"
         "b"},
        {"\xC3(", "\xEF\xBF\xBD("},
        {"\xE2\x82", "\xEF\xBF\xBD"},
        {"\xE2\x82 \xF0\x9F\x98", "\xEF\xBF\xBD \xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF4\x8F\xBF\xBF\xF4\x90", "\xF4\x8F\xBF\xBF\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buf out = {0};
        utf8_append_lossy(&out, span_from(cases[i].bytes));
        assert_string_equal(out.data, cases[i].want);
        buf_free(&out);
    }
}

static void a_stream_equals_the_whole_text_and_never_breaks_a_character(void **state)
{
    (void)state;
    tokenizer *t = little_create("gpt-2");
    rng r = {11};
    for (int round = 0; round < 400; round++) {
        token_id ids[64];
        buf bytes = {0}, whole = {0}, stream = {0}, want = {0};
        for (int i = 0; i < 64; i++) { /* bytes that often begin or continue a character */
            static const unsigned char likely[] = {0xE8, 0xAA, 0x9E, 0xF0, 0x9F, 0x98,
                                                   0x80, 0xC3, 0xA9, 'a',  0xED, 0xFF};
            unsigned char b =
                rng_below(&r, 3) ? likely[rng_below(&r, sizeof likely)] : (unsigned char)rng_below(&r, 256);
            char text[2] = {(char)b, 0};
            for (ids[i] = 0; ids[i] < 256; ids[i]++) { /* the token of this byte, by decoding */
                detokenizer probe = {0};
                buf got = {0};
                detokenizer_push(&probe, t, ids[i], &got);
                bool hit = b < 0x80 ? got.size == 1 && got.data[0] == text[0]
                                    : probe.held_size == 1 && probe.held[0] == text[0];
                buf_free(&got);
                if (hit)
                    break;
            }
            if (ids[i] == 256) /* a byte that begins nothing is replaced at once; any such token does */
                ids[i] = tokenizer_find(t, span_from("\xC3\xBF")), b = 0xFF;
            buf_byte(&bytes, (char)b);
        }
        detokenizer d = {0};
        for (int i = 0; i < 64; i++) {
            detokenizer_push(&d, t, ids[i], &stream);
            assert_int_equal(utf8_valid_prefix(buf_span(&stream)), stream.size);
        }
        detokenizer_finish(&d, &stream);
        tokenizer_decode(t, ids, 64, false, &whole);
        utf8_append_lossy(&want, buf_span(&bytes));
        assert_string_equal(stream.data, whole.data);
        assert_string_equal(stream.data, want.data);
        buf_free(&bytes), buf_free(&whole), buf_free(&stream), buf_free(&want);
    }
    tokenizer_destroy(t);
}

static void sentencepiece_falls_back_to_bytes_and_drops_its_first_space(void **state)
{
    (void)state;
    enum { COUNT = 3 + 256 + 5 };
    char bytes[256][8];
    span tokens[COUNT] = {span_from("<unk>"), span_from("<s>"), span_from("</s>")};
    int32_t types[COUNT] = {TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_CONTROL};
    float scores[COUNT] = {0};
    static const char *const texts[] = {"\xE2\x96\x81", "h", "i", "hi", "\xE2\x96\x81hi"};
    for (int i = 0; i < 256; i++) {
        snprintf(bytes[i], sizeof bytes[i], "<0x%02X>", i);
        tokens[3 + i] = span_from(bytes[i]);
        types[3 + i] = TOKEN_BYTE;
    }
    for (int i = 0; i < 5; i++) {
        tokens[259 + i] = span_from(texts[i]);
        types[259 + i] = TOKEN_NORMAL;
        scores[259 + i] = (float)-i;
    }
    tokenizer_spec spec = {.model = span_from("llama"),
                           .pre = span_from("default"),
                           .tokens = tokens,
                           .types = types,
                           .scores = scores,
                           .token_count = COUNT,
                           .bos = 1,
                           .eos = 2,
                           .eot = -1,
                           .eom = -1,
                           .unknown = 0,
                           .pad = -1,
                           .add_bos = true,
                           .add_space_prefix = true};
    error err = {""};
    tokenizer *t = NULL;
    char got[128];
    assert_int_equal(tokenizer_create(&t, &spec, &err), OK);
    encode_plain(t, "hi hi\xC3\xA9", TOKENIZE_BOS_EOS, got, sizeof got);
    assert_string_equal(got, "1 263 263 198 172");
    encode_plain(t, "</s>hi", TOKENIZE_SPECIALS, got, sizeof got);
    assert_string_equal(got, "2 263");
    buf out = {0};
    tokenizer_decode(t, (const token_id[]){1, 263, 263, 198, 172, 198}, 6, false, &out);
    assert_string_equal(out.data, "hi hi\xC3\xA9\xEF\xBF\xBD");
    buf_free(&out);
    tokenizer_destroy(t);
}

/* --- time --- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double time_repeats(const tokenizer *t, const char *unit, size_t size)
{
    buf text = {0};
    token_list ids = {0};
    error err = {""};
    while (text.size < size)
        buf_text(&text, unit);
    double start = seconds();
    if (tokenizer_encode(t, buf_span(&text), TOKENIZE_SPECIALS, &ids, &err))
        fail_msg("%s", err.text);
    double spent = seconds() - start;
    assert_true(ids.count > 0);
    buf_free(&text);
    token_list_free(&ids);
    return spent;
}

static void time_is_linear_in_one_repeated_character(void **state)
{
    (void)state;
    static const char *const units[] = {"a",         " ",  "\n", "1", "\xE8\xAA\x9E", "\xCC\x81\xCC\x96",
                                        "<|im_end|", "a ", "<"};
    static const char *const pres[] = {"gpt-2", "qwen2", "llama-bpe", "default"};
    for (size_t p = 0; p < 4; p++) {
        tokenizer *t = little_create(pres[p]);
        for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
            double small = time_repeats(t, units[u], 1 << 16), large = time_repeats(t, units[u], 1 << 20);
            if (large > 1.0 && large > small * 100) /* 16 times the text; a square law would take 256 times as long */
                fail_msg("%s, \"%s\": %.3f s for 64 KiB, %.3f s for 1 MiB", pres[p], units[u], small, large);
        }
        tokenizer_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_json_files_give_the_ids_of_the_reference),
        cmocka_unit_test(published_json_files_give_the_ids_of_the_reference),
        cmocka_unit_test(a_control_token_in_message_text_stays_text),
        cmocka_unit_test(a_control_token_across_a_trust_border_is_text),
        cmocka_unit_test(merges_do_not_see_the_borders_of_pieces),
        cmocka_unit_test(a_character_of_two_owners_makes_no_control_token),
        cmocka_unit_test(user_defined_tokens_split_everywhere),
        cmocka_unit_test(bos_is_added_only_when_asked_for),
        cmocka_unit_test(an_unknown_pre_tokenizer_is_named),
        cmocka_unit_test(a_bad_json_file_gets_words),
        cmocka_unit_test(mutated_json_files_load_or_are_refused_with_words),
        cmocka_unit_test(mutated_vocabularies_load_or_are_refused_with_words),
        cmocka_unit_test(a_pattern_that_backtracks_without_end_is_stopped),
        cmocka_unit_test(patterns_keep_their_meaning),
        cmocka_unit_test(ill_formed_parts_become_one_replacement_each),
        cmocka_unit_test(a_stream_equals_the_whole_text_and_never_breaks_a_character),
        cmocka_unit_test(sentencepiece_falls_back_to_bytes_and_drops_its_first_space),
        cmocka_unit_test(time_is_linear_in_one_repeated_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
