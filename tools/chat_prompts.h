// SPDX-License-Identifier: Apache-2.0
// Conversations of hg-generate as prompts, by the model's chat template.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hg/model.h"

namespace hg::tools {

struct ChatTurn {
  std::string role, text;
};

class ChatPrompts {
 public:
  // Reads the template at `path` or, if `path` is empty, the model's: chat_template.jinja, or
  // chat_template in tokenizer_config.json. Fails with invalid_argument if the model has none, and
  // with unsupported in a build without HG_TEXT.
  static Result<std::unique_ptr<ChatPrompts>> open(const Model& model, const std::string& path);
  virtual ~ChatPrompts() = default;

  // Returns the prompt for the model's next answer, including special tokens.
  virtual Result<std::string> render(const std::vector<ChatTurn>& turns) const = 0;
};

}  // namespace hg::tools
