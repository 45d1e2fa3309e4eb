# Owns the compiler set-up of every target: language level, warnings, sanitizers, ccache, CUDA.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
# -ffp-contract=off: g++ would otherwise fuse a*b+c where it pleases, and the bits of a row would
# depend on inlining. Kernels that want an FMA call one.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)

find_program(SPLITWAVE_CCACHE ccache)
if(SPLITWAVE_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${SPLITWAVE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SPLITWAVE_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${SPLITWAVE_CCACHE})
endif()

find_package(Threads REQUIRED)

add_library(splitwave_flags INTERFACE)
target_compile_options(splitwave_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Werror>)
if(SPLITWAVE_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${SPLITWAVE_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>
                      $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${SPLITWAVE_SANITIZE})
endif()

if(SPLITWAVE_BUILD_FUZZERS)
  # clang reports libstdc++ 12's own use of what it deprecates, and g++'s warning names.
  add_compile_options(-Wno-deprecated-declarations -Wno-unknown-warning-option)
  # Coverage in every library; only the targets of tests/fuzz link libFuzzer's main.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

set(SPLITWAVE_HAVE_CUDA OFF)
if(SPLITWAVE_CUDA AND NOT SPLITWAVE_SANITIZE)
  include(CheckLanguage)
  if(NOT DEFINED CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # Each variant's targets are its own (src/kernels/cuda says which): no global architecture.
    set(CMAKE_CUDA_ARCHITECTURES OFF)
    enable_language(CUDA)
    # CMake 3.25 does not know nvcc's C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # one runtime a process, the one that the tools link
    find_package(CUDAToolkit REQUIRED)
    set(SPLITWAVE_HAVE_CUDA ON)
  endif()
endif()
if(SPLITWAVE_HAVE_CUDA)
  message(STATUS "splitwave: CUDA ${CMAKE_CUDA_COMPILER_VERSION}, targets ${SPLITWAVE_CUDA_ARCHS}")
else()
  message(STATUS "splitwave: no nvcc (or SPLITWAVE_CUDA=OFF, or a sanitizer build): "
                 "CPU backend only")
endif()
