/* The first byte says what the rest is: the input of a batch, whose lines must be told again one by one and whose
 * bodies go through the endpoint; a line of answers; or what lies on the disk, which must read again as it was. */
#include "fuzz/json_mutator.h"
#include "server/batch/line.h"
#include "server/router.h"
#include "unit/server/bodies.h"

static const char *const endpoints[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"};
static const char batch_id[] = "batch_00000000000000000000000a";

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void ask(const route *r, const batch_line *line)
{
    static bodies world;
    if (!world.tokenizer)
        bodies_open(&world);
    world.route = r;
    char *body = json_dumps(line->body, JSON_COMPACT);
    if (body)
        bodies_run(&world, r->handle, body, strlen(body));
    free(body);
}

static void answer(const batch_line *line, uint32_t index)
{
    buf out = {0};
    uint32_t found = 0;
    batch_answer_write(&out, batch_id, index, line->custom_id, 200, span_from("{}"));
    require(out.size && out.data[out.size - 1] == '\n' && !memchr(out.data, '\n', out.size - 1));
    require(batch_answer_index(span_of(out.data, out.size - 1), batch_id, &found) && found == index);
    json_t *json = json_loadb(out.data, out.size, JSON_ALLOW_NUL, NULL);
    require(json && strcmp(json_string_value(json_object_get(json, "custom_id")), line->custom_id) == 0);
    json_decref(json);
    buf_free(&out);
}

static void read_input(const char *endpoint, span text)
{
    batch_record r = {0};
    batch_input input;
    bool known;
    const char *allow;
    const route *route = router_find(HTTP_POST, span_from(endpoint), &known, &allow);
    snprintf(r.endpoint, sizeof r.endpoint, "%s", endpoint);
    require(route && batch_input_read(&input, text, &r));
    require(r.fault_count <= BATCH_ERRORS_MAX && (input.count || r.fault_count));
    for (uint32_t i = 0; i < input.count; i++) {
        batch_line line;
        batch_error fault;
        require(input.starts[i] + input.sizes[i] <= text.size);
        require(batch_line_read(&line, span_of(text.data + input.starts[i], input.sizes[i]), endpoint, &fault));
        answer(&line, i);
        ask(route, &line);
        batch_line_free(&line);
    }
    batch_input_free(&input);
}

static void read_record(span text)
{
    batch_record r;
    error err = {""};
    buf first = {0}, second = {0};
    if (batch_record_read(&r, text, &err)) {
        require(err.text[0]);
        return;
    }
    batch_record_write(&r, true, &first);
    batch_record_free(&r);
    require(batch_record_read(&r, buf_span(&first), &err) == OK);
    batch_record_write(&r, true, &second);
    require(span_equal(buf_span(&first), buf_span(&second)));
    batch_record_free(&r);
    buf_free(&first);
    buf_free(&second);
}

static void read_file(span text)
{
    stored_file f, again;
    error err = {""};
    buf out = {0};
    if (stored_file_read(&f, text, &err)) {
        require(err.text[0]);
        return;
    }
    stored_file_write(&f, true, &out);
    require(stored_file_read(&again, buf_span(&out), &err) == OK && f.bytes == again.bytes);
    require(strcmp(f.name, again.name) == 0 && strcmp(f.id, again.id) == 0);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t index;
    if (!size)
        return 0;
    span text = span_of((const char *)data + 1, size - 1);
    switch (data[0] & 7) {
    case 5:
        batch_answer_index(text, batch_id, &index);
        break;
    case 6:
        read_record(text);
        break;
    case 7:
        read_file(text);
        break;
    default:
        read_input(endpoints[data[0] & 3], text);
    }
    return 0;
}

/* Of an input, one line; bytes of all of it now and then. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    rng r = {seed};
    const uint8_t *end = size > 1 ? memchr(data + 1, '\n', size - 1) : NULL;
    if (!end || rng_below(&r, 8) == 0)
        return json_mutate(data, size, max_size, seed, 1);
    size_t from = rng_below(&r, 2) ? 1 : (size_t)(end - data) + 1; /* the first, or what follows */
    size_t to = from == 1 ? (size_t)(end - data) : size, rest = size - to;
    uint8_t *tail = malloc(rest + 1);
    if (!tail)
        return size;
    memcpy(tail, data + to, rest);
    size_t length = to - from ? json_mutate(data + from, to - from, max_size - from - rest, seed, 0) : 0;
    memcpy(data + from + length, tail, rest);
    free(tail);
    return from + length + rest;
}
