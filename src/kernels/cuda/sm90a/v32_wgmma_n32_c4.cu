// Variant v32_wgmma_n32_c4: sm90a/cluster_variants.h says what it is.
#include "kernels/cuda/sm90a/cluster_kernel.cuh"

SPLITWAVE_SM90A_CLUSTER_VARIANT(v32_wgmma_n32_c4)
