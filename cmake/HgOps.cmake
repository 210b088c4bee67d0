# SPDX-License-Identifier: Apache-2.0
# HG_OPS: the models that a build serves, as .hgm files or as the output of `hg-info --needs`. The library then holds
# only the ops, kernels and dtypes that they need, and rejects others. HG_INFO is the hg-info that reads the models:
# of the same version, from a full build.
set(HG_OPS "" CACHE STRING "Models (.hgm) whose ops alone the library holds; empty: all ops")

# hg_chosen_ops(TARGET): defines HG_CHOSEN for TARGET and writes hg_chosen.h (lib/table/holds.h).
function(hg_chosen_ops target)
  set(sets plain neon ${HG_SIMD_TARGETS})
  list(JOIN sets | sets)
  set(names "")
  set(ops "")
  set(kernels "")
  set(dtypes "")
  foreach(file IN LISTS HG_OPS)
    get_filename_component(file ${file} ABSOLUTE BASE_DIR ${CMAKE_BINARY_DIR})
    if(NOT EXISTS ${file})
      message(FATAL_ERROR "HG_OPS: there is no file ${file}")
    endif()
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME)
    if(name MATCHES "\\.hgm$")
      find_program(HG_INFO hg-info)
      if(NOT HG_INFO)
        message(FATAL_ERROR "HG_OPS: hg-info is not found; -DHG_INFO= names the one of a build with all ops")
      endif()
      execute_process(COMMAND ${HG_INFO} --needs ${file} OUTPUT_VARIABLE needs ERROR_VARIABLE error RESULT_VARIABLE result)
      if(NOT result EQUAL 0)
        message(FATAL_ERROR "HG_OPS: ${HG_INFO} --needs ${file} gives ${result}: ${error}")
      endif()
    else()
      file(READ ${file} needs)
    endif()
    if(NOT needs MATCHES "^hologram ${PROJECT_VERSION}\n")
      message(FATAL_ERROR "HG_OPS: what ${name} needs is not told by hologram ${PROJECT_VERSION}")
    endif()
    string(REGEX MATCHALL "\nop [a-z0-9_]+" found "${needs}")
    list(TRANSFORM found REPLACE "\nop (.*)" "\"\\1\"")
    list(APPEND ops ${found})
    # The kernels that plans use with an instruction set of the library.
    string(REGEX MATCHALL "\nkernel [a-z0-9_]+ [a-z0-9_]+[a-z0-9 ]*" found "${needs}")
    list(FILTER found INCLUDE REGEX " (${sets})( |$)")
    list(TRANSFORM found REPLACE "\nkernel ([a-z0-9_]+) ([a-z0-9_]+).*" "ChosenKernel{\"\\1\", \"\\2\"}")
    list(APPEND kernels ${found})
    string(REGEX MATCHALL "\ndtype [a-z0-9]+" found "${needs}")
    list(TRANSFORM found REPLACE "\ndtype (.*)" "DType::\\1")
    string(REPLACE "DType::bool" "DType::bool_" found "${found}")
    list(APPEND dtypes ${found})
    list(APPEND names ${name})
  endforeach()
  foreach(found ops kernels dtypes)
    list(REMOVE_DUPLICATES ${found})
    list(LENGTH ${found} ${found}_count)
    list(JOIN ${found} ",\n    " ${found})
  endforeach()
  list(JOIN names ", " names)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/hg_chosen.h @ONLY
    CONTENT "#pragma once
namespace hg {
inline constexpr std::string_view kChosenModels = \"@names@\";
inline constexpr std::array<std::string_view, @ops_count@> kChosenOps = {
    @ops@};
inline constexpr std::array<ChosenKernel, @kernels_count@> kChosenKernels = {
    @kernels@};
inline constexpr std::array<DType, @dtypes_count@> kChosenDTypes = {
    @dtypes@};
template <class All, class One>
constexpr bool has(const All& all, const One& one) {
  return std::count(all.begin(), all.end(), one) > 0;
}
}
")
  target_compile_definitions(${target} PRIVATE HG_CHOSEN=1)
endfunction()
