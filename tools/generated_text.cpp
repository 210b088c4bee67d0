// SPDX-License-Identifier: Apache-2.0
#include "tools/generated_text.h"

#include "hg/text/stop_strings.h"
#include "hg/text/tokenizer.h"

namespace hg::tools {

struct GeneratedText::Body {
  struct Answer {
    StreamDecoder decoder;
    StopStrings stops;
  };
  Tokenizer tokenizer;
  std::vector<std::string> stops = {};
  std::vector<int32_t> stop_ids = {};
  std::vector<Answer> answers = {};
};

GeneratedText::GeneratedText(std::unique_ptr<Body> body) : body_(std::move(body)) {}
GeneratedText::GeneratedText(GeneratedText&&) noexcept = default;
GeneratedText::~GeneratedText() = default;

Result<GeneratedText> GeneratedText::open(const std::string& path,
                                          const std::vector<std::string>& stops) {
  HG_TRY_ASSIGN(Tokenizer tokenizer, Tokenizer::load(path));
  auto body = std::make_unique<Body>(Body{std::move(tokenizer)});
  for (const std::string& stop : stops) {
    const std::optional<int32_t> id = body->tokenizer.id_of(stop);
    if (id && body->tokenizer.is_special(*id))
      body->stop_ids.push_back(*id);
    else
      body->stops.push_back(stop);
  }
  return GeneratedText(std::move(body));
}

Result<std::vector<int32_t>> GeneratedText::encode(const std::string& text) const {
  return body_->tokenizer.encode(text);
}
const std::vector<int32_t>& GeneratedText::stop_ids() const { return body_->stop_ids; }

void GeneratedText::begin(size_t prompts) {
  body_->answers.clear();
  for (size_t i = 0; i < prompts; ++i)
    body_->answers.push_back({StreamDecoder(body_->tokenizer), StopStrings(body_->stops)});
}

Result<std::string> GeneratedText::push(size_t prompt, int32_t id) {
  Body::Answer& answer = body_->answers[prompt];
  HG_TRY_ASSIGN(const std::string text, answer.decoder.push(id));
  return answer.stops.push(text);
}

Result<std::string> GeneratedText::finish(size_t prompt) {
  Body::Answer& answer = body_->answers[prompt];
  HG_TRY_ASSIGN(const std::string rest, answer.decoder.finish());
  const std::string text = answer.stops.push(rest);
  return text + answer.stops.finish();
}

bool GeneratedText::has_ended(size_t prompt) const { return body_->answers[prompt].stops.found(); }

}  // namespace hg::tools
