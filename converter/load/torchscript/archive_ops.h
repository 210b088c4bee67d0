// SPDX-License-Identifier: Apache-2.0
// Finds calls of custom ops in the code of a TorchScript archive. libtorch rejects files with
// unknown ops, so these ops are declared to it first.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace hg::convert {

struct OpUse {
  int positional = 0;              // the most positional arguments of any call
  int results = 1;                 // the most variables that a call is unpacked into
  std::set<std::string> keywords;  // arguments given as `name=value`
};

// Adds the calls `ops.acme.wave(x, 2., n=4)` of TorchScript source text under "acme::wave".
void find_op_uses(std::string_view code, std::map<std::string, OpUse>& uses);

}  // namespace hg::convert
