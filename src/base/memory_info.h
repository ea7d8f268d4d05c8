/* base/memory_info.h: how much memory may this process use? Any thread. */
#ifndef HEADWAY_BASE_MEMORY_INFO_H
#define HEADWAY_BASE_MEMORY_INFO_H

#include <stdint.h>

/* Bytes that can be taken without swapping: the system's estimate, cut to the control group's limit where there is one.
 */
uint64_t memory_available(void);
uint64_t memory_resident(void); /* of this process now; 0: unknown */

#endif
