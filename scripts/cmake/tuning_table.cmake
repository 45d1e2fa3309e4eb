# Owns the generator of the tuning table: a reviewed JSON file becomes one .cpp of constexpr arrays,
# at configure time, with CMake's own JSON reader (no Python, no third-party library below the outer
# layers). A missing or malformed field stops the configuration with its path. Called by src/plan
# and, with a planted file, by tests/plan.

# splitwave_tuning_table(<json file> <function that the file defines> <output .cpp>)
function(splitwave_tuning_table json_file function_name output)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${json_file})
  file(READ ${json_file} json)
  string(JSON version GET "${json}" version)
  if(NOT version EQUAL 1)
    message(FATAL_ERROR "${json_file}: version=${version}; this build reads version 1")
  endif()
  set(arrays "")
  set(entries "")
  string(JSON series_count LENGTH "${json}" series)
  if(series_count GREATER 0)
    math(EXPR series_last "${series_count} - 1")
    foreach(s RANGE ${series_last})
      _splitwave_tuning_points("${json_file}" "${json}" ${s} points)
      string(APPEND arrays "constexpr TuningPoint k_points_${s}[] = {\n${points}};\n")
      _splitwave_tuning_series("${json_file}" "${json}" ${s} entry)
      string(APPEND entries "${entry}")
    endforeach()
  endif()
  if(series_count EQUAL 0)
    set(table "std::span<const TuningSeries> ${function_name}() { return {}; }\n")
  else()
    set(table "constexpr TuningSeries k_series[] = {\n${entries}};\n\n}  // namespace\n\n")
    string(APPEND table "std::span<const TuningSeries> ${function_name}() { return k_series; }\n")
    set(table "namespace {\n\n${arrays}\n${table}")
  endif()
  get_filename_component(name ${json_file} NAME)
  file(CONFIGURE OUTPUT ${output} CONTENT "// Generated from ${name}: edit that file, not this one.
#include \"plan/tuning_table.h\"

namespace splitwave {

std::span<const TuningSeries> ${function_name}();

${table}
}  // namespace splitwave
" @ONLY)
endfunction()

# Reads one field; its absence is an error that names file and path.
function(_splitwave_tuning_get json_file json result)
  string(JSON value ERROR_VARIABLE error GET "${json}" ${ARGN})
  if(NOT error STREQUAL "NOTFOUND")
    string(REPLACE ";" "." path "${ARGN}")
    message(FATAL_ERROR "${json_file}: ${path}: ${error}")
  endif()
  if(value MATCHES "[\"\\\\\n]")
    message(FATAL_ERROR "${json_file}: '${value}' must not hold quotes, backslashes or line ends")
  endif()
  set(${result} "${value}" PARENT_SCOPE)
endfunction()

# A field that must be one of the given words.
function(_splitwave_tuning_word json_file json result words)
  _splitwave_tuning_get("${json_file}" "${json}" value ${ARGN})
  if(NOT value IN_LIST words)
    string(REPLACE ";" "." path "${ARGN}")
    message(FATAL_ERROR "${json_file}: ${path}='${value}'; what works: ${words}")
  endif()
  set(${result} "${value}" PARENT_SCOPE)
endfunction()

function(_splitwave_tuning_points json_file json s result)
  string(JSON count LENGTH "${json}" series ${s} points)
  if(count EQUAL 0)
    message(FATAL_ERROR "${json_file}: series.${s}.points is empty; leave the series out instead")
  endif()
  set(text "")
  set(previous 0)
  math(EXPR last "${count} - 1")
  foreach(p RANGE ${last})
    foreach(field batch winner winner_us incumbent_us is_win)
      _splitwave_tuning_get("${json_file}" "${json}" ${field} series ${s} points ${p} ${field})
    endforeach()
    if(NOT batch GREATER previous)
      message(FATAL_ERROR "${json_file}: series.${s}.points.${p}.batch=${batch} does not ascend")
    endif()
    set(previous ${batch})
    if(is_win)
      set(is_win true)
    else()
      set(is_win false)
    endif()
    string(APPEND text "    {${batch}, \"${winner}\", ${winner_us}, ${incumbent_us}, ${is_win}},\n")
  endforeach()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

function(_splitwave_tuning_series json_file json s result)
  foreach(field device heads main_width extra_width row_lengths incumbent provenance)
    _splitwave_tuning_get("${json_file}" "${json}" ${field} series ${s} ${field})
  endforeach()
  _splitwave_tuning_word("${json_file}" "${json}" format "v32;v4" series ${s} format)
  _splitwave_tuning_word("${json_file}" "${json}" operands "bf16;f16" series ${s} operands)
  _splitwave_tuning_word("${json_file}" "${json}" numerics "throughput;latency" series ${s}
                         numerics)
  set(${result} "    {\"${device}\", KvFormat::${format}, OperandType::${operands},
     NumericsClass::${numerics}, ${heads}, ${main_width}, ${extra_width}, \"${row_lengths}\",
     \"${incumbent}\", \"${provenance}\", k_points_${s}},\n" PARENT_SCOPE)
endfunction()
