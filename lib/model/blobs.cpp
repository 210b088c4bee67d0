// SPDX-License-Identifier: Apache-2.0
// Uses the bytes of states in place, after checking them.
#include "lib/model/blobs.h"

#include <algorithm>

#include "lib/model/crc32c.h"
#include "lib/model/header.h"

namespace hg {

Result<Tensor> Blobs::read(std::string_view name, const file::State& state, DType dtype,
                           const Sizes& shape) {
  Tensor tensor = view(static_cast<void*>(nullptr), dtype, shape);
  if (static_cast<uint64_t>(tensor.bytes()) != state.bytes() ||
      state.offset() % kBlobAlignment != 0 ||
      !in_range(state.offset(), state.bytes(), section_.size()))
    return corrupt_model("state '", name, "' needs ", tensor.bytes(), " bytes; the file has ",
                         state.bytes(), " at ", state.offset(), " of ", uint64_t{section_.size()});
  tensor.data = const_cast<std::byte*>(section_.data() + state.offset());
  HG_TRY(check_bools(name, tensor));
  if (verify_) HG_TRY(check_sum(name, tensor, state));
  return tensor;
}

Result<std::string> Blobs::read(std::string_view name, const file::Attachment& attachment) {
  const uint64_t bytes = attachment.bytes();
  if (attachment.offset() % kBlobAlignment != 0 ||
      !in_range(attachment.offset(), bytes, section_.size()))
    return corrupt_model("the attachment '", name, "' has ", bytes, " bytes at ",
                         attachment.offset(), " of ", uint64_t{section_.size()});
  HG_TRY(uncopied_.take(bytes));
  const std::byte* first = section_.data() + attachment.offset();
  const uint32_t sum = crc32c(first, static_cast<size_t>(bytes));
  if (sum != attachment.crc32c())
    return corrupt_model("the attachment '", name, "' is damaged: the checksum of its ", bytes,
                         " bytes is ", int64_t{sum}, ", the file says ",
                         int64_t{attachment.crc32c()});
  return std::string(reinterpret_cast<const char*>(first), static_cast<size_t>(bytes));
}

Status Blobs::check_sum(std::string_view name, const Tensor& tensor, const file::State& source) {
  if (!source.crc32c().has_value())
    return unsupported("state '", name, "' has no checksum: the file was written before 0.2");
  const auto [sum, is_new] = sums_.try_emplace({tensor.data, tensor.bytes()}, 0);
  if (is_new) {
    HG_TRY(unsummed_.take(static_cast<uint64_t>(tensor.bytes())));
    sum->second = crc32c(tensor.data, static_cast<size_t>(tensor.bytes()));
  }
  if (sum->second != *source.crc32c())
    return corrupt_model("state '", name, "' is damaged: the checksum of its ", tensor.bytes(),
                         " bytes is ", int64_t{sum->second}, ", the file says ",
                         int64_t{*source.crc32c()});
  return {};
}

Status Blobs::check_bools(std::string_view name, const Tensor& tensor) {
  if (tensor.dtype != boolean || !scanned_.emplace(tensor.data, tensor.bytes()).second) return {};
  HG_TRY(unscanned_.take(static_cast<uint64_t>(tensor.bytes())));
  const uint8_t* first = tensor.as<const uint8_t>();
  if (std::any_of(first, first + tensor.count(), [](uint8_t byte) { return byte > 1; }))
    return corrupt_model("state '", name, "' is bool, but holds bytes other than 0 and 1");
  return {};
}

}  // namespace hg
