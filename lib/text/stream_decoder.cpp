// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "hg/text/tokenizer.h"
#include "lib/graph/border.h"
#include "lib/text/tokenizer_model.h"

namespace hg {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";
// Ids whose text was already returned, kept as context of later ids.
constexpr size_t kContext = 8;

}  // namespace

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

Result<std::string> StreamDecoder::append(std::string_view text) {
  if (!text.starts_with(shown_))
    return unsupported("the decoder of the tokenizer changes text that was already returned");
  return std::string(text.substr(shown_.size()));
}

Result<std::string> StreamDecoder::push(int32_t id) {
  return or_no_memory([&]() -> Result<std::string> {
    const Tokenizer::Model& model = tokenizer_.model();
    HG_TRY(tokenizer_.decode({&id, 1}, skip_special_).status());  // checks that the id is valid
    std::vector<int32_t> ids = ids_;
    ids.push_back(id);
    const bool in_bytes = model.ends_in_byte(id, skip_special_, in_bytes_);
    std::string text, shown = shown_;
    if (model.decoder().appends && !in_bytes) {
      HG_TRY_ASSIGN(std::string all, tokenizer_.decode(ids, skip_special_));
      // U+FFFD at the end may be a character with missing bytes.
      if (!all.ends_with(kReplacement)) {
        HG_TRY_ASSIGN(text, append(all));
        shown = std::move(all);
        if (model.decoder().is_local && ids.size() >= 4 * kContext) {
          std::vector<int32_t> fewer(ids.end() - kContext, ids.end());
          HG_TRY_ASSIGN(std::string context, tokenizer_.decode(fewer, skip_special_));
          // An empty text or an incomplete character cannot serve as context.
          if (!context.empty() && !context.starts_with(kReplacement)) {
            ids = std::move(fewer);
            shown = std::move(context);
          }
        }
      }
    }
    ids_ = std::move(ids);
    shown_ = std::move(shown);
    in_bytes_ = in_bytes;
    return text;
  });
}

Result<std::string> StreamDecoder::finish() {
  return or_no_memory([&]() -> Result<std::string> {
    HG_TRY_ASSIGN(const std::string all, tokenizer_.decode(ids_, skip_special_));
    Result<std::string> text = append(all);
    ids_.clear();
    shown_.clear();
    in_bytes_ = false;
    return text;
  });
}

}  // namespace hg
