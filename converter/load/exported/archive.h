// SPDX-License-Identifier: Apache-2.0
// The records of a zip archive, read with libzip. Archives are untrusted. A record is read only if
// it has the expected size or is smaller than a limit. An archive that unpacks to far more than its
// own size is rejected.
#pragma once

#include <cstdint>
#include <map>
#include <string>

struct zip;

namespace hg::convert {

// The program's record name in torch.export.save of PyTorch 2.5 to 2.7.
inline constexpr char kProgramBefore28[] = "serialized_exported_program.json";

class Archive {
 public:
  // `label` replaces the path in messages. Throws Failure (unreadable).
  Archive(const std::string& path, std::string label);
  // The bytes of an archive inside another archive.
  struct Bytes {
    std::string all;
  };
  Archive(Bytes bytes, std::string label);
  ~Archive();
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  const std::string& label() const { return label_; }
  // The size of each record by its name, without the folder that torch puts around all records.
  const std::map<std::string, uint64_t>& sizes() const { return sizes_; }
  bool has(const std::string& name) const { return sizes_.count(name) > 0; }
  // Returns a text record. Throws Failure if it is missing or damaged.
  std::string text_of(const std::string& name) const;
  // Reads exactly `bytes` bytes to `to`. Throws Failure if the record has another size.
  void read(const std::string& name, void* to, uint64_t bytes) const;

 private:
  void list(uint64_t held);
  [[noreturn]] void fail(const std::string& name, const std::string& why) const;

  std::string label_, folder_, bytes_;
  zip* zip_ = nullptr;
  std::map<std::string, uint64_t> sizes_;
};

}  // namespace hg::convert
