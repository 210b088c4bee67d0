# SPDX-License-Identifier: Apache-2.0
# must(COMMAND ARGUMENT...): runs the command, whose arguments may contain semicolons, and stores its output in
# `said`. Ends the script if the command fails.
function(must)
  set(command)
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE ${last})
    string(REPLACE ";" "\\;" argument "${ARGV${i}}")
    list(APPEND command "${argument}")
  endforeach()
  execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    list(JOIN command " " command)
    message(FATAL_ERROR "${command}: ${result}\n${text}")
  endif()
  set(said "${text}" PARENT_SCOPE)
endfunction()
