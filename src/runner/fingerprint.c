/* runner/fingerprint.c: one XXH3 over all that decides what is in a page. */
#include "runner/fingerprint.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { WHOLE_BYTES = 64 << 10, SAMPLES = 8, SAMPLE_BYTES = 4 << 10 };

static void mix_bytes(uint64_t *hash, const void *data, size_t bytes)
{
    *hash = XXH3_64bits_withSeed(data, bytes, *hash);
}

static void mix_number(uint64_t *hash, double value)
{
    mix_bytes(hash, &value, sizeof value);
}

static void mix_rope(uint64_t *hash, const rope_table *rope, uint32_t rotary)
{
    mix_number(hash, (double)rope->factor);
    if (rope->inv_freq)
        mix_bytes(hash, rope->inv_freq, rotary / 2 * sizeof *rope->inv_freq);
}

static void mix_config(uint64_t *hash, const model *m)
{
    const model_config *c = &m->config;
    const double numbers[] = {
        c->layers,
        c->hidden,
        c->heads,
        c->kv_heads,
        c->head_dim,
        c->ffn,
        c->vocab,
        c->rotary,
        c->interleaved,
        (double)c->rms_eps,
        (double)c->attend_scale,
        (double)c->embed_scale,
        (double)c->attend_softcap,
        c->window,
        c->window_pattern,
        c->act,
        c->quantized,
        c->experts,
        c->experts_used,
        c->expert_ffn,
        c->shared_ffn,
        c->experts_normalize,
        c->kv_layers,
        c->state_layers,
        c->taps,
        c->key_heads,
        c->value_heads,
        c->key_dim,
        c->value_dim,
        c->value_heads_grouped,
    };
    mix_bytes(hash, m->arch->name, strlen(m->arch->name));
    mix_bytes(hash, numbers, sizeof numbers);
    mix_rope(hash, &m->rope, c->rotary);
    mix_rope(hash, &m->rope_local, c->rotary);
}

/* Tensors that lie in the file as they are: at equal distances, the last piece ends with the tensor. */
static void mix_data(uint64_t *hash, const model_file *file, const model_tensor *t)
{
    if (t->bytes <= WHOLE_BYTES) {
        mix_bytes(hash, t->data, t->bytes);
        return;
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        const uint8_t *piece = (const uint8_t *)t->data + (t->bytes - SAMPLE_BYTES) / (SAMPLES - 1) * i;
        mix_bytes(hash, piece, SAMPLE_BYTES);
        model_file_release_range(file, piece, SAMPLE_BYTES);
    }
}

/* Tensors that the file holds otherwise: as many rows, made as they are for the model. */
static void mix_rows(uint64_t *hash, const model_tensor *t)
{
    uint64_t rows = t->ne[1] * t->ne[2] * t->ne[3], samples = rows < SAMPLES ? rows : SAMPLES;
    size_t row_bytes = rows ? t->bytes / rows : 0;
    void *row = malloc(row_bytes + 1);
    for (uint64_t i = 0; row && i < samples; i++) {
        t->read_rows(t, samples > 1 ? (rows - 1) * i / (samples - 1) : 0, 1, row);
        mix_bytes(hash, row, row_bytes);
    }
    free(row);
}

static void mix_tensors(uint64_t *hash, const model_file *file)
{
    mix_number(hash, (double)model_file_bytes(file));
    for (size_t i = 0; i < model_file_tensor_count(file); i++) {
        const model_tensor *t = model_file_tensor_at(file, i);
        mix_bytes(hash, t->name.data, t->name.size);
        mix_number(hash, t->type);
        mix_bytes(hash, t->ne, sizeof t->ne);
        if (t->data)
            mix_data(hash, file, t);
        else if (t->read_rows)
            mix_rows(hash, t);
    }
}

uint64_t kv_fingerprint(const model *m, const model_file *file, const kv_cache_config *kv)
{
    uint64_t hash = KV_LAYOUT_VERSION;
    mix_config(&hash, m);
    mix_number(&hash, kv->type);
    mix_number(&hash, kv->exact);
    mix_number(&hash, KV_PAGE_TOKENS);
    mix_bytes(&hash, m->device->ops->name, strlen(m->device->ops->name));
    mix_bytes(&hash, m->device->kernels, strlen(m->device->kernels));
    mix_tensors(&hash, file);
    return hash;
}
