// SPDX-License-Identifier: Apache-2.0
#include "request.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "hg/status.h"

namespace {

// Typed members of a request. Keeps the first error. A member that nothing reads is an error, so no
// parameter is ignored by accident.
class Fields {
 public:
  using Json = nlohmann::json;

  // `object` must outlive the fields. `path` begins the names in errors, such as "messages[2].".
  explicit Fields(const Json& object, std::string path = {})
      : object_(object), path_(std::move(path)) {}

  // The member; null if it is absent or null.
  const Json* find(const std::string& name);
  // These functions leave `out` unchanged if the member is absent or null. Bounds are inclusive.
  void get(const std::string& name, bool& out);
  void get(const std::string& name, std::string& out);
  void get(const std::string& name, int64_t& out, int64_t least, int64_t most);
  void get(const std::string& name, double& out, double least, double most);
  // Accepts the member only with one of these values, which change nothing.
  void accept(const std::string& name, std::initializer_list<Json> values);
  // Accepts any value: the member has no effect on answers.
  void skip(const std::string& name) { find(name); }

  template <class... Parts>
  void fail(const std::string& name, const Parts&... parts) {
    refuse({400, hg::str_cat(path_, name, ": ", parts...), path_ + name});
  }
  void refuse(ApiError error) {
    if (!error_) error_ = std::move(error);
  }
  bool ok() const { return !error_; }
  // The first error. Refuses members that nothing has read.
  std::optional<ApiError> finish();

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string> read_;
  std::optional<ApiError> error_;
};

const Fields::Json* Fields::find(const std::string& name) {
  read_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::get(const std::string& name, bool& out) {
  const Json* const found = find(name);
  if (found == nullptr) return;
  if (!found->is_boolean()) return fail(name, "expected true or false, got ", found->type_name());
  out = found->get<bool>();
}

void Fields::get(const std::string& name, std::string& out) {
  const Json* const found = find(name);
  if (found == nullptr) return;
  if (!found->is_string()) return fail(name, "expected a string, got ", found->type_name());
  out = found->get<std::string>();
}

void Fields::get(const std::string& name, int64_t& out, int64_t least, int64_t most) {
  const Json* const found = find(name);
  if (found == nullptr) return;
  if (!found->is_number_integer())
    return fail(name, "expected an integer, got ",
                found->is_number() ? found->dump() : found->type_name());
  // Unsigned numbers may exceed int64_t.
  const bool fits =
      !found->is_number_unsigned() || found->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  if (!fits || found->get<int64_t>() < least || found->get<int64_t>() > most)
    return fail(name, "expected an integer from ", least, " to ", most, ", got ", found->dump());
  out = found->get<int64_t>();
}

void Fields::get(const std::string& name, double& out, double least, double most) {
  const Json* const found = find(name);
  if (found == nullptr) return;
  if (!found->is_number()) return fail(name, "expected a number, got ", found->type_name());
  const double number = found->get<double>();
  if (!(number >= least && number <= most))
    return fail(name, "expected a number from ", least, " to ", most, ", got ", found->dump());
  out = number;
}

void Fields::accept(const std::string& name, std::initializer_list<Json> values) {
  const Json* const found = find(name);
  if (found == nullptr || std::find(values.begin(), values.end(), *found) != values.end()) return;
  std::string expected;
  for (const Json& value : values) expected += (expected.empty() ? "" : " or ") + value.dump();
  fail(name, "this server supports only ", expected);
}

std::optional<ApiError> Fields::finish() {
  for (const auto& [name, value] : object_.items()) {
    if (!ok()) break;
    if (!read_.contains(name) && !value.is_null())
      fail(name.size() > 64 ? name.substr(0, 64) : name, "this server does not know the parameter");
  }
  return error_;
}

using Json = nlohmann::json;

constexpr int64_t kMostIds = std::numeric_limits<int32_t>::max();

// A text, or a list of texts.
void read_stops(Fields& fields, std::vector<std::string>& stops) {
  constexpr size_t kMost = 4;
  const Json* const given = fields.find("stop");
  if (given == nullptr) return;
  if (!given->is_string() && !given->is_array())
    return fields.fail("stop", "expected a string or a list of strings, got ", given->type_name());
  const size_t count = given->is_array() ? given->size() : 1;
  if (count > kMost)
    return fields.fail("stop", "expected at most ", uint64_t{kMost}, " strings, got ",
                       uint64_t{count});
  for (size_t i = 0; i < count; ++i) {
    const Json& stop = given->is_array() ? (*given)[i] : *given;
    if (!stop.is_string()) return fields.fail("stop", "expected strings, got ", stop.type_name());
    if (stop.get_ref<const std::string&>().empty())
      return fields.fail("stop", "string ", uint64_t{i}, " is empty");
    stops.push_back(stop.get<std::string>());
  }
}

// An object of ids and numbers: {"50256": -100}.
void read_bias(Fields& fields, std::map<int32_t, float>& bias) {
  const Json* const given = fields.find("logit_bias");
  if (given == nullptr) return;
  if (!given->is_object())
    return fields.fail("logit_bias", "expected an object, got ", given->type_name());
  for (const auto& [name, value] : given->items()) {
    int32_t id = -1;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, id);
    if (error != std::errc() || stop != end || id < 0)
      return fields.fail("logit_bias", "expected token ids as names");
    if (!value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100))
      return fields.fail("logit_bias", "expected numbers from -100 to 100 for the id ", id);
    bias[id] = value.get<float>();
  }
}

