// SPDX-License-Identifier: Apache-2.0
// Filters of lists and dicts.
#pragma once

#include <span>

#include "lib/text/jinja/filters.h"

namespace hg::jinja {

std::span<const Filter> list_filters();

}  // namespace hg::jinja
