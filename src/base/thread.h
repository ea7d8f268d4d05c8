/* base/thread.h: what pthreads lack: a thread that steps back behind the others, a wait with an end. */
#ifndef HEADWAY_BASE_THREAD_H
#define HEADWAY_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

void thread_step_back(void); /* the calling thread runs at nice +5 from here on, where the system can do that */
/* pthread_cond_wait that ends after `us` at the latest. It may end early, as the other one may. */
void thread_wait_us(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t us);

#endif
