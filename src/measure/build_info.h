// What this binary was built from. Owns the constants that CMake writes at configure time
// (build_info.cpp.in); a configure run is forced when git's HEAD moves. Called by the fingerprint
// and by `doctor`.
#pragma once

namespace splitwave::measure {

struct BuildInfo {
  const char* version;
  const char* commit;         // "unknown" outside a git checkout
  const char* compiler;       // name and version of the host compiler
  const char* build_type;     // CMAKE_BUILD_TYPE
  const char* flags;          // of that build type
  const char* sanitizers;     // "" for none
  const char* cuda_compiler;  // nvcc's version, "none" in a build without CUDA
  const char* cuda_archs;     // the GPU targets compiled in, "" without CUDA
};

[[nodiscard]] const BuildInfo& build_info();

}  // namespace splitwave::measure
