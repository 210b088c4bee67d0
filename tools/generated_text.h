// SPDX-License-Identifier: Apache-2.0
// Prompts and answers of hg-generate as text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hg/status.h"

namespace hg::tools {

class GeneratedText {
 public:
  // Reads a tokenizer.json. Special tokens among `stops` become stop ids, other stops end the text.
  // Fails with unsupported in a build without HG_TEXT.
  static Result<GeneratedText> open(const std::string& path, const std::vector<std::string>& stops);
  GeneratedText(GeneratedText&&) noexcept;
  ~GeneratedText();

  Result<std::vector<int32_t>> encode(const std::string& text) const;
  const std::vector<int32_t>& stop_ids() const;

  void begin(size_t prompts);
  // Returns the text that the token adds to the answer of a prompt.
  Result<std::string> push(size_t prompt, int32_t id);
  Result<std::string> finish(size_t prompt);
  bool has_ended(size_t prompt) const;  // at a stop

 private:
  struct Body;
  explicit GeneratedText(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg::tools
