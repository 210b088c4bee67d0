// SPDX-License-Identifier: Apache-2.0
// The table that SentencePiece compiles from normalization rules: a double-array trie of texts
// (Yata 2008, "darts-clone") and their replacements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hg/status.h"

namespace hg {

class Charsmap {
 public:
  // Checks every index of the table, so that no text causes an access outside it.
  static Result<Charsmap> read(std::string_view bytes);

  // Replacement of the shortest text in the table that is a prefix of `text`.
  std::optional<std::string_view> replacement(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
};

Result<std::string> from_base64(std::string_view text);

}  // namespace hg
