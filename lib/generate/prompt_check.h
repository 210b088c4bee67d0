// SPDX-License-Identifier: Apache-2.0
// What generators check before any run.
#pragma once

#include <span>
#include <vector>

#include "hg/generator.h"
#include "lib/generate/decoder_session.h"

namespace hg {

Status check_prompts(const DecoderSession& decoder, std::span<const std::vector<int32_t>> prompts,
                     const GenerateOptions& options);

}  // namespace hg
