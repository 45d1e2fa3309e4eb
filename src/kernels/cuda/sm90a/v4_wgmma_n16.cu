// Variant v4_wgmma_n16: sm90a/variants.h says what it is.
#include "kernels/cuda/sm90a/kernel.cuh"

SPLITWAVE_SM90A_VARIANT(v4_wgmma_n16)
