/* cli/tune_reuse.h: how much of their prompts do the user's requests send again? Main thread. */
#ifndef HEADWAY_CLI_TUNE_REUSE_H
#define HEADWAY_CLI_TUNE_REUSE_H

#include "load/tune.h"

/* `text`: a part from 0 to 1, or the URL of a running server, whose /metrics is read (with HEADWAY_API_KEY, if it is
 * set). ERR_INVALID: neither; ERR_IO: no answer; ERR_NOT_FOUND: the server has read no prompts yet. */
status tune_reuse_read(const char *text, tune_reuse *out, error *err);
/* The same of the text of a /metrics answer. */
status tune_reuse_parse(span metrics, tune_reuse *out, error *err);

#endif
