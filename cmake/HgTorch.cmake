# SPDX-License-Identifier: Apache-2.0
# hg_libtorch: the libtorch that the converter links, chosen by HgTorchChoice.cmake. Its own CMake package is not
# used, because it requires CUDA, MKL and protobuf. Without libtorch (HG_TORCH=none, or none is found) the target does
# not exist, and hg-convert reads only exported programs (.pt2) and ONNX.
set(HG_TORCH auto CACHE STRING "libtorch for hg-convert: auto, pip, debian, a folder, or none")
set(HG_TORCH_PYTHON python3 CACHE STRING "the Python whose torch is taken where nothing else names one")
set(hg_without_torch "${HG_TORCH}: hg-convert reads .pt2 and ONNX files, and checks ONNX alone")
if(HG_TORCH STREQUAL "none")
  set(HG_TORCH_MODELS_PYTHON ${HG_TORCH_PYTHON} CACHE INTERNAL "the Python that makes the tests' models")
  message(STATUS "libtorch: ${hg_without_torch}")
  return()
endif()
include(HgTorchChoice)
hg_choose_torch()
set(HG_TORCH_MODELS_PYTHON ${hg_torch_python} CACHE INTERNAL "the Python that makes the tests' models")

set(hg_torch_search "")
if(hg_torch_prefix)
  set(hg_torch_search PATHS ${hg_torch_prefix} NO_DEFAULT_PATH)
endif()
unset(HG_TORCH_INCLUDE CACHE)
find_path(HG_TORCH_INCLUDE ATen/ATen.h PATH_SUFFIXES include ${hg_torch_search})
set(hg_torch_libraries "")
foreach(library torch torch_cpu c10)
  unset(HG_TORCH_${library} CACHE)
  find_library(HG_TORCH_${library} ${library} PATH_SUFFIXES lib ${hg_torch_search})
  list(APPEND hg_torch_libraries ${HG_TORCH_${library}})
endforeach()
set(hg_torch_found TRUE)
if(NOT HG_TORCH_INCLUDE OR NOT HG_TORCH_torch_cpu OR NOT HG_TORCH_c10)
  set(hg_torch_found FALSE)
endif()
if(NOT hg_torch_found AND HG_TORCH STREQUAL "auto")
  message(STATUS "libtorch: none was found for HG_TORCH=${hg_without_torch}")
  return()
endif()
if(NOT hg_torch_found)
  message(FATAL_ERROR "hg-convert needs libtorch: install libtorch-dev or `pip install torch`, "
    "or build without it with -DHG_TORCH=none")
endif()
message(STATUS "libtorch: ${HG_TORCH_torch_cpu} (${hg_torch_reason})")

# SYSTEM, since its headers warn.
add_library(hg_libtorch INTERFACE)
target_include_directories(hg_libtorch SYSTEM INTERFACE ${HG_TORCH_INCLUDE})
if(EXISTS ${HG_TORCH_INCLUDE}/torch/csrc/api/include)
  target_include_directories(hg_libtorch SYSTEM INTERFACE
    ${HG_TORCH_INCLUDE}/torch/csrc/api/include)
endif()
target_link_libraries(hg_libtorch INTERFACE ${hg_torch_libraries})
if(hg_torch_prefix)
  # Found at run time where it is. pip's libgomp lies there as well, so CMake would warn of a conflict
  # if it knew; both are the same library.
  target_link_options(hg_libtorch INTERFACE "LINKER:-rpath,${hg_torch_prefix}/lib")
endif()
