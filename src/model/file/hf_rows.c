/* model/file/hf_rows.c: rows of a tensor as GGUF has them, out of what the files hold. */
#include "model/file/hf.h"
#include "tensor/quant.h"

static uint16_t u16_at(const uint8_t *p)
{
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

float hf_float_at(st_dtype dtype, const uint8_t *p)
{
    if (dtype == ST_BF16)
        return bf16_to_f32(u16_at(p));
    if (dtype == ST_F16)
        return f16_to_f32(u16_at(p));
    float value;
    memcpy(&value, p, sizeof value);
    return value;
}

uint64_t hf_row_of(const hf_source *source, uint64_t row)
{
    if (source->half_head) {
        uint64_t half = source->half_head, head = row / (2 * half), within = row % (2 * half);
        row = head * 2 * half + (within & 1) * half + within / 2;
    }
    uint32_t s = source->segment_count - 1;
    while (row < source->segments[s].first)
        s--;
    const hf_segment *segment = &source->segments[s];
    row -= segment->first;
    return segment->offset + row / segment->run * segment->stride + row % segment->run;
}

/* s eeee mmm; 0x7f and 0xff, NaN by the format, come out as 480: formats.md 3.4. */
static float e4m3(uint8_t byte)
{
    return f16_to_f32((uint16_t)((byte & 127) << 7)) * (byte & 128 ? -256.0f : 256.0f);
}

static void fp8_row(const hf_matrix *m, uint64_t row, uint8_t *dst)
{
    const uint8_t *codes = m->weight + row * m->weight_row;
    const uint8_t *scales = m->scales + row / m->block_rows * m->scale_row;
    for (uint64_t i = 0; i < m->cols; i++) {
        float scale = hf_float_at(m->scale_dtype, scales + i / m->block_cols * safetensors_dtype_bytes(m->scale_dtype));
        uint16_t half = f32_to_bf16(e4m3(codes[i]) * scale);
        memcpy(dst + 2 * i, &half, sizeof half);
    }
}

void hf_read_rows(const model_tensor *tensor, uint64_t first, uint64_t count, void *dst)
{
    const hf_source *source = tensor->source;
    size_t row_bytes = dtype_row_bytes(dtype_get(tensor->type), tensor->ne[0]);
    uint8_t *out = dst;
    for (uint64_t r = first; r < first + count; r++, out += row_bytes) {
        const hf_matrix *m = &source->parts[r / source->part_rows];
        uint64_t row = hf_row_of(source, r % source->part_rows);
        if (m->form == FORM_COPY)
            memcpy(out, m->weight + row * m->weight_row, row_bytes);
        else if (m->form == FORM_FP8)
            fp8_row(m, row, out);
        else
            mlx_row_blocks(m, row, out);
    }
}
