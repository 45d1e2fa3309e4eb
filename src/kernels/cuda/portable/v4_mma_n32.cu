// Variant v4_mma_n32: portable/variants.h says what it is.
#include "kernels/cuda/portable/kernel.cuh"

SPLITWAVE_PORTABLE_VARIANT(v4_mma_n32)
