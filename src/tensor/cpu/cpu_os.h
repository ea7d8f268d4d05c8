/* tensor/cpu/cpu_os.h: what the CPU backend asks of the operating system. Every call that is not ISO C or POSIX is in
 * cpu_os.c, and does nothing where the system has no such call. Any thread. */
#ifndef HEADWAY_TENSOR_CPU_CPU_OS_H
#define HEADWAY_TENSOR_CPU_CPU_OS_H

#include <stddef.h>
#include <stdint.h>

uint32_t cpu_os_cores(void);      /* cores this process may use; at least 1 */
void cpu_os_lower_priority(void); /* nice +5 for the calling thread */
void cpu_os_yield(void);
/* Zeroed memory on a 64-byte border, in large pages where the size is worth it; NULL when there is none. */
void *cpu_os_alloc(size_t bytes);
void cpu_os_free(void *memory, size_t bytes); /* NULL allowed */
/* Memory of cpu_os_alloc that will be needed soon gets its pages now; its bytes stay as they are, whoever writes them
 * meanwhile. */
void cpu_os_touch(void *memory, size_t bytes);

#endif
