// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: reads bytes as an .npy file. An array that is read has as many elements as the
// file holds, and is equal after writing and reading it again.
#include <cstdlib>
#include <cstring>

#include "hg/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const hg::Result<hg::Array> array = hg::read_npy(std::as_bytes(std::span(data, size)), "fuzz");
  if (!array.ok()) return 0;
  const hg::ConstTensor tensor = array->tensor();
  if (tensor.count() < 0 || static_cast<uint64_t>(tensor.bytes()) > size) std::abort();
  std::vector<std::byte> file = hg::npy_header(tensor.dtype, tensor.shape);
  const size_t head = file.size();
  file.resize(head + static_cast<size_t>(tensor.bytes()));
  if (tensor.count() > 0)
    copy_elements(tensor,
                  hg::view(static_cast<void*>(file.data() + head), tensor.dtype, tensor.shape));
  const hg::Result<hg::Array> again = hg::read_npy(file, "again");
  if (!again.ok() || again->tensor().shape != tensor.shape || again->tensor().dtype != tensor.dtype)
    std::abort();
  if (tensor.count() > 0 &&
      std::memcmp(again->tensor().data, file.data() + head, file.size() - head) != 0)
    std::abort();
  return 0;
}
