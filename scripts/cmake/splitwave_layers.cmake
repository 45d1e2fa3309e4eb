# Owns the layer rule: which library may link which. ARCHITECTURE.md draws the same table, and
# tests/tidy reads the includes against it. A link that the table does not allow stops the
# configuration.

set(SPLITWAVE_LAYER_base "")
set(SPLITWAVE_LAYER_formats base)
set(SPLITWAVE_LAYER_plan base formats)
set(SPLITWAVE_LAYER_kernels_cpu base formats plan)
set(SPLITWAVE_LAYER_kernels_cuda base formats plan)
set(SPLITWAVE_LAYER_stats base)
set(SPLITWAVE_LAYER_measure base)
set(SPLITWAVE_LAYER_runtime base formats plan kernels_cpu kernels_cuda)
set(SPLITWAVE_LAYER_tune base formats plan kernels_cpu kernels_cuda runtime measure stats)
set(SPLITWAVE_LAYER_model base formats plan kernels_cpu kernels_cuda runtime)
set(SPLITWAVE_LAYER_serve base formats plan kernels_cpu kernels_cuda runtime model)
set(SPLITWAVE_LAYER_load base formats plan kernels_cpu kernels_cuda runtime measure stats)
# experiment_runner is the part of src/experiment that builds on a bare GPU machine.
set(SPLITWAVE_LAYER_experiment_runner base formats plan kernels_cpu kernels_cuda runtime measure
                                      stats)
set(SPLITWAVE_LAYER_experiment base formats plan kernels_cpu kernels_cuda runtime measure stats load
                               experiment_runner)

# splitwave_layer(<name> SOURCES <files> [USES <layers>] [PRIVATE_LIBS <third-party targets>])
# Adds the static library splitwave_<name>; refuses a layer that the table does not allow.
function(splitwave_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;PRIVATE_LIBS" ${ARGN})
  if(NOT DEFINED SPLITWAVE_LAYER_${name})
    message(FATAL_ERROR "splitwave_layer: '${name}' is not a layer; add it to "
                        "splitwave_layers.cmake")
  endif()
  add_library(splitwave_${name} STATIC ${ARG_SOURCES})
  target_include_directories(splitwave_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                      ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(splitwave_${name} PRIVATE splitwave_flags)
  foreach(used IN LISTS ARG_USES)
    if(NOT used IN_LIST SPLITWAVE_LAYER_${name})
      message(FATAL_ERROR "layer '${name}' may not use layer '${used}' (allowed: "
                          "${SPLITWAVE_LAYER_${name}})")
    endif()
    target_link_libraries(splitwave_${name} PUBLIC splitwave_${used})
  endforeach()
  if(ARG_PRIVATE_LIBS)
    target_link_libraries(splitwave_${name} PRIVATE ${ARG_PRIVATE_LIBS})
  endif()
endfunction()
