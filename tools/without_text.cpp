// SPDX-License-Identifier: Apache-2.0
// For tools built without tokenizers.
#include "tools/generated_text.h"

namespace hg::tools {

Result<std::unique_ptr<GeneratedText>> GeneratedText::open(const Model&, const std::string&,
                                                           const std::vector<std::string>&) {
  return unsupported("this build has no tokenizers: build with HG_TEXT, or use --ids");
}

Result<std::unique_ptr<ChatPrompts>> ChatPrompts::open(const Model&, const std::string&) {
  return unsupported("this build has no chat templates: build with HG_TEXT");
}

}  // namespace hg::tools
