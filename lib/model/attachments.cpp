// SPDX-License-Identifier: Apache-2.0
// Files that belong to a model, such as a tokenizer.json.
#include "lib/model/attachments.h"

#include <algorithm>
#include <set>

#include "lib/graph/utf8.h"

namespace hg {

Status check_attachments(std::span<const Model::Attachment> attachments) {
  std::set<std::string_view> names;
  for (const Model::Attachment& each : attachments) {
    HG_CHECK(!each.name.empty(), "an attachment has no name");
    HG_CHECK(utf8_end(each.name) == each.name.size(), "the name of the attachment '",
             escaped_utf8(each.name), "' is not UTF-8");
    HG_CHECK(names.insert(each.name).second, "there are two attachments '", each.name, "'");
  }
  return {};
}

const Model::Attachment* Model::attachment(std::string_view name) const {
  const auto found = std::find_if(info_.attachments.begin(), info_.attachments.end(),
                                  [&](const Attachment& each) { return each.name == name; });
  return found == info_.attachments.end() ? nullptr : &*found;
}

}  // namespace hg
