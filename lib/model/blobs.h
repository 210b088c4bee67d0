// SPDX-License-Identifier: Apache-2.0
// The data section of a file: the bytes of its states.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "hg/tensor.h"
#include "lib/model/budget.h"
#include "model_generated.h"

namespace hg {

// Bytes that several states share are checked once.
class Blobs {
 public:
  // `verify`: compares checksums with the bytes.
  explicit Blobs(std::span<const std::byte> section = {}, bool verify = false)
      : section_(section),
        verify_(verify),
        unscanned_(section.size()),
        unsummed_(section.size()),
        uncopied_(section.size()) {}

  // Returns the state's data in place. Checks that it has as many bytes as dtype and shape need,
  // and that bools are 0 or 1.
  Result<Tensor> read(std::string_view name, const file::State& state, DType dtype,
                      const Sizes& shape);
  // Returns a copy of the attachment's bytes. Always verifies their checksum.
  Result<std::string> read(std::string_view name, const file::Attachment& attachment);

 private:
  Status check_sum(std::string_view name, const Tensor& tensor, const file::State& source);
  Status check_bools(std::string_view name, const Tensor& tensor);

  std::span<const std::byte> section_;
  bool verify_;
  Budget unscanned_;
  std::set<std::pair<const void*, int64_t>> scanned_;
  Budget unsummed_;
  std::map<std::pair<const void*, int64_t>, uint32_t> sums_;
  Budget uncopied_;
};

}  // namespace hg
