# SPDX-License-Identifier: Apache-2.0
# hg_shaders(TARGET NAME=SOURCE[:OPTION...] ...): compiles shaders/SOURCE.comp to SPIR-V with the glslang options
# after the colon, and gives TARGET a header hg_shaders.inc with one row of kShaders per NAME.
find_program(HG_GLSLANG glslangValidator)

function(hg_shaders target)
  set(folder ${PROJECT_BINARY_DIR}/generated/shaders)
  file(MAKE_DIRECTORY ${folder})
  file(GLOB includes CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shaders/*.glsl)
  list(APPEND includes ${PROJECT_SOURCE_DIR}/lib/include/hg/activations.inc)
  set(headers "")
  set(rows "")
  foreach(entry IN LISTS ARGN)
    string(REGEX MATCH "^([a-z0-9_]+)=([a-z0-9_]+):?(.*)$" matched "${entry}")
    set(name ${CMAKE_MATCH_1})
    set(source ${PROJECT_SOURCE_DIR}/shaders/${CMAKE_MATCH_2}.comp)
    string(REPLACE ":" ";" options "${CMAKE_MATCH_3}")
    if(NOT "--keep-uncalled" IN_LIST options)  # functions of a library are called by name
      list(APPEND options -g0)
    endif()
    set(header ${folder}/${name}.h)
    add_custom_command(OUTPUT ${header}
      COMMAND ${HG_GLSLANG} -V --quiet --target-env vulkan1.1 -I${PROJECT_SOURCE_DIR}/shaders -I${PROJECT_SOURCE_DIR}/lib/include
              ${options} --vn k_${name} -o ${header} ${source}
      DEPENDS ${source} ${includes} VERBATIM)
    list(APPEND headers ${header})
    string(APPEND text "#include \"shaders/${name}.h\"\n")
    string(APPEND rows "    {\"${name}\", k_${name}},\n")
  endforeach()
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/generated/hg_shaders.inc CONTENT
"#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
namespace hg::vulkan {
namespace {
${text}
constexpr std::pair<std::string_view, std::span<const uint32_t>> kShaders[] = {
${rows}};
}  // namespace
}  // namespace hg::vulkan
")
  target_sources(${target} PRIVATE ${headers})
endfunction()

# hg_shader_functions(FILE...): writes hg_vulkan_functions.inc, the names of the functions op_NAME that these files of
# shaders/ define.
function(hg_shader_functions)
  set(names "")
  foreach(file IN LISTS ARGN)
    set(source ${PROJECT_SOURCE_DIR}/shaders/${file})
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(READ ${source} text)
    string(REGEX MATCHALL "[a-z0-9T] op_[a-z0-9_]+\\(const" found "${text}")
    list(APPEND names ${found})
  endforeach()
  list(TRANSFORM names REPLACE "^. op_(.*)\\(const$" "\"\\1\",\n")
  list(REMOVE_DUPLICATES names)
  list(JOIN names "" rows)
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/generated/hg_vulkan_functions.inc CONTENT "${rows}")
endfunction()
