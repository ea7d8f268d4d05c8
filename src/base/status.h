/* base/status.h: how did a call end? Zero is OK; words are in base/error.h. Any thread. */
#ifndef HEADWAY_BASE_STATUS_H
#define HEADWAY_BASE_STATUS_H

typedef enum {
    OK = 0,
    ERR_INVALID,     /* the input is wrong: a file, a request, a flag */
    ERR_IO,          /* the outside world failed: disk, network */
    ERR_MEMORY,      /* out of memory or over a memory budget */
    ERR_LIMIT,       /* a stated limit is exceeded */
    ERR_UNSUPPORTED, /* understood, and not implemented here */
    ERR_NOT_FOUND,
    ERR_CANCELLED,
    ERR_BUSY, /* a queue is full: try later */
} status;

#endif
