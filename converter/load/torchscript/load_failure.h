// SPDX-License-Identifier: Apache-2.0
// Explains in the user's terms why libtorch rejects a file.
#pragma once

#include <string>

#include "converter/core/failure.h"

namespace hg::convert {

// `what` is the text of libtorch's exception, often many lines; `version` is libtorch's.
Failure load_failure(const std::string& path, const std::string& what, const std::string& version);

}  // namespace hg::convert
