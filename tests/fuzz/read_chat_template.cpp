// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: reads bytes as a chat template, and renders a conversation.
#include <cstdlib>
#include <vector>

#include "hg/text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const hg::Result<hg::ChatTemplate> chat = hg::ChatTemplate::parse(bytes, "fuzz");
  if (!chat.ok()) {
    if (chat.status().message().empty()) std::abort();
    return 0;
  }
  const std::vector<hg::ChatMessage> messages = {{"user", " Hi\n"}, {"assistant", "42"}};
  hg::ChatOptions options;
  options.bos_token = "<s>";
  const auto text = chat->render(messages, options);
  if (!text.ok() && text.status().message().empty()) std::abort();
  return 0;
}