void read_sampling(Fields& fields, CompletionRequest& out) {
  double temperature = 1, top_p = 1, min_p = 0, repetition_penalty = 1;
  int64_t top_k = 0, seed = 0;
  fields.get("temperature", temperature, 0, 2);
  fields.get("top_p", top_p, 0, 1);
  out.has_seed = fields.find("seed") != nullptr;
  fields.get("seed", seed, INT64_MIN, INT64_MAX);
  fields.get("frequency_penalty", out.frequency_penalty, -2, 2);
  fields.get("presence_penalty", out.presence_penalty, -2, 2);
  read_bias(fields, out.bias);
  // Not in OpenAI's API, but in many servers and as `extra_body` of its client.
  fields.get("top_k", top_k, 0, kMostIds);
  fields.get("min_p", min_p, 0, 1);
  fields.get("repetition_penalty", repetition_penalty, 0.01, 100);
  out.sampler.temperature = static_cast<float>(temperature);
  // A top_p of 0 keeps the most likely token; the sampler expects more than 0.
  out.sampler.top_p = std::max(static_cast<float>(top_p), std::numeric_limits<float>::min());
  out.sampler.top_k = static_cast<int32_t>(top_k);
  out.sampler.min_p = static_cast<float>(min_p);
  out.sampler.repetition_penalty = static_cast<float>(repetition_penalty);
  out.sampler.seed = static_cast<uint64_t>(seed);
}

void read_stream(Fields& fields, CompletionRequest& out) {
  fields.get("stream", out.streams);
  const Json* const given = fields.find("stream_options");
  if (given == nullptr) return;
  if (!given->is_object())
    return fields.fail("stream_options", "expected an object, got ", given->type_name());
  if (!out.streams) return fields.fail("stream_options", "needs stream");
  Fields options(*given);
  options.get("include_usage", out.wants_usage);
  options.skip("include_obfuscation");  // concerns the size of events
  if (const auto error = options.finish()) fields.fail("stream_options", error->message);
}

// Parameters of both routes.
void read_shared(Fields& fields, CompletionRequest& out) {
  fields.get("model", out.model);
  if (out.model.empty()) fields.fail("model", "expected the name of a model");
  read_stream(fields, out);
  read_stops(fields, out.stops);
  read_sampling(fields, out);
  fields.get("max_tokens", out.max_tokens, 0, kMostIds);
  fields.get("n", out.answers, 1, 128);
  for (const char* name : {"user", "metadata", "safety_identifier", "prompt_cache_key"})
    fields.skip(name);
}

void read_ids(Fields& fields, const char* name, const Json& given, std::vector<int32_t>& out) {
  if (!given.is_array())
    return fields.fail(name, "expected a string or a list of token ids, got ", given.type_name());
  if (given.empty()) return fields.fail(name, "has no token ids");
  for (const Json& id : given) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(kMostIds))
      return fields.fail(name, "expected token ids from 0 to ", kMostIds);
    out.push_back(id.get<int32_t>());
  }
}

