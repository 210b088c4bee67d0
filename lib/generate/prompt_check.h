// SPDX-License-Identifier: Apache-2.0
// What generators check before any run.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "hg/generator.h"
#include "lib/generate/decoder_session.h"

namespace hg {

// `what` names the text in messages: "generate: prompt 0".
Status check_text(const DecoderSession& decoder, std::span<const int32_t> ids,
                  std::string_view what);
Status check_prompts(const DecoderSession& decoder, std::span<const std::vector<int32_t>> prompts,
                     const GenerateOptions& options);

// Fails if the options of speculative decoding are outside their ranges.
Status check_proposals(const GenerateOptions& options);

}  // namespace hg
