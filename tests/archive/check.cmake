# SPDX-License-Identifier: Apache-2.0
# cmake -DARCHIVES=libhologram.a -DNM=nm -P check.cmake: the archives run no code before main, as a global's
# constructor would, and call nothing that prints, ends the program, reads the environment, starts a thread or
# throws.
execute_process(COMMAND ${NM} ${ARCHIVES} OUTPUT_VARIABLE symbols RESULT_VARIABLE result ERROR_QUIET)
if(NOT result EQUAL 0 OR NOT symbols MATCHES "built_in")
  message(FATAL_ERROR "${NM} ${ARCHIVES} list no symbols")
endif()
string(REGEX MATCHALL "[^\n]* _GLOBAL__sub_I[^\n]*|[^\n]* __cxx_global_var_init[^\n]*" initialisers "${symbols}")
string(REGEX MATCHALL
  " U (abort|exit|_exit|quick_exit|printf|puts|putchar|perror|stdout|stderr|write|getenv|secure_getenv|setenv|putenv|signal|sigaction|pthread_create|thrd_create|__cxa_throw|__cxa_allocate_exception|_ZSt9terminatev|_ZSt4cout|_ZSt4cerr)\n"
  calls "${symbols}")
if(THREADS)  # the pool's, in one file
  list(FILTER calls EXCLUDE REGEX "pthread_create")
endif()
if(initialisers OR calls)
  list(JOIN initialisers "\n" initialisers)
  list(JOIN calls "" calls)
  message(FATAL_ERROR "${ARCHIVES} must not hold:\n${initialisers}\n${calls}")
endif()
