/* tests/unit/server/dialects_test.c: Anthropic's and OpenAI's requests as chat completions', refusals by their place,
 * 20,000 wrong ones; and answers: whatever the pieces and however they are cut, what a stream tells is the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "server/api/anthropic.h"
#include "server/api/responses.h"
#include "unit/server/bodies.h"

static bodies world;

/* JSON with ' for " */
static json_t *parse(const char *text)
{
    char copy[4096];
    size_t size = strlen(text);
    assert_true(size < sizeof copy);
    memcpy(copy, text, size + 1);
    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_error_t where;
    json_t *value = json_loads(copy, 0, &where);
    if (!value)
        fail_msg("%s at %d: %s", text, where.position, where.text);
    return value;
}

typedef struct {
    const char *request, *chat; /* chat: NULL: refused, for … */
    const char *words;
} translation;

static void check(const translation *t, json_t *(*translate)(exchange *x, json_t *body))
{
    responses_state state = {0};
    exchange x = {.model = &world.model, .own = &state};
    plan_init(&x.plan);
    json_t *body = parse(t->request), *chat = translate(&x, body), *expected = t->chat ? parse(t->chat) : NULL;
    if (!t->chat && (chat || x.error.status != 400 || !strstr(x.error.message, t->words)))
        fail_msg("%s: %d %s", t->request, x.error.status, x.error.message);
    if (t->chat && !json_equal(chat, expected)) {
        char *text = chat ? json_dumps(chat, 0) : NULL;
        fail_msg("%s\nbecame %s (%s)\nwanted %s", t->request, text ? text : "nothing", x.error.message, t->chat);
    }
    json_decref(body);
    json_decref(chat);
    json_decref(expected);
    plan_free(&x.plan);
    buf_free(&x.warnings);
}

#define OFF "'chat_template_kwargs':{'enable_thinking':false,'thinking':false}"
#define USER_HI "{'role':'user','content':'hi'}"

