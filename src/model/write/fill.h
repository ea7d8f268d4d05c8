/* model/write/fill.h: which values does a random tensor hold? A function of seed, tensor and row alone, so that any row
 * can be made by itself, in any order, on any thread: the same seed is the same model in every format. Any thread. */
#ifndef HEADWAY_MODEL_WRITE_FILL_H
#define HEADWAY_MODEL_WRITE_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    FILL_NORMAL,      /* mean 0, deviation `scale` */
    FILL_ONE,         /* mean 1: the weight of a plain norm */
    FILL_LOG_UNIFORM, /* log of a number spread evenly over 0.3 .. 8: A_log */
} fill_kind;

/* 64 bits that stand for one tensor of one model. */
uint64_t fill_key(uint64_t seed, const char *tensor);

/* `count` values of row `row`, at most 2^32 of them. `exact`: rounded to bf16, so that every float type holds the same
 * value. */
void fill_row(uint64_t key, uint64_t row, fill_kind kind, float scale, bool exact, float *out, size_t count);

#endif
