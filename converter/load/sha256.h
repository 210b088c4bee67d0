// SPDX-License-Identifier: Apache-2.0
// SHA-256 of a file (FIPS 180-4). A .hgm file records it for the file that it was made from.
#pragma once

#include <string>

namespace hg::convert {

std::string sha256_of_file(const std::string& path);  // 64 hex digits; empty if unreadable

}  // namespace hg::convert
