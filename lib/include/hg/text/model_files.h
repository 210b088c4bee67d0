// SPDX-License-Identifier: Apache-2.0
// The text files of a language model, which its .hgm file contains as attachments.
// These functions are in libhologram_text.
#pragma once

#include <cstdint>
#include <vector>

#include "hg/model.h"
#include "hg/text/chat_template.h"
#include "hg/text/tokenizer.h"

namespace hg {

// Reads tokenizer.json. Fails with not_found if the model has none, and as Tokenizer::from_json().
Result<Tokenizer> tokenizer_of(const Model& model);

// Reads chat_template.jinja, or the member chat_template of tokenizer_config.json. Fails with
// not_found if the model has neither, and as ChatTemplate::parse().
Result<ChatTemplate> chat_template_of(const Model& model);

// Returns options with bos_token and eos_token of tokenizer_config.json; empty if the model has
// none. The variables are unk_token, sep_token, pad_token, cls_token and mask_token, as far as the
// file has them. Fails with corrupt_model for other values than texts.
Result<ChatOptions> chat_options_of(const Model& model);

// Returns the ids that end a sequence: eos_token_id of generation_config.json, which is a number, a
// list, or nothing. Fails with corrupt_model for other values.
Result<std::vector<int32_t>> stop_ids_of(const Model& model);

// Returns the ids that begin an answer of an encoder-decoder: decoder_start_token_id and
// forced_bos_token_id of generation_config.json. Fails as stop_ids_of().
Result<std::vector<int32_t>> start_ids_of(const Model& model);

}  // namespace hg
