/* A model file of any bytes opens or is refused with words; what opens can be read to its ends. */
#include <stdlib.h>

#include "model/file/gguf.h"
#include "unit/model/file/gguf_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    model_file *file;
    error err = {0};
    if (gguf_open_memory(&file, "fuzz.gguf", data, size, &err) != OK) {
        if (strncmp(err.text, "fuzz.gguf: ", 11) != 0)
            abort();
        return 0;
    }
    walk_model(file);
    model_file_close(file);
    return 0;
}
