// SPDX-License-Identifier: Apache-2.0
// The Python source location of a node.
#pragma once

#include <string>

namespace hg::convert {

// Shortens paths of installed packages to begin with the package: "torch/nn/modules/linear.py".
inline std::string short_path(const std::string& path) {
  for (const std::string folder : {"site-packages/", "dist-packages/"})
    if (const size_t at = path.rfind(folder); at != std::string::npos)
      return path.substr(at + folder.size());
  return path;
}

}  // namespace hg::convert
