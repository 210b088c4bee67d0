// SPDX-License-Identifier: Apache-2.0
#include "lib/text/text_file.h"

#include <fstream>

namespace hg {

Result<std::string> read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found(path, ": cannot be opened");
  std::string bytes;
  constexpr size_t kPiece = 1 << 20;
  while (file) {
    const size_t had = bytes.size();
    bytes.resize(had + kPiece);
    file.read(bytes.data() + had, kPiece);
    bytes.resize(had + static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) return not_found(path, ": cannot be read");
  return bytes;
}

}  // namespace hg
