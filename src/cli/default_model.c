/* cli/default_model.c: see the header. */
#include "cli/default_model.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

status default_model_path(char *out, size_t size, error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool xdg = cache && cache[0] == '/';
    snprintf(out, size, "%s%s/headway/models/SmolLM2-135M-Instruct.Q4_1.gguf",
             xdg    ? cache
             : home ? home
                    : "",
             xdg ? "" : "/.cache");
    if (access(out, R_OK))
        return error_set(err, ERR_IO,
                         "--model is missing, and the default model is not at %s (`make model` fetches it)", out);
    return OK;
}
