// SPDX-License-Identifier: Apache-2.0
// Which tokens of a GGUF file's vocabulary end an answer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace hg::convert::gguf {

// Returns the ids without repeats: first the ids that the file states (eos, eot, eom), of which
// most files state only one, then tokens whose texts are known to end answers. llama.cpp has the
// same set.
//
// `named` returns the id of a key, such as "eos", if the file has it. `id_of` returns the id of a
// text, if it is a token.
std::vector<int64_t> end_tokens(
    const std::function<std::optional<int64_t>(std::string_view key)>& named,
    const std::function<std::optional<int64_t>(std::string_view text)>& id_of);

// Returns whether the text is known to end answers.
bool is_end_text(std::string_view text);

}  // namespace hg::convert::gguf
