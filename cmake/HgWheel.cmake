# SPDX-License-Identifier: Apache-2.0
# The contents of `pip install .`: includes the converter if its dependencies are found, without libtorch, because
# processes that use the package have their own torch.
set(HG_TORCH none CACHE STRING "libtorch for hg-convert")
find_path(HG_ZIP_INCLUDE zip.h)
find_path(HG_JSON_INCLUDE nlohmann/json.hpp)
find_path(HG_CLI_INCLUDE CLI/CLI.hpp)
find_path(HG_OPENSSL_INCLUDE openssl/evp.h)
find_path(HG_PROTOBUF_INCLUDE google/protobuf/message_lite.h)
find_program(HG_PROTOC protoc)
set(HG_CONVERTS ON)
foreach(need IN ITEMS ZIP_INCLUDE JSON_INCLUDE CLI_INCLUDE OPENSSL_INCLUDE PROTOBUF_INCLUDE PROTOC)
  if(NOT HG_${need})
    set(HG_CONVERTS OFF)
    message(STATUS "hg.convert is left out: there is no HG_${need}")
  endif()
endforeach()
