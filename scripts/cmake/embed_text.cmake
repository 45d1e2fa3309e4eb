# Owns the embedding of a text file into a library: one .cpp with a function that returns the text,
# written at configure time and only when it changed. Called by src/model (the tiny tokenizer) and
# src/load (the canary's sessions).

# splitwave_embed_text(<text file> <namespace> <function> <output .cpp>)
function(splitwave_embed_text text_file namespace function_name output)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${text_file})
  file(READ ${text_file} text)
  get_filename_component(name ${text_file} NAME)
  string(FIND "${text}" ")splitwave\"" delimiter)
  if(NOT delimiter EQUAL -1)
    message(FATAL_ERROR "${text_file} holds )splitwave\", the end of the literal that embeds it")
  endif()
  # Not CONFIGURE: the text may hold @words@.
  file(WRITE ${output}.new "// Generated from ${name}: edit that file, not this one.
#include <string_view>

namespace ${namespace} {

std::string_view ${function_name}();

std::string_view ${function_name}() {
  static constexpr char text[] = R\"splitwave(${text})splitwave\";
  return {text, sizeof text - 1};
}

}  // namespace ${namespace}
")
  configure_file(${output}.new ${output} COPYONLY)
endfunction()
