# SPDX-License-Identifier: Apache-2.0
# Code that runs once per model (rules, passes, gradients, the converter) is compiled for size, which also halves its
# build time. Kernels and the code around each run keep the compiler's release flags.
include_guard()

# Parses the headers that most files include once. ccache cannot share objects that use them.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
  option(HG_PRECOMPILE "Precompile common headers" OFF)
else()
  option(HG_PRECOMPILE "Precompile common headers" ON)
endif()

# hg_precompile(TARGET header...), or of targets with the same flags hg_precompile(TARGET AS OTHER).
function(hg_precompile target)
  if(NOT HG_PRECOMPILE)
    return()
  endif()
  if("${ARGV1}" STREQUAL AS)
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# hg_small(TARGET [HOT regex...] HEADERS header...): compiles the sources of TARGET for size, but those
# that match. Called when TARGET has its sources, directories, definitions and libraries.
function(hg_small target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HOT;HEADERS")
  set(parts ${target})
  get_target_property(sources ${target} SOURCES)
  list(JOIN arg_HOT | pattern)
  if(pattern)
    set(hot ${sources})
    list(FILTER hot INCLUDE REGEX ${pattern})
    list(FILTER sources EXCLUDE REGEX ${pattern})
    # Objects of their own, because flags and precompiled headers belong to a target.
    add_library(${target}_hot OBJECT ${hot})
    foreach(property IN ITEMS INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS LINK_LIBRARIES)
      get_target_property(value ${target} ${property})
      if(value)
        set_property(TARGET ${target}_hot PROPERTY ${property} ${value})
      endif()
    endforeach()
    set_property(TARGET ${target} PROPERTY SOURCES ${sources} $<TARGET_OBJECTS:${target}_hot>)
    list(APPEND parts ${target}_hot)
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
  foreach(part IN LISTS parts)
    hg_precompile(${part} ${arg_HEADERS})
  endforeach()
endfunction()
