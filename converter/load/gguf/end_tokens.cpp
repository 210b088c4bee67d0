// SPDX-License-Identifier: Apache-2.0
#include "converter/load/gguf/end_tokens.h"

#include <algorithm>

namespace hg::convert::gguf {
namespace {

constexpr std::string_view kEnds[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "[e~[",
};

// Tokens of code models that end a file in the training texts. If the file does not name one, the
// first text that is a token counts.
struct OfFiles {
  std::string_view key;
  std::string_view texts[5];
};
constexpr OfFiles kOfFiles[] = {
    {"fim_pad", {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"fim_rep", {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"fim_sep", {"<|file_sep|>"}},
};

}  // namespace

std::vector<int64_t> end_tokens(
    const std::function<std::optional<int64_t>(std::string_view key)>& named,
    const std::function<std::optional<int64_t>(std::string_view text)>& id_of) {
  std::vector<int64_t> ends;
  const auto add = [&](std::optional<int64_t> id) {
    if (id && std::count(ends.begin(), ends.end(), *id) == 0) ends.push_back(*id);
    return id.has_value();
  };
  for (const std::string_view key : {"eos", "eot", "eom"}) add(named(key));
  for (const std::string_view text : kEnds) add(id_of(text));
  for (const OfFiles& each : kOfFiles) {
    if (add(named(each.key))) continue;
    for (const std::string_view text : each.texts)
      if (add(id_of(text))) break;
  }
  const auto remove = [&](std::string_view text) {
    const auto id = id_of(text);
    if (id) ends.erase(std::remove(ends.begin(), ends.end(), *id), ends.end());
  };
  // In vocabularies whose messages have several parts, <|end|> ends a part and not the answer.
  const bool calls = id_of("<|call|>") || id_of("<|calls|>");
  if (calls && (id_of("<|return|>") || id_of("<|flush|>"))) remove("<|end|>");
  // Here </s> is a tag of web pages.
  if (id_of("<|tool_response>")) remove("</s>");
  return ends;
}

bool is_end_text(std::string_view text) {
  if (std::count(std::begin(kEnds), std::end(kEnds), text) > 0) return true;
  return std::any_of(std::begin(kOfFiles), std::end(kOfFiles), [&](const OfFiles& each) {
    return !text.empty() && std::count(std::begin(each.texts), std::end(each.texts), text) > 0;
  });
}

}  // namespace hg::convert::gguf
