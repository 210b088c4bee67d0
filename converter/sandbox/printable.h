// SPDX-License-Identifier: Apache-2.0
// Makes untrusted text safe to print on a terminal.
#pragma once

#include <string>

namespace hg::convert {

// Replaces control characters except line feeds by question marks, because terminals execute some
// of them.
inline std::string printable(std::string text) {
  for (char& c : text)
    if ((static_cast<unsigned char>(c) < 32 && c != '\n') || c == 127) c = '?';
  return text;
}

}  // namespace hg::convert
