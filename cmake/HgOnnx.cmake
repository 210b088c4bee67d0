# SPDX-License-Identifier: Apache-2.0
# hg_onnx_messages(TARGET): compiles ONNX's definition of its files into TARGET, which then includes "hg_onnx.pb.h".
# Other libraries in the process, such as libtorch, may hold the same messages. Therefore these have their own package
# and no protobuf descriptors, which must be unique in a process.
function(hg_onnx_messages target)
  find_package(Protobuf REQUIRED)
  set(folder ${PROJECT_BINARY_DIR}/generated/onnx)
  set(proto ${PROJECT_SOURCE_DIR}/schema/hg_onnx.proto)
  add_custom_command(
    OUTPUT ${folder}/hg_onnx.pb.cc ${folder}/hg_onnx.pb.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND ${PROTOBUF_PROTOC_EXECUTABLE} --proto_path=${PROJECT_SOURCE_DIR}/schema --cpp_out=${folder} ${proto}
    DEPENDS ${proto}
    VERBATIM)
  target_sources(${target} PRIVATE ${folder}/hg_onnx.pb.cc ${folder}/hg_onnx.pb.h)
  set_source_files_properties(${folder}/hg_onnx.pb.cc PROPERTIES COMPILE_OPTIONS -w)
  target_include_directories(${target} SYSTEM PRIVATE ${folder} ${Protobuf_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE ${Protobuf_LITE_LIBRARIES})
endfunction()
