# SPDX-License-Identifier: Apache-2.0
# How the sources of a target are compiled: for size or speed, with precompiled headers, and in unity groups.
# What runs once per model (rules, passes, gradients, the converter) is compiled for size, which also
# halves its build time; kernels and the code around each run keep the compiler's release flags.
include_guard()

# hg_folders(TARGET folder... [WITHOUT file...]): adds all .cpp files of these folders to TARGET, except the given ones.
function(hg_folders target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "WITHOUT")
  list(TRANSFORM arg_UNPARSED_ARGUMENTS APPEND /*.cpp)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${arg_UNPARSED_ARGUMENTS})
  list(REMOVE_ITEM files ${arg_WITHOUT})
  target_sources(${target} PRIVATE ${files})
endfunction()

# Precompiled headers save parsing. ccache cannot share objects that use them.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
  option(HG_PRECOMPILE "Precompile common headers" OFF)
else()
  option(HG_PRECOMPILE "Precompile common headers" ON)
endif()
# Unity groups halve the time of a cold build: what headers define inline is compiled once per group.
option(HG_UNITY "Compile the files of a folder in groups" ON)
set(HG_UNITY_BYTES 64000 CACHE STRING "Bytes of source in a unity group")
mark_as_advanced(HG_UNITY_BYTES)

# scripts/demo.sh compiles this code faster still, without optimization.
set(HG_COLD_FLAGS -Os CACHE STRING "Optimization of code that runs once per model")
mark_as_advanced(HG_COLD_FLAGS)

# hg_precompile(TARGET header...), or of targets with the same flags hg_precompile(TARGET AS OTHER).
function(hg_precompile target)
  if(NOT HG_PRECOMPILE)
    return()
  endif()
  # GCC forgets -ffp-contract and the like of a file in its functions for other instruction sets, if the precompiled header
  # was compiled without that option.
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(options)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  if("${ARGV1}" STREQUAL AS)
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# hg_unity(TARGET [WHOLE] [ALONE regex...]): compiles the sources of TARGET in groups of one folder each, or with WHOLE
# in one group, except those that match ALONE. Sources with their own flags stay alone. Names at namespace scope must
# differ within a folder; unity.h renames the tables.
function(hg_unity target)
  if(NOT HG_UNITY)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "WHOLE" "" "ALONE")
  list(JOIN arg_ALONE | alone)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  if(alone)
    list(FILTER sources EXCLUDE REGEX ${alone})
  endif()
  foreach(source IN LISTS sources)
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(folder ${path} DIRECTORY)
    string(MAKE_C_IDENTIFIER ${folder} folder)
    file(SIZE ${path} bytes)
    if(NOT DEFINED bytes_of_${folder})
      set(bytes_of_${folder} 0)
    endif()
    math(EXPR group "${bytes_of_${folder}} / ${HG_UNITY_BYTES}")
    math(EXPR bytes_of_${folder} "${bytes_of_${folder}} + ${bytes}")
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${path})
    get_filename_component(name ${name} DIRECTORY)
    string(MAKE_C_IDENTIFIER ${name} name)
    if(arg_WHOLE)
      set(name ${target})
      set(group whole)
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP UNITY_BUILD_UNIQUE_ID HG_UNITY_ID
    UNITY_BUILD_CODE_BEFORE_INCLUDE "#include \"cmake/unity.h\"")
  # GCC treats the files of a group as headers, and warns of anonymous namespaces in their classes.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

# hg_small(TARGET [WHOLE] [HOT regex...] [ALONE regex...] [HEADERS header...]): compiles the sources of TARGET for size, except
# those that match HOT, and in unity groups, except those that match ALONE. HEADERS are precompiled: this takes as long as
# compiling three groups saves, and 100 MB. With WHOLE they are one group without a precompiled header, which suits a few files
# whose headers take longer to compile than the files. Call it after TARGET has its sources, directories, definitions and
# libraries.
function(hg_small target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WHOLE" "" "HOT;ALONE;HEADERS")
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
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${HG_COLD_FLAGS}>)
  foreach(part IN LISTS parts)
    if(arg_WHOLE AND HG_UNITY)
      hg_unity(${part} WHOLE ALONE ${arg_ALONE})
    else()
      if(arg_HEADERS)
        hg_precompile(${part} ${arg_HEADERS})
      endif()
      hg_unity(${part} ALONE ${arg_ALONE})
    endif()
  endforeach()
endfunction()