static void translates_messages(void **state)
{
    (void)state;
    static const translation cases[] = {
        {"{'max_tokens':5,'messages':[" USER_HI "],'system':'S','top_k':3}",
         "{'max_tokens':5,'messages':[{'role':'system','content':'S'}," USER_HI "],'top_k':3," OFF "}", NULL},
        {"{'system':[{'type':'text','text':'a','cache_control':{'type':'ephemeral'}},{'type':'text','text':'b'}],"
         "'messages':[{'role':'user','content':[{'type':'text','text':'x'},{'type':'text','text':'y'}]}]}",
         "{'messages':[{'role':'system','content':'a\\nb'},{'role':'user','content':'x\\ny'}]," OFF "}", NULL},
        {"{'messages':[" USER_HI ",{'role':'assistant','content':[{'type':'thinking','thinking':'t','signature':'s'},"
         "{'type':'redacted_thinking','data':'z'},{'type':'text','text':'ok'},"
         "{'type':'tool_use','id':'i','name':'f','input':{'x':[1]}}]},"
         "{'role':'user','content':[{'type':'tool_result','tool_use_id':'i','content':[{'type':'text','text':'1'},"
         "{'type':'text','text':'2'}]},{'type':'tool_result','tool_use_id':'j','content':'no','is_error':true},"
         "{'type':'text','text':'go on'}]}]}",
         "{'messages':[" USER_HI ",{'role':'assistant','content':'ok','reasoning_content':'t','tool_calls':[{'id':'i',"
         "'type':'function','function':{'name':'f','arguments':{'x':[1]}}}]},{'role':'tool','tool_call_id':'i',"
         "'content':'1\\n2'},{'role':'tool','tool_call_id':'j','content':'Error: no'},{'role':'user','content':'go "
         "on'}]," OFF "}",
         NULL},
        {"{'messages':[" USER_HI "],'tools':[{'name':'f','description':'d','input_schema':{},'cache_control':{}}],"
         "'tool_choice':{'type':'any','disable_parallel_tool_use':true},'thinking':{'type':'adaptive'}}",
         "{'messages':[" USER_HI "],'tools':[{'type':'function','function':{'name':'f','description':'d',"
         "'parameters':{}}}],'tool_choice':'required','parallel_tool_calls':false,'thinking':{'type':'enabled'}}",
         NULL},
        {"{'messages':[" USER_HI "],'tool_choice':{'type':'tool','name':'f'},'stop_sequences':['a'],"
         "'service_tier':'standard_only','chat_template_kwargs':{'enable_thinking':true},"
         "'output_config':{'effort':'low','format':{'type':'json_schema','schema':{}}}}",
         "{'messages':[" USER_HI "],'tool_choice':{'type':'function','function':{'name':'f'}},'stop':['a'],"
         "'service_tier':'default','chat_template_kwargs':{'enable_thinking':true,'thinking':false},"
         "'reasoning_effort':'low','response_format':{'type':'json_schema','json_schema':{'name':'answer',"
         "'strict':true,'schema':{}}}}",
         NULL},
        {"{'messages':[{'role':'user','content':[{'type':'document','source':{'type':'text','data':'D'}}]}]}",
         "{'messages':[{'role':'user','content':'D'}]," OFF "}", NULL},
        {"{'messages':[{'role':'user','content':[]}]}", "{'messages':[{'role':'user','content':''}]," OFF "}", NULL},
        {"{}", NULL, "messages"},
        {"{'messages':[1]}", NULL, "messages.0"},
        {"{'messages':[" USER_HI ",{'role':'user','content':[{'type':'text','text':'a'},{'type':'image'}]}]}", NULL,
         "messages.1.content.1"},
        {"{'messages':[{'role':'user','content':[5]}]}", NULL, "messages.0.content.0"},
        {"{'messages':[" USER_HI ",{'role':'assistant','content':'x'}]}",
         "{'messages':[" USER_HI ",{'role':'assistant','content':'x'}]," OFF ",'continue_final_message':true}", NULL},
        {"{'messages':[" USER_HI ",{'role':'assistant','content':[{'type':'text','text':'x'},{'type':'text','text':'y'"
         "}]}],'thinking':{'type':'disabled'}}",
         "{'messages':[" USER_HI ",{'role':'assistant','content':'xy'}],'thinking':{'type':'disabled'},"
         "'continue_final_message':true}",
         NULL},
        {"{'messages':[" USER_HI ",{'role':'assistant','content':[{'type':'tool_use','id':'i','name':'f','input':{}}]}"
         "]}",
         NULL, "messages.1.content.0"},
        {"{'messages':[" USER_HI ",{'role':'assistant','content':'x'}],'thinking':{'type':'adaptive'}}", NULL,
         "messages.1"},
        {"{'messages':[" USER_HI "],'thinking':{'type':'enabled','budget_tokens':0}}", NULL, "budget_tokens"},
        {"{'messages':[" USER_HI "],'n':2}", NULL, "n is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i], anthropic_to_chat);
}

static void translates_responses(void **state)
{
    (void)state;
    static const translation cases[] = {
        {"{'input':'hi','instructions':'S','max_output_tokens':4,'top_p':0.5,'store':false}",
         "{'messages':[{'role':'system','content':'S'}," USER_HI "],'max_tokens':4,'top_p':0.5}", NULL},
        {"{'instructions':'A','input':[{'role':'developer','content':'B'},{'type':'message','role':'user','content':"
         "[{'type':'input_text','text':'h'},{'type':'input_text','text':'i'}]}]}",
         "{'messages':[{'role':'system','content':'A\\n\\nB'}," USER_HI "]}", NULL},
        {"{'input':[" USER_HI ",{'type':'reasoning','summary':[],'encrypted_content':'headway:t'},"
         "{'role':'assistant','content':[{'type':'output_text','text':'ok'}]},"
         "{'type':'function_call','call_id':'i','name':'f','arguments':'{}'},"
         "{'type':'function_call_output','call_id':'i','output':'1'},"
         "{'type':'reasoning','summary':[{'type':'summary_text','text':'u'}],'encrypted_content':'gAAA'},"
         "{'type':'function_call','call_id':'j','name':'f','arguments':'{}'}]}",
         "{'messages':[" USER_HI ",{'role':'assistant','content':'ok','reasoning_content':'t','tool_calls':[{'id':'i',"
         "'type':'function','function':{'name':'f','arguments':'{}'}}]},{'role':'tool','tool_call_id':'i','content':'1'"
         "},"
         "{'role':'assistant','content':'','reasoning_content':'u','tool_calls':[{'id':'j','type':'function','function'"
         ":"
         "{'name':'f','arguments':'{}'}}]}]}",
         NULL},
        {"{'input':'hi','tools':[{'type':'function','name':'f','parameters':{},'description':null,'strict':true}],"
         "'tool_choice':{'type':'function','name':'f'},'reasoning':{'effort':'high','summary':'auto'},"
         "'text':{'format':{'type':'json_schema','name':'n','schema':{}}}}",
         "{'messages':[" USER_HI
         "],'tools':[{'type':'function','function':{'name':'f','parameters':{},'strict':true}}],"
         "'tool_choice':{'type':'function','function':{'name':'f'}},'reasoning_effort':'high','response_format':"
         "{'type':'json_schema','json_schema':{'name':'n','schema':{}}}}",
         NULL},
        {"{'input':[{'role':'user','content':[{'type':'input_file'}]}]}", NULL, "input[0]"},
        {"{'input':[" USER_HI ",{'type':'computer_call'}]}", NULL, "input[1]"},
        {"{'input':[" USER_HI ",3]}", NULL, "input[1]"},
        {"{'input':'hi','previous_response_id':'r'}", NULL, "previous_response_id"},
        {"{'input':'hi','tools':[{'type':'function','name':'f'},{'type':'mcp'}]}", NULL, "tools[1]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i], responses_to_chat);
}

/* ---- wrong requests ---- */

static const char *const fields[] = {"messages",
                                     "input",
                                     "system",
                                     "instructions",
                                     "tools",
                                     "tool_choice",
                                     "thinking",
                                     "reasoning",
                                     "text",
                                     "max_tokens",
                                     "stop_sequences",
                                     "include",
                                     "output_config",
                                     "service_tier",
                                     "content",
                                     "role",
                                     "type",
                                     "id",
                                     "call_id",
                                     "name",
                                     "arguments",
                                     "output",
                                     "summary",
                                     "input_schema",
                                     "format",
                                     "schema",
                                     "effort",
                                     "budget_tokens",
                                     "tool_use_id",
                                     "source",
                                     "data",
                                     "is_error",
                                     "stream",
                                     "metadata",
                                     "encrypted_content",
                                     "mcp_servers",
                                     "parameters"};
static const char *const words[] = {
    "user",       "assistant",   "system",  "text",     "tool_use",      "tool_result",          "thinking",
    "image",      "document",    "message", "function", "function_call", "function_call_output", "reasoning",
    "input_text", "output_text", "enabled", "any",      "auto",          "json_schema",          "",
    "headway:x"};

static json_t *random_value(rng *r, unsigned depth)
{
    uint64_t kind = rng_below(r, depth ? 9 : 5);
    json_t *value;
    if (kind < 3)
        return json_string(words[rng_below(r, sizeof words / sizeof *words)]);
    if (kind == 3)
        return json_integer((json_int_t)rng_below(r, 5) - 1);
    if (kind == 4)
        return rng_below(r, 2) ? json_null() : json_true();
    bool array = kind < 7;
    value = array ? json_array() : json_object();
    for (uint64_t n = rng_below(r, array ? 4 : 7); n-- > 0;)
        if (array)
            json_array_append_new(value, random_value(r, depth - 1));
        else
            json_object_set_new(value, fields[rng_below(r, sizeof fields / sizeof *fields)],
                                random_value(r, depth - 1));
    return value;
}

static void wrong_requests_get_an_answer(void **state)
{
    (void)state;
    enum { REQUESTS = 20000 };
    static void (*const handlers[])(exchange *) = {anthropic_messages, anthropic_count_tokens, responses_create};
    rng r = {11};
    unsigned taken = 0;
    for (int i = 0; i < REQUESTS; i++) {
        json_t *body =
            rng_below(&r, 2) ? parse("{'max_tokens':3,'messages':[" USER_HI "],'input':'hi'}") : json_object();
        for (uint64_t n = 1 + rng_below(&r, 5); n-- > 0;)
            json_object_set_new(body, fields[rng_below(&r, sizeof fields / sizeof *fields)], random_value(&r, 5));
        char *text = json_dumps(body, 0);
        taken += bodies_run(&world, handlers[i % 3], text, strlen(text)).status < 400;
        free(text);
        json_decref(body);
    }
    assert_in_range(taken, 500, REQUESTS - 500); /* the requests reach both sides */
}

/* ---- answers ---- */

typedef struct {
    exchange x;
    generation g;
    responses_state state;
    route route;
    call_id calls[64];
} answer;

static void answer_open(answer *a, const answer_format *format)
{
    *a = (answer){.route = {.format = format}};
    plan_init(&a->x.plan);
    a->x.model = &world.model;
    a->x.route = &a->route;
    a->x.generations = &a->g;
    a->x.own = &a->state;
    a->x.count = 1;
    a->x.plan.max_tokens = 9;
    snprintf(a->x.id, sizeof a->x.id, "%s0123456789abcdef", format->id_prefix);
    buf_text(&a->state.echo, "\"tools\":[],");
    for (int i = 0; i < 64; i++)
        snprintf(a->calls[i].text, sizeof a->calls[i].text, "call_%d", i);
    a->g = (generation){.exchange = &a->x, .calls = a->calls, .call_count = 64, .tokens = 9, .stop_string = -1};
}

static void answer_close(answer *a)
{
    answer_pieces_free(&a->g.pieces);
    answer_pieces_free(&a->g.all);
    buf_free(&a->state.echo);
    plan_free(&a->x.plan);
}

static void answer_add(answer *a, const output_piece *piece)
{
    answer_pieces_add(&a->g.pieces, piece);
    if (a->route.format->keeps_all)
        answer_pieces_add(&a->g.all, piece);
}

/* Random pieces in an order in which a parser gives them; the last call may be cut. `out` owns nothing. */
static uint32_t random_pieces(rng *r, output_piece *out, uint32_t room)
{
    static const char *const texts[] = {"a", "\"\\\n", "\xc3\xbc", " b ", "</think>"};
    uint32_t count = 0, call = 0;
    for (uint64_t n = rng_below(r, 9); n-- > 0 && count + 6 < room;) {
        uint64_t kind = rng_below(r, 3);
        span text = span_from(texts[rng_below(r, 5)]);
        if (kind < 2) {
            out[count++] = (output_piece){.kind = kind ? PIECE_TEXT : PIECE_THOUGHT, .text = text};
            continue;
        }
        out[count++] = (output_piece){.kind = PIECE_CALL, .call = call, .text = span_from("f")};
        out[count++] = (output_piece){.kind = PIECE_ARGUMENTS, .call = call, .text = span_from("{\"x\":")};
        bool cut = n == 0 && rng_below(r, 2);
        if (!cut)
            out[count++] =
                (output_piece){.kind = PIECE_ARGUMENTS, .call = call, .text = span_from("[1,\"\xc3\xbc\"]}")};
        out[count++] = (output_piece){.kind = cut ? PIECE_CALL_CUT : PIECE_CALL_END, .call = call};
        call++;
    }
    return count;
}

static void run_stream(answer *a, rng *r, const output_piece *pieces, uint32_t count, buf *out)
{
    const answer_format *format = a->route.format;
    a->x.plan.stream = true;
    if (format->begin)
        format->begin(out, &a->x);
    for (uint32_t i = 0; i < count; i++) {
        answer_add(a, &pieces[i]);
        if (rng_below(r, 2) && i + 1 < count)
            continue;
        format->pieces(out, &a->x, &a->g);
        answer_pieces_clear(&a->g.pieces);
    }
}

static void join(json_t *owner, const char *name, json_t *more)
{
    json_t *old = json_object_get(owner, name);
    char text[1024];
    snprintf(text, sizeof text, "%s%s", json_string_value(old), json_string_value(more));
    json_object_set_new(owner, name, json_string(text));
}

/* What an Anthropic client makes of one event: a message. */
static void take_anthropic(json_t *event, json_t **message, buf *input)
{
    const char *type = json_string_value(json_object_get(event, "type"));
    json_t *content = json_object_get(*message, "content"), *delta = json_object_get(event, "delta");
    json_t *last = json_array_get(content, json_array_size(content) - 1);
    if (strcmp(type, "message_start") == 0) {
        *message = json_deep_copy(json_object_get(event, "message"));
    } else if (strcmp(type, "content_block_start") == 0) {
        assert_int_equal(json_integer_value(json_object_get(event, "index")), json_array_size(content));
        json_array_append(content, json_object_get(event, "content_block"));
        buf_clear(input);
    } else if (strcmp(type, "content_block_stop") == 0 && input->size) {
        json_t *parsed = json_loadb(input->data, input->size, 0, NULL);
        if (parsed)
            json_object_set_new(last, "input", parsed);
        else /* cut: what a whole answer has of it */
            json_array_set_new(content, json_array_size(content) - 1,
                               json_pack("{s:s, s:s#}", "type", "text", "text", input->data, (int)input->size));
        buf_clear(input);
    } else if (strcmp(type, "message_delta") == 0) {
        json_object_update(*message, delta);
    } else if (delta && json_object_get(delta, "partial_json")) {
        json_t *more = json_object_get(delta, "partial_json");
        buf_append(input, json_string_value(more), json_string_length(more));
    } else if (delta) {
        static const char *const names[] = {"text", "thinking", "signature"};
        for (int i = 0; i < 3; i++)
            if (json_object_get(delta, names[i]))
                join(last, names[i], json_object_get(delta, names[i]));
    }
}

/* One event of a Responses stream: items by their done events, checked against the deltas. */
static void take_responses(json_t *event, json_t **message, buf *text)
{
    const char *type = json_string_value(json_object_get(event, "type"));
    json_t *delta = json_object_get(event, "delta"), *response = json_object_get(event, "response");
    if (delta)
        buf_append(text, json_string_value(delta), json_string_length(delta));
    if (strstr(type, "_text.done") || strstr(type, "arguments.done")) {
        json_t *all = json_object_get(event, strstr(type, "_text") ? "text" : "arguments");
        assert_int_equal(json_string_length(all), text->size);
        assert_memory_equal(json_string_value(all), text->data, text->size);
        buf_clear(text);
    }
    if (!*message)
        *message = json_pack("{s:[]}", "items");
    if (strcmp(type, "response.output_item.done") == 0)
        json_array_append(json_object_get(*message, "items"), json_object_get(event, "item"));
    if (response && json_object_get(response, "usage") && !json_is_null(json_object_get(response, "usage"))) {
        assert_true(json_equal(json_object_get(*message, "items"), json_object_get(response, "output")));
        json_decref(*message);
        *message = json_incref(response);
    }
}

static json_t *gather(const buf *frames, void (*take)(json_t *event, json_t **message, buf *text))
{
    json_t *message = NULL;
    buf text = {0};
    for (const char *at = frames->data; (at = strstr(at, "data: ")); at = strstr(at, "\n\n")) {
        size_t size = (size_t)(strstr(at, "\n\n") - at) - 6;
        json_t *event = json_loadb(at + 6, size, 0, NULL);
        assert_non_null(event);
        take(event, &message, &text);
        json_decref(event);
    }
    buf_free(&text);
    return message;
}

static void streams_tell_the_whole(const answer_format *format, void (*take)(json_t *, json_t **, buf *), uint64_t seed)
{
    static const char *const ends[] = {"stop", "length", "tool_calls"};
    rng r = {seed};
    for (int round = 0; round < 3000; round++) {
        output_piece pieces[64];
        uint32_t count = random_pieces(&r, pieces, 64);
        const char *end = ends[rng_below(&r, 3)];
        answer streamed, whole;
        buf frames = {0}, body = {0};
        answer_open(&streamed, format);
        run_stream(&streamed, &r, pieces, count, &frames);
        streamed.g.finish = end;
        format->finish(&frames, &streamed.x, &streamed.g);
        answer_open(&whole, format);
        for (uint32_t i = 0; i < count; i++)
            answer_add(&whole, &pieces[i]);
        whole.g.finish = end;
        format->whole(&body, &whole.x);
        json_t *told = gather(&frames, take), *written = json_loadb(body.data, body.size, 0, NULL);
        if (!written || !json_equal(told, written))
            fail_msg("round %d:\n%s\n%s", round, frames.data, body.data);
        json_decref(told);
        json_decref(written);
        answer_close(&streamed);
        answer_close(&whole);
        buf_free(&frames);
        buf_free(&body);
    }
}

static void message_streams_tell_the_whole(void **state)
{
    (void)state;
    streams_tell_the_whole(&anthropic_format, take_anthropic, 3);
}

static void response_streams_tell_the_whole(void **state)
{
    (void)state;
    streams_tell_the_whole(&responses_format, take_responses, 4);
}

static void broken_streams_say_so(void **state)
{
    (void)state;
    static const char *const ends[] = {"abort", "error"};
    for (int i = 0; i < 2; i++) {
        answer a;
        buf out = {0};
        answer_open(&a, &anthropic_format);
        a.g.finish = ends[i];
        (i ? anthropic_format.failed : anthropic_format.finish)(&out, &a.x, &a.g);
        assert_non_null(strstr(out.data, "event: error\ndata: {\"type\":\"error\""));
        assert_non_null(strstr(out.data, i ? "api_error" : "overloaded_error"));
        assert_null(strstr(out.data, "message_stop"));
        answer_close(&a);
        buf_clear(&out);
        answer_open(&a, &responses_format);
        a.g.finish = ends[i];
        (i ? responses_format.failed : responses_format.finish)(&out, &a.x, &a.g);
        assert_non_null(strstr(out.data, "event: response.failed\n"));
        assert_non_null(strstr(out.data, "\"code\":\"server_error\""));
        answer_close(&a);
        buf_free(&out);
    }
}

static void errors_have_anthropics_words(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *type;
    } cases[] = {{400, "invalid_request_error"}, {401, "authentication_error"},
                 {403, "permission_error"},      {404, "not_found_error"},
                 {413, "request_too_large"},     {415, "invalid_request_error"},
                 {429, "rate_limit_error"},      {500, "api_error"},
                 {503, "overloaded_error"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        api_error e = {0};
        buf out = {0};
        api_fail(&e, cases[i].status, "p", "a \"quote\"");
        anthropic_write_error(&e, &out);
        json_t *body = json_loadb(out.data, out.size, 0, NULL), *inner = json_object_get(body, "error");
        assert_string_equal(json_string_value(json_object_get(inner, "type")), cases[i].type);
        assert_string_equal(json_string_value(json_object_get(inner, "message")), "a \"quote\"");
        json_decref(body);
        buf_free(&out);
    }
}

static int open_world(void **state)
{
    (void)state;
    bodies_open(&world);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    bodies_close(&world);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(translates_messages),
        cmocka_unit_test(translates_responses),
        cmocka_unit_test(wrong_requests_get_an_answer),
        cmocka_unit_test(message_streams_tell_the_whole),
        cmocka_unit_test(response_streams_tell_the_whole),
        cmocka_unit_test(broken_streams_say_so),
        cmocka_unit_test(errors_have_anthropics_words),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
