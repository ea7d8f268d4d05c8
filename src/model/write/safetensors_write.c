/* model/write/safetensors_write.c: headers and the index (formats.md 3.1, 3.2). */
#include <inttypes.h>
#include <stdio.h>

#include "model/write/model_write.h"

enum { NAME_BYTES = 192 };

void safetensors_file_name(const model_plan *plan, uint32_t file, char out[64])
{
    if (plan->file_count == 1)
        snprintf(out, 64, "model.safetensors");
    else
        snprintf(out, 64, "model-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", file + 1, plan->file_count);
}

/* Scales and biases stand beside their weight: "x.weight", "x.scales", "x.biases". */
static void piece_name(const model_plan *plan, const plan_tensor *t, uint32_t piece, char out[NAME_BYTES])
{
    static const char *const TAILS[STORE_PIECES] = {"weight", "scales", "biases"};
    const char *name = plan_name(plan, t);
    size_t size = strlen(name), tail = strlen(TAILS[0]);
    if (piece == 0 || size < tail)
        snprintf(out, NAME_BYTES, "%s", name);
    else
        snprintf(out, NAME_BYTES, "%.*s%s", (int)(size - tail), name, TAILS[piece]);
}

static void put_piece(const model_plan *plan, const plan_tensor *t, uint32_t piece, buf *out)
{
    const store_info *info = store_of(t->store);
    char name[NAME_BYTES];
    piece_name(plan, t, piece, name);
    uint64_t row = store_row_bytes(info, piece, t->cols);
    buf_printf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", name, info->piece[piece].dtype);
    for (uint32_t d = 0; d < t->dims; d++) {
        uint64_t size = t->shape[d];
        if (info->block > 1 && d + 1 == t->dims) /* columns as units of the piece's type */
            size = row / info->piece[piece].unit_bytes;
        buf_printf(out, "%s%" PRIu64, d ? "," : "", size);
    }
    buf_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", t->at[piece], t->at[piece] + t->rows * row);
}

void safetensors_header(const model_plan *plan, uint32_t file, buf *out)
{
    static const char LENGTH[8] = {0};
    buf_append(out, LENGTH, sizeof LENGTH);
    buf_printf(
        out,
        "{\"__metadata__\":{\"format\":\"%s\",\"headway.synthetic\":\"true\",\"headway.synthetic_seed\":\"%" PRIu64
        "\"}",
        plan->format == FORMAT_MLX ? "mlx" : "pt", plan->seed);
    for (size_t i = 0; i < plan->count; i++)
        for (uint32_t p = 0; plan->tensors[i].file == file && p < store_of(plan->tensors[i].store)->pieces; p++)
            put_piece(plan, &plan->tensors[i], p, out);
    buf_byte(out, '}');
    while (out->size % 8 && !out->failed)
        buf_byte(out, ' ');
    uint64_t length = out->size - sizeof LENGTH;
    for (int i = 0; i < 8 && !out->failed; i++)
        out->data[i] = (char)(length >> (8 * i));
}

void safetensors_index(const model_plan *plan, buf *out)
{
    buf_printf(out, "{\"metadata\":{\"total_size\":%" PRIu64 ",\"total_parameters\":%" PRIu64 "},\"weight_map\":{",
               plan->bytes, plan->parameters);
    const char *comma = "";
    for (size_t i = 0; i < plan->count; i++) {
        const plan_tensor *t = &plan->tensors[i];
        char name[NAME_BYTES], file[64];
        safetensors_file_name(plan, t->file, file);
        for (uint32_t p = 0; p < store_of(t->store)->pieces; p++) {
            piece_name(plan, t, p, name);
            buf_printf(out, "%s\n\"%s\":\"%s\"", comma, name, file);
            comma = ",";
        }
    }
    buf_text(out, "\n}}\n");
}
