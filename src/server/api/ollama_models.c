/* server/api/ollama_models.c: which model is there, in Ollama's words. */
#include "base/sha256.h"
#include "server/api/ollama.h"
#include "server/api/params.h"

/* The version of Ollama's API that is spoken here, which clients compare with what they need. */
static const char api_version[] = "0.6.4";

static void write_string(buf *out, const char *name, const char *text)
{
    buf_printf(out, "\"%s\":", name);
    json_text_string(out, span_from(text));
}

static void write_details(buf *out)
{
    buf_text(out, "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":\"\",\"families\":[],"
                  "\"parameter_size\":\"\",\"quantization_level\":\"\"}");
}

static void write_model(exchange *x)
{
    const server_model *model = x->model;
    buf *out = &x->answer.body;
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX + 1];
    sha256(span_from(model->name), hash);
    sha256_write_hex(hash, hex);
    buf_byte(out, '{');
    write_string(out, "name", model->name);
    buf_byte(out, ',');
    write_string(out, "model", model->name);
    buf_printf(out, ",\"size\":%llu,\"digest\":\"%s\",",
               (unsigned long long)engine_runner_info(model->engine)->weight_bytes, hex);
    write_details(out);
}

static void answer_json(exchange *x)
{
    x->write_error = ollama_write_error;
    x->answer.status = 200;
    x->answer.type = "application/json";
}

void ollama_tags(exchange *x)
{
    buf *out = &x->answer.body;
    buf_text(out, "{\"models\":[");
    write_model(x);
    buf_text(out, ",\"modified_at\":");
    ollama_write_time(out, x->model->created_unix);
    buf_text(out, "}]}");
    answer_json(x);
}

/* It stays for as long as the server does. */
void ollama_ps(exchange *x)
{
    buf *out = &x->answer.body;
    buf_text(out, "{\"models\":[");
    write_model(x);
    buf_printf(out, ",\"expires_at\":\"2318-01-01T00:00:00Z\",\"size_vram\":0,\"context_length\":%u}]}",
               x->model->context_length);
    answer_json(x);
}

void ollama_version(exchange *x)
{
    buf_printf(&x->answer.body, "{\"version\":\"%s\"}", api_version);
    answer_json(x);
}

void ollama_embed(exchange *x)
{
    x->write_error = ollama_write_error;
    api_fail(&x->error, 501, NULL, "embeddings are not supported: this server generates text only");
}

/* NAME, or NAME:latest. */
static bool is_served(const exchange *x, const char *name)
{
    size_t size = strlen(x->model->name);
    return strncmp(name, x->model->name, size) == 0 && (!name[size] || strcmp(name + size, ":latest") == 0);
}

void ollama_show(exchange *x)
{
    buf *out = &x->answer.body;
    x->write_error = ollama_write_error;
    json_t *body = params_parse_body(x);
    json_t *model = json_object_get(body, "model"), *name = json_object_get(body, "name");
    const char *asked = json_string_value(model ? model : name);
    if (body && !asked)
        api_fail(&x->error, 400, "model", "model is required");
    else if (body && !is_served(x, asked))
        api_fail(&x->error, 404, "model", "model '%.200s' not found: %s is served here", asked, x->model->name);
    json_decref(body);
    if (x->error.status)
        return;
    buf_text(out, "{\"modelfile\":\"\",\"parameters\":\"\",\"template\":\"\",\"license\":\"\",\"modified_at\":");
    ollama_write_time(out, x->model->created_unix);
    buf_byte(out, ',');
    write_details(out);
    buf_text(out, ",\"model_info\":{\"general.architecture\":\"headway\",");
    write_string(out, "general.basename", x->model->name);
    buf_printf(out, ",\"headway.context_length\":%u,\"headway.vocab_size\":%u},\"capabilities\":[\"completion\"",
               x->model->context_length, tokenizer_vocab_size(x->model->tokenizer));
    if (x->form && x->form->family)
        buf_text(out, ",\"tools\"");
    if (x->form && x->form->thoughts)
        buf_text(out, ",\"thinking\"");
    buf_text(out, "]}");
    answer_json(x);
}
