// SPDX-License-Identifier: Apache-2.0
// The times of a run as text: nodes and ops, slowest first.
#pragma once

#include <span>
#include <string>

#include "hg/session.h"
#include "tools/machine_peak.h"

namespace hg::tools {

// The larger of two fractions: of the machine's arithmetic peak, and of its memory bandwidth.
double share_of_peak(const ProfileRow& row, const MachinePeak& peak);

std::string profile_text(std::span<const ProfileRow> rows, const MachinePeak& peak);

}  // namespace hg::tools
