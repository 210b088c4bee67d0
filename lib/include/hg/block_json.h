// SPDX-License-Identifier: Apache-2.0
// Named models (hg/named.h) as JSON text. These functions are in libhologram_io, which uses a JSON
// library.
//
//     {"type": "Group", "blocks": [
//       {"type": "Input", "name": "x", "settings": {"shape": ["n", 784]}},
//       {"type": "Linear", "settings": {"out_features": 64},
//        "inputs": ["x"], "outputs": ["hidden"]}]}
//
// A setting is a JSON value. Types that JSON cannot express are objects with one member:
//
// - {"dim": "n"}: a size that depends on symbols; in a list of sizes, the string alone
// - {"dtype": "f16"}: a dtype
// - {"real": "nan"}: a number that is not finite, as "nan", "inf" or "-inf"
// - {"reals": [1.0]}: a list of floats
// - {"strings": ["a"]}: a list of strings
//
// A wire with two names is {"outside": "image", "inside": "x"}. Non-finite elements of a constant
// are the strings "nan", "inf" and "-inf".
#pragma once

#include <string>
#include <string_view>

#include "hg/named.h"

namespace hg::nn {

// Omits empty members. Fails with invalid_argument if the array of a constant is empty, freed or
// complex, or if a setting occurs twice.
Result<std::string> to_json(const Block& model);
// Parses a model. The message of an error names the problem and its position; unknown members are
// errors. Converting the result with to_json() reproduces text from to_json(). The model itself is
// checked by compile().
Result<Block> block_from_json(std::string_view text);

}  // namespace hg::nn
