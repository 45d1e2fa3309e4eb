// What a build without CUDA says when its operators are asked for. Compiled instead of
// ops_cuda.cpp.
#include "runtime/ops_backend.h"
#include "runtime/ops_cases.h"

namespace splitwave {
namespace {

Error no_cuda() {
  return environment_error(
      "this build has no CUDA backend; install the CUDA toolkit (nvcc), configure again with "
      "-DSPLITWAVE_CUDA=ON and rebuild, or use the cpu backend");
}

}  // namespace

Expected<std::unique_ptr<IndexerBackend>> make_cuda_indexer(const IndexerSpec& /*spec*/,
                                                            int /*device*/) {
  return no_cuda();
}
Expected<std::unique_ptr<CacheWriterBackend>> make_cuda_cache_writer(int /*device*/) {
  return no_cuda();
}
Expected<std::unique_ptr<CompressorBackend>> make_cuda_compressor(const CompressorSpec& /*spec*/,
                                                                  int /*device*/) {
  return no_cuda();
}

Expected<std::unique_ptr<OpsMemory>> make_device_memory(int /*device*/) { return no_cuda(); }

}  // namespace splitwave
