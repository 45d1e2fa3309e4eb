// cp.async commit groups: a thread's own order of its copies. Owns two wrappers; the rings of the
// operators' kernels wait by group, since nobody but the warp itself reads what it copied.
#pragma once

namespace splitwave::cuda::ptx {

// Closes a group with every copy of this thread since the last one; it may be empty.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Returns when at most kPending of this thread's newest groups are still under way.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace splitwave::cuda::ptx
