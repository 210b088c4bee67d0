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
#include <vector>

#include "flatbuffers/flatbuffers.h"
#include "hg/status.h"
#include "hg/tensor.h"
#include "lib/graph/utf8.h"
#include "model_generated.h"

namespace hg {

// Bounded reads from untrusted bytes.
inline bool in_range(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

// A flatbuffers vector that may be absent.
template <class T>
size_t size_of_vector(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// Number of bytes that may still be read from the flatbuffer. Tables are not counted: the verifier
// counts them.
class Budget {
 public:
  explicit Budget(uint64_t bytes) : left_(bytes) {}

  Status take(uint64_t bytes) {
    if (bytes > left_) return corrupt_model("the same bytes stand for many parts of the graph");
    left_ -= bytes;
    return {};
  }
  Result<std::string_view> read(const flatbuffers::String* text) {
    if (text == nullptr) return std::string_view();
    HG_TRY(take(text->size()));
    const std::string_view view(text->c_str(), text->size());
    if (const size_t bad = utf8_end(view); bad < view.size())
      return corrupt_model("the text '", escaped_utf8(around(view, bad)), "' is not UTF-8");
    return view;
  }
  template <class T>
  Result<std::vector<T>> read(const flatbuffers::Vector<T>* vector) {
    HG_TRY(take(size_of_vector(vector) * sizeof(T)));
    // flatbuffers' verifier checks only the alignment of the length.
    if (vector != nullptr && reinterpret_cast<uintptr_t>(vector->Data()) % alignof(T) != 0)
      return corrupt_model("a list of numbers does not lie at a multiple of their size");
    return vector == nullptr ? std::vector<T>() : std::vector<T>(vector->begin(), vector->end());
  }

 private:
  // Some text on both sides of an invalid byte, cut at character boundaries.
  static std::string_view around(std::string_view text, size_t at) {
    constexpr size_t kShown = 32;  // bytes on each side
    const auto continues = [&](size_t i) {
      return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
    };
    size_t first = at - std::min(at, kShown), end = std::min(text.size(), at + 1 + kShown);
    while (first < at && continues(first)) ++first;
    while (end > at + 1 && continues(end)) --end;
    return text.substr(first, end - first);
  }

  uint64_t left_;
};

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
