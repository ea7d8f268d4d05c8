/* sim/script_runner.h: a runner that says what a file says, so that a test can drive any client. Times, memory and
 * contract checks are those of sim/sim_runner.h, the vocabulary is sim/byte_vocab.h.
 *
 * The file has one JSON object per line; empty lines and lines that begin with # are skipped.
 *   {"reply": "text", "match": "substring", "times": 1, "end": true}
 *     reply  what is said, as UTF-8 bytes
 *     match  only for a request whose prompt holds this text (control tokens are no text); absent: for any request
 *     times  how often the line may be used; 0: without end; absent: 1
 *     end    false: after the reply comes no <|im_end|>, the reply starts again, up to the request's max_tokens
 *   {"settings": {"decode_base_us": 50000}}
 *     the numbers of sim_config by name
 * A request gets the first line that matches and is not used up, in the order in which requests get their slots. When
 * there is none the reply is "[script: no reply is left for this request]". */
#ifndef HEADWAY_SIM_SCRIPT_RUNNER_H
#define HEADWAY_SIM_SCRIPT_RUNNER_H

#include "sim/sim_runner.h"

/* `base`: the numbers that the file does not set; NULL: defaults. Errors name the file and the line. */
status script_runner_create(runner **out, const char *path, const sim_config *base, error *err);

#endif
