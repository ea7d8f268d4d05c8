/* Attention in f32: attend_body.h for NEON. */
#include "tensor/cpu/neon/vec.h"

#define ATTEND(name) name##_neon
#include "tensor/cpu/attend_body.h"
