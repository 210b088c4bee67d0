# SPDX-License-Identifier: Apache-2.0
# Checks that the printed losses of two and three processes equal those of one process, except in the last digit.
#   cmake -DMPIRUN=... -DSAMPLE=... -DWORK=... -P check.cmake
file(MAKE_DIRECTORY ${WORK})
foreach(ranks 1 2 3)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 ${MPIRUN} -n ${ranks} ${SAMPLE}
    WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "loss 0\\.[0-9][0-9][0-9]" losses "${said}")
  list(LENGTH losses count)
  if(NOT count EQUAL 4)
    message(FATAL_ERROR "${ranks} processes say: ${said}")
  endif()
  if(ranks EQUAL 1)
    set(alone "${losses}")
  elseif(NOT "${losses}" STREQUAL "${alone}")
    message(FATAL_ERROR "${ranks} processes: ${losses}; one: ${alone}")
  endif()
endforeach()
