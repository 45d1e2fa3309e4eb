// Cut and order items by length, one CTA. Every list of nonzero width has lengths: a row's cuts
// follow from its own effective length, which the runtime does not let this kernel guess. Long rows
// are cut into pieces of about an equal share of the work; items are then handed out longest first
// (list scheduling). The order within one length class and the partials' places depend on atomics:
// neither changes a bit of any result.
#include <cuda_runtime.h>

#include "kernels/cuda/common/params.h"
#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/schedule/schedule.h"

namespace splitwave::cuda {
namespace {

constexpr int k_threads = 1024;
constexpr int k_classes = 64;  // of item lengths, longest first

struct RowShape {
  int length_main;
  int length_total;
  int chunks;
};

__device__ int length_of(const ListParams& list, int row) {
  if (list.width == 0) return 0;
  return min(max(__ldg(list.lengths + row), 0), list.width);
}

__device__ RowShape shape_of_row(const DecodeParams& p, int row) {
  RowShape s;
  s.length_main = length_of(p.list[0], row);
  s.length_total = s.length_main + length_of(p.list[1], row);
  s.chunks = (s.length_total + p.chunk_rows - 1) / p.chunk_rows;
  return s;
}

// Chunks of a piece: the floor of an equal share, or one more where that overshoots by no more than
// a quarter.
__device__ int piece_of(long long rows, const DecodeParams& p, int slots) {
  const long long share = rows * p.head_blocks / slots;
  const int below = max(1, static_cast<int>(min(share / p.chunk_rows, 1LL << 30)));
  const long long above_rows = (below + 1LL) * p.chunk_rows;
  return 4 * above_rows <= 5 * share ? below + 1 : below;
}

struct Shared {
  unsigned long long rows;
  int partials;
  int count[k_classes];
  int cursor[k_classes];
  int piece;
};

__device__ int class_of(int rows, int piece_rows) {
  return k_classes - 1 -
         static_cast<int>(static_cast<long long>(rows) * (k_classes - 1) / piece_rows);
}

__device__ void count_row(const DecodeParams& p, Shared& s, int row) {
  const RowShape shape = shape_of_row(p, row);
  const int piece_rows = s.piece * p.chunk_rows;
  RowPartials partials;
  if (shape.chunks > s.piece) {
    partials.stored = 1 + shape.chunks - s.piece;
    partials.slot = atomicAdd(&s.partials, partials.stored * p.head_blocks);
  }
  p.row_partials[row] = partials;
  const int full = shape.chunks > s.piece ? (shape.chunks - 1) / s.piece : 0;
  if (full > 0) atomicAdd(&s.count[0], full * p.head_blocks);
  atomicAdd(&s.count[class_of(shape.length_total - full * piece_rows, piece_rows)], p.head_blocks);
}

__device__ void write_row(const DecodeParams& p, Shared& s, int row) {
  const RowShape shape = shape_of_row(p, row);
  const RowPartials partials = p.row_partials[row];  // this thread's own store
  const int piece_rows = s.piece * p.chunk_rows;
  const int pieces = max(1, (shape.chunks + s.piece - 1) / s.piece);
  Item* list = const_cast<Item*>(p.map.list);
  for (int i = 0; i < pieces; ++i) {
    const int rows = i + 1 < pieces ? piece_rows : shape.length_total - i * piece_rows;
    // The head blocks of a piece stand together: they read the same cache rows.
    const int at = atomicAdd(&s.cursor[class_of(rows, piece_rows)], p.head_blocks);
    Item item;
    item.row = row;
    item.chunk_begin = i * s.piece;
    item.chunk_end = min(item.chunk_begin + s.piece, max(1, shape.chunks));
    item.length_main = shape.length_main;
    item.length_total = shape.length_total;
    item.piece_chunks = s.piece;
    for (int block = 0; block < p.head_blocks; ++block) {
      item.head_block = block;
      item.slot = partials.stored == 0 ? -1
                                       : partials.slot + block * partials.stored +
                                             (i == 0 ? 0 : 1 + item.chunk_begin - s.piece);
      list[at + block] = item;
    }
  }
}

__global__ void __launch_bounds__(k_threads)
    schedule_kernel(const __grid_constant__ DecodeParams p, int slots) {
  __shared__ Shared s;
  const int t = static_cast<int>(threadIdx.x);
  ptx::wait_for_preceding_kernel();
  ptx::allow_following_kernel();
  if (t == 0) {
    s.rows = 0;
    s.partials = 0;
  }
  if (t < k_classes) s.count[t] = 0;
  __syncthreads();
  unsigned long long rows = 0;
  for (int row = t; row < p.rows; row += k_threads) rows += shape_of_row(p, row).length_total;
  if (rows != 0) atomicAdd(&s.rows, rows);
  __syncthreads();
  if (t == 0) s.piece = piece_of(static_cast<long long>(s.rows), p, slots);
  __syncthreads();
  for (int row = t; row < p.rows; row += k_threads) count_row(p, s, row);
  __syncthreads();
  if (t == 0) {
    int at = 0;
    for (int i = 0; i < k_classes; ++i) {
      s.cursor[i] = at;
      at += s.count[i];
    }
    *const_cast<std::int32_t*>(p.map.list_count) = at;
  }
  __syncthreads();
  for (int row = t; row < p.rows; row += k_threads) write_row(p, s, row);
}

}  // namespace

cudaError_t prepare_schedule() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, schedule_kernel);
}

cudaError_t launch_schedule(const DecodeParams& params, int slots, bool after_kernel,
                            cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(k_threads);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = after_kernel ? 1 : 0;
  return cudaLaunchKernelEx(&config, schedule_kernel, params, slots);
}

}  // namespace splitwave::cuda