// A text, ids, or a list with one of them.
void read_prompt(Fields& fields, CompletionRequest& out) {
  const Json* given = fields.find("prompt");
  if (given == nullptr) return fields.fail("prompt", "is missing");
  if (given->is_array() && !given->empty() && !given->front().is_number()) {
    if (given->size() > 1)
      return fields.fail("prompt", "this server supports one prompt per request, got ",
                         uint64_t{given->size()});
    given = &given->front();
  }
  if (given->is_string()) {
    out.text = given->get<std::string>();
    return;
  }
  read_ids(fields, "prompt", *given, out.ids);
}

// A text, ids, or a list of texts or of lists of ids.
void read_inputs(Fields& fields, EmbeddingRequest& out) {
  constexpr size_t kMost = 2048;  // as in OpenAI's API
  const Json* const given = fields.find("input");
  if (given == nullptr) return fields.fail("input", "is missing");
  const bool is_one = !given->is_array() || given->empty() || given->front().is_number();
  const size_t count = is_one ? 1 : given->size();
  if (count > kMost)
    return fields.fail("input", "expected at most ", uint64_t{kMost}, " texts, got ",
                       uint64_t{count});
  for (size_t i = 0; i < count; ++i) {
    const Json& each = is_one ? *given : (*given)[i];
    if (each.is_string())
      out.texts.push_back(each.get<std::string>());
    else
      read_ids(fields, "input", each, out.ids.emplace_back());
  }
  if (!out.texts.empty() && !out.ids.empty())
    fields.fail("input", "expected only texts, or only lists of token ids");
}

// The content of a message: a text, or a list of parts. Parts become lines.
std::string read_content(Fields& message) {
  const Json* const given = message.find("content");
  if (given == nullptr) {
    message.fail("content", "is missing");
    return {};
  }
  if (given->is_string()) return given->get<std::string>();
  if (!given->is_array() || given->empty()) {
    message.fail("content", "expected a string or a list of parts");
    return {};
  }
  std::string text;
  for (const Json& part : *given) {
    const bool is_text = part.is_object() && part.size() == 2 && part.contains("type") &&
                         part["type"] == "text" && part.contains("text") &&
                         part["text"].is_string();
    if (!is_text) {
      message.fail("content", "this server supports only parts with type \"text\" and a text");
      return {};
    }
    text += (&part == &given->front() ? "" : "\n") + part["text"].get<std::string>();
  }
  return text;
}

void read_messages(Fields& fields, CompletionRequest& out) {
  const Json* const given = fields.find("messages");
  if (given == nullptr) return fields.fail("messages", "is missing");
  if (!given->is_array() || given->empty())
    return fields.fail("messages", "expected a list of at least one message");
  Json messages = Json::array();
  for (size_t i = 0; i < given->size(); ++i) {
    const std::string index = hg::str_cat("messages[", uint64_t{i}, "]");
    if (!(*given)[i].is_object())
      return fields.fail(index, "expected an object, got ", (*given)[i].type_name());
    Fields message((*given)[i], index + ".");
    std::string role, name;
    message.get("role", role);
    if (role == "developer") role = "system";  // OpenAI's newer name
    if (role != "system" && role != "user" && role != "assistant")
      message.fail("role", "this server supports system, developer, user and assistant");
    Json& turn = messages.emplace_back(Json{{"role", role}, {"content", read_content(message)}});
    message.get("name", name);
    if (!name.empty()) turn["name"] = name;
    if (role == "assistant") {  // of an answer that is sent back
      message.accept("annotations", {Json::array()});
      message.accept("tool_calls", {Json::array()});
    }
    if (auto error = message.finish()) return fields.refuse(*std::move(error));
  }
  out.messages = messages.dump();
}

void read_completion(Fields& fields, CompletionRequest& out) {
  read_prompt(fields, out);
  if (out.max_tokens < 0) out.max_tokens = 16;  // OpenAI's default
  out.log_probabilities = fields.find("logprobs") != nullptr;
  fields.get("logprobs", out.alternatives, 0, 5);
  fields.accept("best_of", {out.answers});
  fields.accept("echo", {false});
  fields.accept("suffix", {""});
}

