# SPDX-License-Identifier: Apache-2.0
# hg_libtorch: the libtorch that the converter links. HG_TORCH says which one: `pip` is that of
# `python3 -c "import torch"`, `debian` is libtorch-dev, `auto` prefers pip's, and a path is an
# unpacked libtorch. Its own CMake package is not used, since that wants CUDA, MKL and protobuf found.
set(HG_TORCH auto CACHE STRING "libtorch for hg-convert: auto, pip, debian, or a folder")
set(HG_TORCH_PYTHON python3 CACHE STRING "the Python whose torch HG_TORCH=pip takes")

set(hg_torch_prefix "")
if(HG_TORCH STREQUAL "auto" OR HG_TORCH STREQUAL "pip")
  execute_process(
    COMMAND ${HG_TORCH_PYTHON} -c "import os, torch; print(os.path.dirname(torch.__file__))"
    OUTPUT_VARIABLE hg_torch_prefix ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT hg_torch_prefix AND HG_TORCH STREQUAL "pip")
    message(FATAL_ERROR "HG_TORCH=pip: ${HG_TORCH_PYTHON} cannot import torch; "
      "install it with `pip install torch`, or set HG_TORCH_PYTHON")
  endif()
elseif(NOT HG_TORCH STREQUAL "debian")
  set(hg_torch_prefix ${HG_TORCH})
endif()

set(hg_torch_search "")
if(hg_torch_prefix AND EXISTS ${hg_torch_prefix}/include/ATen/ATen.h)
  set(hg_torch_search NO_DEFAULT_PATH)
elseif(NOT HG_TORCH STREQUAL "auto" AND NOT HG_TORCH STREQUAL "debian")
  message(FATAL_ERROR "HG_TORCH=${HG_TORCH}: there is no include/ATen/ATen.h in ${hg_torch_prefix}")
else()
  set(hg_torch_prefix "")
endif()
unset(HG_TORCH_INCLUDE CACHE)
find_path(HG_TORCH_INCLUDE ATen/ATen.h PATHS ${hg_torch_prefix}/include ${hg_torch_search})
set(hg_torch_libraries "")
foreach(library torch torch_cpu c10)
  unset(HG_TORCH_${library} CACHE)
  find_library(HG_TORCH_${library} ${library} PATHS ${hg_torch_prefix}/lib ${hg_torch_search})
  list(APPEND hg_torch_libraries ${HG_TORCH_${library}})
endforeach()
if(NOT HG_TORCH_INCLUDE OR NOT HG_TORCH_torch_cpu OR NOT HG_TORCH_c10)
  message(FATAL_ERROR "hg-convert needs libtorch: install libtorch-dev or `pip install torch`, "
    "or build without it with -DHG_CONVERTER=OFF")
endif()
message(STATUS "libtorch: ${HG_TORCH_torch_cpu}")

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
