/* cli/tune_reuse.c: what comes back is not only what was found: what a cache once had and gave up counts too. So of
 * Headway's own series everything but new tokens (and the last page's rest) is reuse; of another server's, its hits. */
#include "cli/tune_reuse.h"

#include <curl/curl.h>
#include <stdlib.h>

#include "base/decimal.h"

enum { METRICS_MAX = 16 << 20, PATIENCE_S = 10 };

/* The sum over the series NAME{...LABEL...}; `found`, if there was one. */
static double sum_of(span metrics, const char *name, const char *label, bool *found)
{
    size_t name_size = strlen(name);
    double sum = 0;
    for (size_t at = 0; at < metrics.size;) {
        const char *line = metrics.data + at, *end = memchr(line, '\n', metrics.size - at);
        size_t size = end ? (size_t)(end - line) : metrics.size - at;
        at += size + 1;
        if (size <= name_size || memcmp(line, name, name_size) != 0 ||
            (line[name_size] != '{' && line[name_size] != ' '))
            continue;
        char copy[1024];
        size_t kept = size < sizeof copy ? size : sizeof copy - 1;
        memcpy(copy, line, kept);
        copy[kept] = 0;
        const char *value = strrchr(copy, ' ');
        if (!value || (label && !strstr(copy, label)))
            continue;
        sum += strtod(value + 1, NULL);
        *found = true;
    }
    return sum;
}

static double mean_of(span metrics, const char *sum, const char *count)
{
    bool found = false;
    double n = sum_of(metrics, count, NULL, &found);
    return n > 0 ? sum_of(metrics, sum, NULL, &found) / n : 0;
}

status tune_reuse_parse(span metrics, tune_reuse *out, error *err)
{
    bool own = false, known = false;
    double hits = sum_of(metrics, "headway_cache_hit_tokens_total", NULL, &own);
    double misses = sum_of(metrics, "headway_cache_miss_tokens_total", NULL, &own);
    double fresh = sum_of(metrics, "headway_cache_miss_tokens_total", "cause=\"new\"", &own) +
                   sum_of(metrics, "headway_cache_miss_tokens_total", "cause=\"last\"", &own);
    double all = hits + misses, reused = all - fresh;
    if (!own) {
        all = sum_of(metrics, "vllm:prefix_cache_queries_total", NULL, &known);
        reused = sum_of(metrics, "vllm:prefix_cache_hits_total", NULL, &known);
    }
    if (!(all > 0))
        return error_set(err, ERR_NOT_FOUND, "--reuse: the server has looked no prompt up in its cache yet");
    *out = (tune_reuse){
        .given = true,
        .measured = true,
        .share = reused > all ? 1
                 : reused > 0 ? reused / all
                              : 0,
        .prompt_tokens = mean_of(metrics, "vllm:request_prompt_tokens_sum", "vllm:request_prompt_tokens_count"),
        .answer_tokens =
            mean_of(metrics, "vllm:request_generation_tokens_sum", "vllm:request_generation_tokens_count")};
    return OK;
}

static size_t take_bytes(char *data, size_t one, size_t size, void *context)
{
    buf *out = context;
    buf_append(out, data, one * size);
    return out->failed ? 0 : one * size;
}

static status fetch(const char *url, buf *out, error *err)
{
    char problem[CURL_ERROR_SIZE] = "";
    const char *key = getenv("HEADWAY_API_KEY");
    buf line = {0}, place = {0};
    long code = 0;
    struct curl_slist *headers = NULL;
    size_t size = strlen(url);
    while (size && url[size - 1] == '/')
        size--;
    buf_printf(&place, "%.*s/metrics", (int)size, url);
    if (key && key[0]) {
        buf_printf(&line, "Authorization: Bearer %s", key);
        headers = line.failed ? NULL : curl_slist_append(NULL, line.data);
    }
    out->limit = METRICS_MAX;
    CURL *easy = curl_easy_init();
    if (!easy || place.failed) {
        snprintf(problem, sizeof problem, "out of memory");
    } else {
        curl_easy_setopt(easy, CURLOPT_URL, place.data);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)PATIENCE_S);
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, problem);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_bytes);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, out);
        if (curl_easy_perform(easy) == CURLE_OK) {
            curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
            snprintf(problem, sizeof problem, "it answered %ld%s", code,
                     code == 401 ? " (its key goes into HEADWAY_API_KEY)" : "");
        }
    }
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    buf_free(&line);
    buf_free(&place);
    return code == 200 ? OK : error_set(err, ERR_IO, "--reuse: %s/metrics: %s", url, problem);
}

status tune_reuse_read(const char *text, tune_reuse *out, error *err)
{
    double share = 0;
    if (decimal_read(span_from(text), &share) && share <= 1) {
        *out = (tune_reuse){.given = true, .share = share};
        return OK;
    }
    if (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0)
        return error_set(err, ERR_INVALID, "--reuse: '%s' is neither a part from 0 to 1 nor the URL of a server", text);
    buf metrics = {0};
    status st = fetch(text, &metrics, err);
    if (!st)
        st = tune_reuse_parse(buf_span(&metrics), out, err);
    buf_free(&metrics);
    return st;
}
