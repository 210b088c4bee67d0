// SPDX-License-Identifier: Apache-2.0
#include "hg/text/chat_template.h"

#include "lib/graph/border.h"
#include "lib/text/jinja/json.h"
#include "lib/text/jinja/run.h"
#include "lib/text/text_file.h"
#include "lib/text/unicode.h"

namespace hg {

struct ChatTemplate::Parsed {
  std::string name;
  jinja::Body body;
};

namespace {

using jinja::Value;
using Variables = std::vector<std::pair<std::string, Value>>;

// No known template is larger. The limit also bounds the syntax tree.
constexpr size_t kMostTemplateBytes = size_t{4} << 20;

Result<Value> json_value(std::string_view text, std::string_view what, bool is_list) {
  const auto json = nlohmann::ordered_json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) return invalid_argument("the ", what, " are not JSON");
  if (is_list ? !json.is_array() : !json.is_object())
    return invalid_argument("the ", what, " must be a JSON ", is_list ? "list" : "object");
  const Result<Value> value = jinja::value_from(json);
  if (!value.ok())
    return Status(value.status().code(), str_cat("the ", what, ": ", value.status().message()));
  return value;
}

void set(Variables& variables, const std::string& name, Value value) {
  for (auto& [known, old] : variables) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

Result<std::string> render(const ChatTemplate::Parsed& parsed, Value messages,
                           const ChatOptions& options) {
  Variables variables = {{"messages", std::move(messages)},
                         {"tools", Value::none()},
                         {"documents", Value::none()},
                         {"add_generation_prompt", Value::flag(options.add_generation_prompt)},
                         {"bos_token", Value::text(valid_utf8(options.bos_token))},
                         {"eos_token", Value::text(valid_utf8(options.eos_token))}};
  if (!options.tools.empty()) {
    HG_TRY_ASSIGN(Value tools, json_value(options.tools, "tools", true));
    set(variables, "tools", std::move(tools));
  }
  if (!options.variables.empty()) {
    HG_TRY_ASSIGN(const Value more, json_value(options.variables, "variables", false));
    for (const auto& [name, value] : more.as_dict()->items) set(variables, *name.as_text(), value);
  }
  return jinja::run(parsed.body, std::move(variables), options.now ? &*options.now : nullptr,
                    parsed.name);
}

}  // namespace

Result<ChatTemplate> ChatTemplate::load(const std::string& path) {
  return or_no_memory([&]() -> Result<ChatTemplate> {
    HG_TRY_ASSIGN(const std::string text, read_text_file(path));
    return parse(text, path);
  });
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view text, std::string_view name) {
  return or_no_memory([&]() -> Result<ChatTemplate> {
    HG_CHECK(text.size() <= kMostTemplateBytes, name, ": the template has ", uint64_t{text.size()},
             " bytes, at most ", uint64_t{kMostTemplateBytes}, " are supported");
    auto parsed = std::make_shared<Parsed>();
    parsed->name = name;
    HG_TRY_ASSIGN(parsed->body, jinja::parse(valid_utf8(text), parsed->name));
    return ChatTemplate(std::move(parsed));
  });
}

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages,
                                         const ChatOptions& options) const {
  return or_no_memory([&]() -> Result<std::string> {
    jinja::Meter meter;
    std::vector<Value> items;
    for (const ChatMessage& message : messages) {
      HG_TRY_ASSIGN(
          Value item,
          jinja::make_dict(meter,
                           {{Value::text("role"), Value::text(valid_utf8(message.role))},
                            {Value::text("content"), Value::text(valid_utf8(message.content))}}));
      items.push_back(std::move(item));
    }
    HG_TRY_ASSIGN(Value list, jinja::make_sequence(meter, std::move(items)));
    return hg::render(*parsed_, std::move(list), options);
  });
}

Result<std::string> ChatTemplate::render_json(std::string_view messages,
                                              const ChatOptions& options) const {
  return or_no_memory([&]() -> Result<std::string> {
    HG_TRY_ASSIGN(Value list, json_value(messages, "messages", true));
    return hg::render(*parsed_, std::move(list), options);
  });
}

}  // namespace hg
