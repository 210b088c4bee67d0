// SPDX-License-Identifier: Apache-2.0
// Finds calls of custom ops in the code of a TorchScript archive. libtorch rejects files with
// unknown ops, so these ops must be declared to it first.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace hg::convert {

struct OpUse {
  int positional = 0;              // the maximum over all calls
  int results = 1;                 // the maximum number of variables that a call is unpacked into
  std::set<std::string> keywords;  // arguments given as `name=value`
};

// Adds the calls in TorchScript source text: `ops.acme.wave(x, 2., n=4)` under "acme::wave".
void find_op_uses(std::string_view code, std::map<std::string, OpUse>& uses);

}  // namespace hg::convert
