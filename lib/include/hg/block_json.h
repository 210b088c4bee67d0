// SPDX-License-Identifier: Apache-2.0
// Named models (hg/named.h) as JSON text. These functions are in libhologram_io, which reads JSON
// by the help of another library.
//
//   {"type": "Group", "blocks": [
//     {"type": "Input", "name": "x", "settings": {"shape": ["n", 784]}},
//     {"type": "Linear", "settings": {"out_features": 64}, "inputs": ["x"], "outputs":
//     ["hidden"]}]}
//
// A setting is a JSON value; what JSON does not tell apart is an object of one member: {"dim": "n"}
// is a size that depends on symbols, {"dtype": "f16"}, {"reals": [1.0]} and {"strings": ["a"]}. In
// a list texts are sizes. A wire with two names is {"outside": "image", "inside": "x"}. Numbers of
// a constant that are not finite are the texts "nan", "inf" and "-inf".
#pragma once

#include <string>
#include <string_view>

#include "hg/named.h"

namespace hg::nn {

// Members that are empty are left out. Fails where the array of a constant was freed, or is
// complex.
Result<std::string> to_json(const Block& model);
// to_json() of what this gives is the same text again. Fails with what is wrong and where: unknown
// members are an error. The model is not looked at further; compile() does that.
Result<Block> block_from_json(std::string_view text);

}  // namespace hg::nn
