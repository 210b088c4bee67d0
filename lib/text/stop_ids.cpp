// SPDX-License-Identifier: Apache-2.0
// Ids in generation_config.json. Apart from the other files of a model, because they need no
// tokenizer.
#include <limits>
#include <nlohmann/json.hpp>

#include "hg/text/model_files.h"
#include "lib/graph/border.h"

namespace hg {
namespace {

// The ids of a member: a number, a list, or nothing.
Result<std::vector<int32_t>> ids_of(const Model& model, const char* name) {
  std::vector<int32_t> ids;
  const Model::Attachment* file = model.attachment("generation_config.json");
  if (file == nullptr) return ids;
  const nlohmann::json config = nlohmann::json::parse(file->content, nullptr, false);
  if (!config.is_object())
    return corrupt_model("the attachment generation_config.json is not a JSON object");
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return ids;
  const size_t count = found->is_array() ? found->size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const nlohmann::json& id = found->is_array() ? (*found)[i] : *found;
    const auto max = uint64_t{std::numeric_limits<int32_t>::max()};
    if (!id.is_number_unsigned() || id.get<uint64_t>() > max)
      return corrupt_model("generation_config.json: ", name, " has ",
                           id.is_structured() ? std::string(id.type_name()) : id.dump(),
                           ", expected a token id or a list of token ids");
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace

Result<std::vector<int32_t>> stop_ids_of(const Model& model) {
  return or_no_memory([&] { return ids_of(model, "eos_token_id"); });
}

Result<std::vector<int32_t>> start_ids_of(const Model& model) {
  return or_no_memory([&]() -> Result<std::vector<int32_t>> {
    HG_TRY_ASSIGN(std::vector<int32_t> ids, ids_of(model, "decoder_start_token_id"));
    HG_TRY_ASSIGN(const std::vector<int32_t> forced, ids_of(model, "forced_bos_token_id"));
    ids.insert(ids.end(), forced.begin(), forced.end());
    return ids;
  });
}

}  // namespace hg
