// SPDX-License-Identifier: Apache-2.0
#include "tools/stop_ids.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace hg::tools {

Result<std::vector<int32_t>> stop_ids_of(const Model& model) {
  std::vector<int32_t> ids;
  const Model::Attachment* file = model.attachment("generation_config.json");
  if (file == nullptr) return ids;
  const nlohmann::json config = nlohmann::json::parse(file->content, nullptr, false);
  if (!config.is_object())
    return corrupt_model("the attachment generation_config.json is not a JSON object");
  const auto found = config.find("eos_token_id");
  if (found == config.end() || found->is_null()) return ids;
  const nlohmann::json list = found->is_array() ? *found : nlohmann::json::array({*found});
  for (const nlohmann::json& id : list) {
    const auto max = uint64_t{std::numeric_limits<int32_t>::max()};
    if (!id.is_number_unsigned() || id.get<uint64_t>() > max)
      return corrupt_model("generation_config.json: eos_token_id is ", found->dump(),
                           ", expected a token id or a list of token ids");
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace hg::tools
