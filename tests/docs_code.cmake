# SPDX-License-Identifier: Apache-2.0
# cmake -DPAGES=a.md,b.md -DWORK=DIR -DCOMPILER=c++ -DINCLUDES=DIR,DIR -P docs_code.cmake: the blocks of
# C++ in the pages that are whole files, as their #include says, compile.
file(MAKE_DIRECTORY ${WORK})
string(REPLACE "," ";" PAGES "${PAGES}")
string(REPLACE "," ";-I" INCLUDES "-I${INCLUDES}")
set(count 0)
foreach(page ${PAGES})
  file(READ ${page} text)
  string(REPLACE ";" "\\;" text "${text}")
  string(REPLACE "[" "<:" text "${text}")  # the same in C++; CMake's lists count brackets
  string(REPLACE "]" ":>" text "${text}")
  string(REGEX MATCHALL "```cpp\n#include[^`]*```" blocks "${text}")
  foreach(block ${blocks})
    string(REGEX REPLACE "^```cpp\n|```$" "" code "${block}")
    math(EXPR count "${count} + 1")
    file(WRITE ${WORK}/block_${count}.cpp "${code}")
    execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only ${INCLUDES} ${WORK}/block_${count}.cpp
      RESULT_VARIABLE failed ERROR_VARIABLE errors)
    if(failed)
      message(FATAL_ERROR "${page}: its code does not compile:\n${errors}")
    endif()
  endforeach()
endforeach()
if(count EQUAL 0)
  message(FATAL_ERROR "no page has code")
endif()
message("${count} blocks compile")
