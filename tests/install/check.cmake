# SPDX-License-Identifier: Apache-2.0
# cmake -DBUILD=... -DSOURCE=... -DGENERATOR=... -DCOMPILER=... -DMODEL=... -P check.cmake: installs BUILD into a
# folder of its own, builds the application SOURCE against it with find_package and with pkg-config, and runs both
# with MODEL.
set(prefix ${BUILD}/install-check)
file(REMOVE_RECURSE ${prefix} ${prefix}-build)
include(${CMAKE_CURRENT_LIST_DIR}/must.cmake)
function(reads program)
  execute_process(COMMAND ${program} ${MODEL} OUTPUT_VARIABLE text)
  if(NOT text STREQUAL "The digit is a 9.\n")
    message(FATAL_ERROR "${program} ${MODEL} says: ${text}")
  endif()
endfunction()
must(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component hologram)
must(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${prefix}-build -DCMAKE_PREFIX_PATH=${prefix}
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release)
must(${CMAKE_COMMAND} --build ${prefix}-build)
reads(${prefix}-build/minimal)

# A component that does not exist is rejected by name.
file(WRITE ${prefix}-build/refused/CMakeLists.txt "cmake_minimum_required(VERSION 3.22)
project(refused LANGUAGES CXX)
find_package(hologram CONFIG REQUIRED COMPONENTS runtime telepathy)
")
execute_process(COMMAND ${CMAKE_COMMAND} -G ${GENERATOR} -S ${prefix}-build/refused -B ${prefix}-build/refused/build
  -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${COMPILER} RESULT_VARIABLE result ERROR_VARIABLE text OUTPUT_QUIET)
string(REGEX REPLACE "[ \n]+" " " text "${text}")
if(result EQUAL 0 OR NOT text MATCHES "without the component 'telepathy'; it has: runtime")
  message(FATAL_ERROR "a component that is not there gives ${result}: ${text}")
endif()

find_program(pkg_config pkg-config REQUIRED)
file(GLOB_RECURSE pc ${prefix}/*/hologram.pc)
cmake_path(GET pc PARENT_PATH folder)
execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${folder}
  ${pkg_config} --cflags --libs hologram OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE)
separate_arguments(flags)
must(${COMPILER} -std=c++20 ${SOURCE}/main.cpp ${flags} -o ${prefix}-build/minimal-pc)
reads(${prefix}-build/minimal-pc)
