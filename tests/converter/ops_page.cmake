# SPDX-License-Identifier: Apache-2.0
# Fails if PAGE differs from the output of TOOL --list-ops. A build without Vulkan ignores its column, and a build
# without OpenBLAS ignores its kernels.
execute_process(COMMAND ${TOOL} --list-ops OUTPUT_VARIABLE printed RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${TOOL} --list-ops failed: ${failed}")
endif()
file(READ ${PAGE} page)
foreach(text printed page)
  string(REGEX REPLACE "(lapack|openblas), " "" ${text} "${${text}}")
  string(REGEX REPLACE "\\| ([^|\n]*) \\| [^|\n]* \\| ([a-z]* \\|\n)" "| \\1 | \\2" ${text} "${${text}}")
endforeach()
if(NOT printed STREQUAL page)
  message(FATAL_ERROR "${PAGE} is not what hg-convert --list-ops prints: print it there")
endif()
