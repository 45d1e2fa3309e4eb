# Owns the question "which commit is this?". Sets <result> to the commit of HEAD, to
# SPLITWAVE_COMMIT where the caller gave one (a copied tree on a machine without git), or to
# "unknown". Configures again when HEAD moves.
function(splitwave_commit result)
  set(${result} "unknown" PARENT_SCOPE)
  if(SPLITWAVE_COMMIT)
    set(${result} "${SPLITWAVE_COMMIT}" PARENT_SCOPE)
    return()
  endif()
  find_program(SPLITWAVE_GIT git)
  # A copy of the tree inside somebody else's repository is not this project's commit.
  if(NOT SPLITWAVE_GIT OR NOT EXISTS ${PROJECT_SOURCE_DIR}/.git)
    return()
  endif()
  execute_process(COMMAND ${SPLITWAVE_GIT} rev-parse HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    return()
  endif()
  set(${result} "${commit}" PARENT_SCOPE)
  # logs/HEAD gains a line with every commit, checkout and rebase, in worktrees too.
  execute_process(COMMAND ${SPLITWAVE_GIT} rev-parse --git-path logs/HEAD
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    OUTPUT_VARIABLE log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    get_filename_component(log "${log}" ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
    if(EXISTS "${log}")
      set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${log}")
    endif()
  endif()
endfunction()
