/* cli/default_model.h: where does the model lie that is taken when none is named? In the user's cache folder, XDG
 * honoured; `make model` puts it there. Any thread. */
#ifndef HEADWAY_CLI_DEFAULT_MODEL_H
#define HEADWAY_CLI_DEFAULT_MODEL_H

#include "base/error.h"

#include <stddef.h>

/* ERR_IO: it is not there; the text says where it was looked for and how to get it. */
status default_model_path(char *out, size_t size, error *err);

#endif
