// SPDX-License-Identifier: Apache-2.0
// The container of a GGUF file, versions 2 and 3: metadata by key, and tensors by name. A model
// split into several files is read as one. Every count, length and offset is checked against the
// file size before first use. Texts and tensor data stay in the mapped files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hg/tensor.h"

namespace hg::convert::gguf {

// A metadata value. Integers of all widths are int64_t. The elements of an array have one type.
using Metadata =
    std::variant<bool, int64_t, double, std::string_view, std::vector<bool>, std::vector<int64_t>,
                 std::vector<double>, std::vector<std::string_view>>;

struct TensorInfo {
  int32_t type = 0;  // ggml's number, see block_format()
  Sizes shape;       // in PyTorch's order: the last dim is contiguous
  std::span<const std::byte> data;
};

// Returns the paths of all files of a split model, in order, if the name of `path` says that it is
// the first, as NAME-00001-of-00003.gguf does. Otherwise returns only `path`.
std::vector<std::string> part_paths(const std::string& path);

class File {
 public:
  // Opens a file, or the first file of a split model with all others, which must be in the same
  // folder. Throws Failure. `label` replaces the path in messages.
  static File open(const std::string& path, const std::string& label);

  const std::string& label() const { return label_; }
  // Returns the paths of all files.
  const std::vector<std::string>& paths() const { return paths_; }
  const std::map<std::string_view, Metadata>& metadata() const { return metadata_; }
  const std::map<std::string_view, TensorInfo>& tensors() const { return tensors_; }

  // Returns a metadata value; nullopt if the key is missing. Throws Failure if the type differs;
  // real() also accepts an integer.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> real(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;

 private:
  friend class Parser;
  static File open_one(const std::string& path, const std::string& label);
  void add_parts(int64_t count);
  const Metadata* find(std::string_view key) const;

  std::string label_;
  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<void>> owners_;  // keep the bytes of texts and tensors alive
  std::map<std::string_view, Metadata> metadata_;
  std::map<std::string_view, TensorInfo> tensors_;
};

}  // namespace hg::convert::gguf
