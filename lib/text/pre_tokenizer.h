// SPDX-License-Identifier: Apache-2.0
// The `pre_tokenizer` of a tokenizer.json: splits a normalized text into pieces that the model
// encodes separately. Pieces with an id are added tokens and stay unchanged.
#pragma once

#include <functional>
#include <vector>

#include "lib/text/normalizer.h"

namespace hg {

using Pieces = std::vector<Piece>;
using PreTokenizer = std::function<Status(Pieces&)>;

// The pre-tokenizer of a JSON value; null leaves the pieces unchanged.
Result<PreTokenizer> pre_tokenizer_from(const JsonAt& json, int depth = 0);

}  // namespace hg
