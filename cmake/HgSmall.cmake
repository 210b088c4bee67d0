# SPDX-License-Identifier: Apache-2.0
# What runs once per model (rules, passes, gradients, the converter) is compiled for size, which also
# halves its build time; kernels and the code around each run keep the compiler's release flags.
include_guard()

# Parses the headers that most files include once. ccache cannot share objects that use them.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
  option(HG_PRECOMPILE "Precompile common headers" OFF)
else()
  option(HG_PRECOMPILE "Precompile common headers" ON)
endif()

# hg_small(TARGET [HOT regex...] HEADERS header...): the sources of TARGET but those that match.
function(hg_small target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HOT;HEADERS")
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
  if(HG_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${arg_HEADERS})
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    foreach(pattern IN LISTS arg_HOT)
      if(source MATCHES ${pattern})
        # Other flags, so the precompiled headers do not fit.
        set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES
          COMPILE_OPTIONS $<$<CONFIG:Release>:-O3> SKIP_PRECOMPILE_HEADERS ON)
      endif()
    endforeach()
  endforeach()
endfunction()
