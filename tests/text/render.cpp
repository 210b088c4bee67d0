// SPDX-License-Identifier: Apache-2.0
// render: answers lines of standard input, for chat_templates.py. A line is a JSON object with
// `template` and `messages`, and perhaps `tools`, `variables`, `bos_token`, `eos_token` and
// `add_generation_prompt`. An answer is {"text": ...} or {"error": ..., "code": ...}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "hg/text/chat_template.h"

namespace {

using nlohmann::ordered_json;

hg::Result<std::string> render(const ordered_json& job) {
  HG_TRY_ASSIGN(const hg::ChatTemplate chat,
                hg::ChatTemplate::parse(job["template"].get_ref<const std::string&>(), "chat"));
  hg::ChatOptions options;
  options.bos_token = job.value("bos_token", "");
  options.eos_token = job.value("eos_token", "");
  options.add_generation_prompt = job.value("add_generation_prompt", true);
  if (job.contains("tools")) options.tools = job["tools"].dump();
  if (job.contains("variables")) options.variables = job["variables"].dump();
  std::tm now{};
  now.tm_year = 126, now.tm_mon = 1, now.tm_mday = 3, now.tm_wday = 2, now.tm_yday = 33;
  now.tm_hour = 4, now.tm_min = 5, now.tm_sec = 6;
  options.now = now;
  return chat.render_json(job["messages"].dump(), options);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const hg::Result<std::string> text = render(ordered_json::parse(line));
    ordered_json answer;
    if (text.ok()) {
      answer["text"] = *text;
    } else {
      answer["error"] = text.status().message();
      answer["code"] = hg::to_string(text.status().code());
    }
    std::cout << answer.dump() << std::endl;
  }
}
