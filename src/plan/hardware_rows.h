/* plan/hardware_rows.h: the constant tables behind plan/hardware.h, a file for each family. Sorted by bandwidth, then
 * as written. Any thread. */
#ifndef HEADWAY_PLAN_HARDWARE_ROWS_H
#define HEADWAY_PLAN_HARDWARE_ROWS_H

#include "plan/hardware.h"

typedef struct {
    const hardware *rows;
    size_t count;
} hardware_rows;

extern const hardware_rows hardware_apple, hardware_geforce, hardware_nvidia, hardware_amd, hardware_cpu,
    hardware_other;

#endif
