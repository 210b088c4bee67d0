// SPDX-License-Identifier: Apache-2.0
// Small script programs written as text, one node per line:
//   %c:Tensor = aten::add.Tensor(self=%a, other=%b, alpha=1)
//   %d:int = prim::Constant 3
//   if %c -> %d:Tensor, %e:int { ... yield %x, %y } else { ... yield %z, %w }
//   loop 10, true, %x -> %y:Tensor (%i, %v) { ... yield true, %w }
//   return %d
// Arguments are values (%name) or constants: 3, 2.5, true, none, "text".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "converter/core/script.h"

namespace hg::test {

// `inputs` are names of tensors. `module` has the attributes that prim::GetAttr reads.
convert::ScriptProgram script(const std::vector<std::string>& inputs, std::string_view text);
// Adds a tensor of the root module: %w:Tensor = prim::GetAttr[weight](%self).
void add_tensor(convert::ScriptProgram& program, std::string name, State::Kind kind,
                TensorData data);

}  // namespace hg::test
