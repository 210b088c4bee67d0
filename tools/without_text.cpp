// SPDX-License-Identifier: Apache-2.0
// Where the tools are built without tokenizers.
#include "tools/generated_text.h"

namespace hg::tools {

struct GeneratedText::Body {
  std::vector<int32_t> stop_ids;
};

GeneratedText::GeneratedText(std::unique_ptr<Body> body) : body_(std::move(body)) {}
GeneratedText::GeneratedText(GeneratedText&&) noexcept = default;
GeneratedText::~GeneratedText() = default;

namespace {
Status without_text() {
  return unsupported("this build reads no tokenizers: build with HG_TEXT, or use --ids");
}
}  // namespace

Result<GeneratedText> GeneratedText::open(const std::string& path,
                                          const std::vector<std::string>& stops) {
  (void)path;
  (void)stops;
  return without_text();
}
Result<std::vector<int32_t>> GeneratedText::encode(const std::string&) const {
  return without_text();
}
const std::vector<int32_t>& GeneratedText::stop_ids() const { return body_->stop_ids; }
void GeneratedText::begin(size_t) {}
Result<std::string> GeneratedText::push(size_t, int32_t) { return without_text(); }
Result<std::string> GeneratedText::finish(size_t) { return without_text(); }
bool GeneratedText::has_ended(size_t) const { return false; }

}  // namespace hg::tools
