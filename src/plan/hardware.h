/* plan/hardware.h: what can this machine do? One row a device: memory, bandwidth, dense matmul rates, link, power,
 * price, with the source of the numbers. The table is constant data, one file for each family of devices; a row may
 * also be made of flags, or of what was measured on this box. Any thread. */
#ifndef HEADWAY_PLAN_HARDWARE_H
#define HEADWAY_PLAN_HARDWARE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef enum {
    HW_UNIFIED, /* CPU and GPU share the memory (Apple, Strix Halo, DGX Spark) */
    HW_CARD,    /* a graphics card with memory of its own */
    HW_SERVER,  /* a data-centre accelerator */
    HW_HOST,    /* a CPU and its DIMMs */
    HW_SRAM,    /* weights in on-chip memory: no model fits on one */
    HW_SSD,     /* a tier, not a device: for bytes that are read once a turn */
    HW_KINDS
} hardware_kind;

typedef enum { RATE_F32, RATE_F16, RATE_FP8, RATE_INT8, RATE_FP4, RATE_KINDS } rate_kind; /* f16: or bf16 */

typedef struct {
    const char *name;   /* "m4-max", "rtx-5090": lower case, unique */
    const char *title;  /* "Apple M4 Max, 40-core GPU" */
    const char *family; /* "apple", "geforce", "nvidia", "amd", "cpu", "other": whose measurements speak for it */
    hardware_kind kind;
    double memory_gb;      /* 1e9 bytes; of a family with several sizes the largest */
    double bandwidth_gb_s; /* of that memory, by its maker */
    /* dense, 1e12 operations a second (a multiply and an add are two), at most; 0: not known, or none */
    double tflops[RATE_KINDS];
    double link_gb_s;       /* one direction, to a neighbour of its kind; 0: none */
    const char *link;       /* "NVLink 4", "PCIe 5.0 x16", "Thunderbolt 5"; NULL: none */
    double watts;           /* of the whole device under load, at most; 0: not known */
    double price_usd;       /* 0: not known */
    const char *price_date; /* "2026-03", with price_usd */
    const char *source;     /* where the numbers are from */
    const char *note;       /* what is special; NULL: nothing */
    bool rumoured;          /* not announced, or not for sale: numbers are guesses */
} hardware;

size_t hardware_count(void);
const hardware *hardware_at(size_t index); /* in the order of the table: by family, then by bandwidth; NULL: past it */

/* The row of that name; case, blanks, dashes, underscores and the maker's name before it do not count, and a few other
 * names are known ("gb10"). Any bytes are safe. ERR_NOT_FOUND: the text offers the nearest names; *out stays. */
status hardware_find(const hardware **out, const char *name, error *err);
/* A row made of numbers, e.g. of flags; strings are borrowed. ERR_INVALID names what is impossible: a number that is
 * not finite, not positive (bandwidth, memory), or beyond what any device has (docs/hardware.md). */
status hardware_check(const hardware *row, error *err);

/* What the case study's column says: its own 65 tok/s times this row's bandwidth by 546 GB/s. */
double hardware_naive_tok_s(const hardware *row);
/* Bytes that a model may take: unified memory leaves a quarter to the system (least 4 GB, at most 16), a host an eighth
 * (least 1 GB, at most 32), a card or server 6% (contexts, workspaces). 0 for HW_SRAM's single chips too small to hold
 * one (under 1 GB), and HW_SSD. */
double hardware_usable_bytes(const hardware *row);
const char *hardware_kind_name(hardware_kind kind); /* "unified", "card", "server", "host", "sram", "ssd" */

#endif
