// Variant v32_mma_n16_s99: portable/variants.h says what it is.
#include "kernels/cuda/portable/kernel.cuh"

SPLITWAVE_PORTABLE_VARIANT(v32_mma_n16_s99)
