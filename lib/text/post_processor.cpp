// SPDX-License-Identifier: Apache-2.0
#include "lib/text/post_processor.h"

#include "lib/text/normalizer.h"

namespace hg {
namespace {

PostProcessor nothing() {
  return [](std::vector<int32_t> ids, bool) { return ids; };
}

Result<int32_t> pair_id(const JsonAt& json) {
  if (!json->is_array() || json->size() != 2) return json.wrong("expected [token, id]");
  return json.item(1).whole();
}

// BERT's and RoBERTa's: one token before the text and one after it.
Result<PostProcessor> read_pair(const JsonAt& json) {
  HG_TRY_ASSIGN(const int32_t first, pair_id(json.member("cls")));
  HG_TRY_ASSIGN(const int32_t last, pair_id(json.member("sep")));
  return PostProcessor([first, last](std::vector<int32_t> ids, bool add_special) {
    if (!add_special) return ids;
    ids.insert(ids.begin(), first);
    ids.push_back(last);
    return ids;
  });
}

Result<PostProcessor> read_template(const JsonAt& json) {
  // Ids in the order of the template; kText represents the text.
  constexpr int32_t kText = -1;
  std::vector<int32_t> parts;
  const JsonAt single = json.member("single"), specials = json.member("special_tokens");
  HG_TRY(single.is_list());
  for (size_t i = 0; i < single->size(); ++i) {
    const JsonAt part = single.item(i);
    const JsonAt sequence = part.member("Sequence"), special = part.member("SpecialToken");
    if (!sequence.is_null()) {
      HG_TRY_ASSIGN(const std::string id, sequence.member("id").text());
      if (id != "A")
        return sequence.unknown("the template of one text has the sequence '", id, "'");
      parts.push_back(kText);
      continue;
    }
    if (special.is_null()) return part.wrong("expected an object with Sequence or SpecialToken");
    HG_TRY_ASSIGN(const std::string id, special.member("id").text());
    const JsonAt token = specials.member(id);
    if (token.is_null()) return special.wrong("'", id, "' is not in special_tokens");
    const JsonAt ids = token.member("ids");
    HG_TRY(ids.is_list());
    for (size_t k = 0; k < ids->size(); ++k) {
      HG_TRY_ASSIGN(const int32_t one, ids.item(k).whole());
      parts.push_back(one);
    }
  }
  return PostProcessor([parts](std::vector<int32_t> ids, bool add_special) {
    std::vector<int32_t> out;
    for (const int32_t part : parts) {
      if (part == kText)
        out.insert(out.end(), ids.begin(), ids.end());
      else if (add_special)
        out.push_back(part);
    }
    return out;
  });
}

}  // namespace

Result<PostProcessor> post_processor_from(const JsonAt& json, int depth) {
  if (json.is_null()) return nothing();
  if (depth > kMostNested)
    return json.wrong("post-processors are nested more than ", kMostNested, " deep");
  HG_TRY_ASSIGN(const std::string type, json.member("type").text());
  if (type == "ByteLevel") return nothing();  // only moves offsets
  if (type == "BertProcessing" || type == "RobertaProcessing") return read_pair(json);
  if (type == "TemplateProcessing") return read_template(json);
  if (type != "Sequence") return json.unknown("the post-processor '", type, "' is unknown");
  const JsonAt list = json.member("processors");
  HG_TRY(list.is_list());
  std::vector<PostProcessor> steps;
  for (size_t i = 0; i < list->size(); ++i) {
    HG_TRY_ASSIGN(PostProcessor step, post_processor_from(list.item(i), depth + 1));
    steps.push_back(std::move(step));
  }
  return PostProcessor([steps = std::move(steps)](std::vector<int32_t> ids, bool add_special) {
    for (const PostProcessor& step : steps) ids = step(std::move(ids), add_special);
    return ids;
  });
}

}  // namespace hg
