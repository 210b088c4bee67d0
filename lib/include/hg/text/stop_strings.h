// SPDX-License-Identifier: Apache-2.0
// Ends generated text at a string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hg {

// Ends a text at the first stop string. Holds back text that may be the beginning of one.
class StopStrings {
 public:
  // Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> stops);

  // Returns the text that is safe to show. After a stop string was found, found() is true and
  // nothing more is returned; the stop string itself and what follows it are not shown.
  std::string push(std::string_view text);
  // Returns the text that was held back. Nothing is held back if a stop string was found.
  std::string finish();
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace hg
