// SPDX-License-Identifier: Apache-2.0
#include "reply.h"

#include <algorithm>
#include <string_view>

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Names are returned unchanged, whatever their bytes.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// JSON has no infinity. OpenAI writes this number for a token that cannot occur.
double printable(double log_probability) { return std::max(log_probability, -9999.0); }

// The bytes of a token; null if they are part of a character, because its text is U+FFFD then.
Json bytes_of(const std::string& text) {
  if (text.find(kReplacement) != std::string::npos) return nullptr;
  Json bytes = Json::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

Json chat_token(const std::string& text, double log_probability) {
  return {{"token", text}, {"logprob", printable(log_probability)}, {"bytes", bytes_of(text)}};
}

// The prompt counts once; later answers find it in the cache.
Json usage_of(const std::vector<Outcome>& outcomes) {
  const int64_t prompt = outcomes[0].prompt_tokens;
  int64_t tokens = 0;
  for (const Outcome& outcome : outcomes) tokens += outcome.tokens;
  return {{"prompt_tokens", prompt},
          {"completion_tokens", tokens},
          {"total_tokens", prompt + tokens},
          {"prompt_tokens_details", {{"cached_tokens", outcomes[0].cached_tokens}}}};
}

Json model_of(const std::string& name, int64_t created) {
  return {{"id", name}, {"object", "model"}, {"created", created}, {"owned_by", "hologram"}};
}

}  // namespace

Reply::Reply(const CompletionRequest& request, const std::string& id, int64_t created)
    : is_chat_(request.is_chat),
      wants_usage_(request.wants_usage),
      log_probabilities_(request.log_probabilities),
      alternatives_(request.alternatives),
      model_(request.model),
      id_((request.is_chat ? "chatcmpl-" : "cmpl-") + id),
      created_(created) {}

Json Reply::head(bool is_event) const {
  const char* const object = !is_chat_  ? "text_completion"
                             : is_event ? "chat.completion.chunk"
                                        : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

Json Reply::log_probabilities(const Piece& piece) const {
  if (!log_probabilities_) return nullptr;
  Json tokens = Json::array(), values = Json::array(), offsets = Json::array();
  Json tops = alternatives_ > 0 ? Json::array() : Json(), content = Json::array();
  for (const TokenRow& row : piece.tokens) {
    if (is_chat_) {
      Json token = chat_token(row.text, row.log_probability);
      token["top_logprobs"] = Json::array();
      for (const auto& [text, value] : row.alternatives)
        token["top_logprobs"].push_back(chat_token(text, value));
      content.push_back(std::move(token));
      continue;
    }
    tokens.push_back(row.text);
    values.push_back(printable(row.log_probability));
    offsets.push_back(row.offset);
    if (alternatives_ == 0) continue;
    Json top = Json::object();  // ids of equal text: the most likely one
    for (const auto& [text, value] : row.alternatives)
      if (!top.contains(text)) top[text] = printable(value);
    if (!top.contains(row.text)) top[row.text] = printable(row.log_probability);
    tops.push_back(std::move(top));
  }
  if (is_chat_) return {{"content", content}, {"refusal", nullptr}};
  return {{"tokens", tokens},
          {"token_logprobs", values},
          {"top_logprobs", tops},
          {"text_offset", offsets}};
}

std::string Reply::whole(const std::vector<Piece>& all,
                         const std::vector<Outcome>& outcomes) const {
  Json answer = head(false);
  answer["choices"] = Json::array();
  for (size_t i = 0; i < all.size(); ++i) {
    Json choice = {{"index", i}};
    if (is_chat_)
      choice["message"] = {{"role", "assistant"}, {"content", all[i].text}, {"refusal", nullptr}};
    else
      choice["text"] = all[i].text;
    choice["logprobs"] = log_probabilities(all[i]);
    choice["finish_reason"] = hg::to_string(outcomes[i].finish);
    answer["choices"].push_back(std::move(choice));
  }
  answer["usage"] = usage_of(outcomes);
  return text_of(answer);
}

std::string Reply::event(Json choice) const {
  Json answer = head(true);
  answer["choices"] = Json::array({std::move(choice)});
  if (wants_usage_) answer["usage"] = nullptr;  // follows in the last event
  return "data: " + text_of(answer) + "\n\n";
}

std::string Reply::begin(size_t index) const {
  if (!is_chat_) return {};
  return event({{"index", index},
                {"delta", {{"role", "assistant"}, {"content", ""}}},
                {"logprobs", nullptr},
                {"finish_reason", nullptr}});
}

std::string Reply::piece(size_t index, const Piece& piece) const {
  Json choice = {{"index", index}};
  if (is_chat_)
    choice["delta"] = {{"content", piece.text}};
  else
    choice["text"] = piece.text;
  choice["logprobs"] = log_probabilities(piece);
  choice["finish_reason"] = nullptr;
  return event(std::move(choice));
}

std::string Reply::end(size_t index, const Outcome& outcome) const {
  if (!outcome.status.ok()) return "data: " + error_text(error_of(outcome.status)) + "\n\n";
  Json choice = {{"index", index}};
  if (is_chat_)
    choice["delta"] = Json::object();
  else
    choice["text"] = "";
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = hg::to_string(outcome.finish);
  return event(std::move(choice));
}

std::string Reply::last(const std::vector<Outcome>& outcomes) const {
  std::string events;
  if (wants_usage_) {
    Json last = head(true);
    last["choices"] = Json::array();
    last["usage"] = usage_of(outcomes);
    events = "data: " + text_of(last) + "\n\n";
  }
  return events + "data: [DONE]\n\n";
}

// The bytes of little-endian floats.
std::string base64_of(const std::vector<float>& values) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  for (const float value : values)
    for (const auto bits = std::bit_cast<uint32_t>(value); const int shift : {0, 8, 16, 24})
      bytes += static_cast<char>(bits >> shift);
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < count ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string embeddings_text(const EmbeddingRequest& request,
                            const std::vector<std::vector<float>>& embeddings, int64_t tokens) {
  Json data = Json::array();
  for (size_t i = 0; i < embeddings.size(); ++i)
    data.push_back(
        {{"object", "embedding"},
         {"index", i},
         {"embedding", request.as_base64 ? Json(base64_of(embeddings[i])) : Json(embeddings[i])}});
  return text_of({{"object", "list"},
                  {"data", data},
                  {"model", request.model},
                  {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
}

std::string error_text(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return text_of({{"error",
                   {{"message", error.message},
                    {"type", error.status < 500 ? "invalid_request_error" : "server_error"},
                    {"param", or_null(error.param)},
                    {"code", or_null(error.code)}}}});
}

ApiError error_of(const hg::Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case hg::Code::busy:
      return {503, message, {}, "overloaded"};
    case hg::Code::cancelled:
      return {503, message, {}, "stopping"};
    default:  // requests are checked before they run
      return {500, message};
  }
}

std::string models_text(const std::vector<std::string>& names, int64_t created) {
  Json data = Json::array();
  for (const std::string& name : names) data.push_back(model_of(name, created));
  return text_of({{"object", "list"}, {"data", data}});
}

std::string model_text(const std::string& name, int64_t created) {
  return text_of(model_of(name, created));
}
