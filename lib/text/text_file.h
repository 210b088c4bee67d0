// SPDX-License-Identifier: Apache-2.0
// Reads the bytes of a file.
#pragma once

#include <string>

#include "hg/status.h"

namespace hg {

Result<std::string> read_text_file(const std::string& path);

}  // namespace hg