void read_chat(Fields& fields, CompletionRequest& out) {
  read_messages(fields, out);
  int64_t other = -1;
  fields.get("max_completion_tokens", other, 0, kMostIds);
  if (other >= 0 && out.max_tokens >= 0 && other != out.max_tokens)
    fields.fail("max_completion_tokens", "is ", other, ", but max_tokens is ", out.max_tokens);
  if (other >= 0) out.max_tokens = other;
  fields.get("logprobs", out.log_probabilities);
  fields.get("top_logprobs", out.alternatives, 0, 20);
  if (out.alternatives > 0 && !out.log_probabilities) fields.fail("top_logprobs", "needs logprobs");
  fields.accept("modalities", {Json::array({"text"})});
  fields.accept("tools", {Json::array()});
  fields.accept("functions", {Json::array()});
  fields.accept("tool_choice", {"none", "auto"});  // without tools
  fields.accept("function_call", {"none", "auto"});
  fields.accept("parallel_tool_calls", {true, false});
  fields.accept("store", {false});
  fields.accept("service_tier", {"auto", "default"});
  fields.accept("verbosity", {"medium"});
}

// Whether writing the value, which recurses, could need a large stack.
bool is_deep(const Json& value) {
  std::vector<std::pair<const Json*, int>> waiting = {{&value, 0}};
  while (!waiting.empty()) {
    const auto [each, depth] = waiting.back();
    waiting.pop_back();
    if (depth > 200) return true;
    if (each->is_structured())
      for (const Json& part : *each) waiting.emplace_back(&part, depth + 1);
  }
  return false;
}

// A text, any JSON object, or JSON of a schema, whose members keep their order in `body`.
void read_format(Fields& fields, std::string_view body, CompletionRequest& out) {
  const Json* const given = fields.find("response_format");
  if (given == nullptr) return;
  if (!given->is_object())
    return fields.fail("response_format", "expected an object, got ", given->type_name());
  Fields format(*given, "response_format.");
  std::string type;
  format.get("type", type);
  if (type == "json_object") {
    out.schema = R"({"type": "object"})";
  } else if (type == "json_schema") {
    const Json* const named = format.find("json_schema");
    if (named == nullptr || !named->is_object() || !named->contains("schema"))
      return fields.fail("response_format", "json_schema needs an object with a schema");
    Fields members(*named, "response_format.json_schema.");
    for (const char* name : {"name", "description", "strict", "schema"}) members.skip(name);
    if (auto error = members.finish()) return fields.refuse(*std::move(error));
    if (is_deep((*named)["schema"]))
      return fields.fail("response_format", "the schema is nested too deeply");
    out.schema =
        nlohmann::ordered_json::parse(body)["response_format"]["json_schema"]["schema"].dump();
  } else if (type != "text") {
    return fields.fail("response_format", "expected the type text, json_object or json_schema");
  }
  if (auto error = format.finish()) fields.refuse(*std::move(error));
}

}  // namespace

std::optional<ApiError> read_request(std::string_view body, bool is_chat, CompletionRequest& out) {
  const Json given = Json::parse(body, nullptr, false);
  if (!given.is_object()) return ApiError{400, "the body is not a JSON object in UTF-8"};
  Fields fields(given);
  out.is_chat = is_chat;
  read_shared(fields, out);
  is_chat ? read_chat(fields, out) : read_completion(fields, out);
  if (is_chat) read_format(fields, body, out);
  return fields.finish();
}

std::optional<ApiError> read_request(std::string_view body, EmbeddingRequest& out) {
  const Json given = Json::parse(body, nullptr, false);
  if (!given.is_object()) return ApiError{400, "the body is not a JSON object in UTF-8"};
  Fields fields(given);
  fields.get("model", out.model);
  if (out.model.empty()) fields.fail("model", "expected the name of a model");
  read_inputs(fields, out);
  std::string format = "float";
  fields.get("encoding_format", format);
  out.as_base64 = format == "base64";
  if (format != "float" && !out.as_base64)
    fields.fail("encoding_format", "expected float or base64");
  fields.skip("user");
  return fields.finish();
}
