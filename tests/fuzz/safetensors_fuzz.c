/* A safetensors file of any bytes opens or is refused with words, and so does an index; what opens has its data inside.
 */
#include <stdlib.h>

#include "model/file/safetensors.h"

static status see_entry(void *context, span tensor, span file, error *err)
{
    (void)err;
    *(size_t *)context += tensor.size + file.size;
    return OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    error err = {0};
    size_t seen = 0;
    st_file file = {.path = strdup("fuzz"), .data = data, .size = size};
    if (safetensors_parse(&file, &err) != OK && strncmp(err.text, "fuzz: ", 6) != 0)
        abort();
    for (size_t i = 0; i < file.tensor_count; i++)
        if (file.tensors[i].data < data || file.tensors[i].data + file.tensors[i].bytes > data + size)
            abort();
    safetensors_close(&file);
    if (safetensors_index_parse("fuzz", span_of((const char *)data, size), see_entry, &seen, &err) != OK &&
        strncmp(err.text, "fuzz: ", 6) != 0)
        abort();
    return 0;
}
