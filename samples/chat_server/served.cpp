// SPDX-License-Identifier: Apache-2.0
#include "served.h"

#include <algorithm>
#include <ctime>
#include <random>

#include "hg/text/model_files.h"

namespace {

constexpr char kTooLong[] = "context_length_exceeded";

}  // namespace

hg::Result<std::unique_ptr<Served>> Served::load(const std::string& path,
                                                 const ServedOptions& options) {
  HG_TRY_ASSIGN(const hg::Model file, hg::Model::load(path));
  HG_TRY_ASSIGN(hg::Tokenizer tokenizer, options.tokenizer.empty()
                                             ? hg::tokenizer_of(file)
                                             : hg::Tokenizer::load(options.tokenizer));
  std::unique_ptr<Served> served(new Served(file, std::move(tokenizer)));
  HG_TRY_ASSIGN(served->chat_options_, hg::chat_options_of(file));
  HG_TRY_ASSIGN(served->stop_ids_, hg::stop_ids_of(file));
  hg::Result<hg::ChatTemplate> chat = options.chat_template.empty()
                                          ? hg::chat_template_of(file)
                                          : hg::ChatTemplate::load(options.chat_template);
  if (chat.ok())
    served->chat_ = *std::move(chat);
  else if (!options.chat_template.empty() || chat.status().code() != hg::Code::not_found)
    return chat.status();
  Engine::Options engine = options.engine;
  engine.session.entry = options.entry;
  HG_TRY_ASSIGN(served->engine_, Engine::create(file, served->tokenizer_, engine));
  std::erase_if(served->stop_ids_, [&](int32_t id) { return !served->can_choose(id); });
  served->session_ = engine.session;
  served->embed_options_.pooling = options.pooling;
  served->most_tokens_ = options.most_tokens;
  served->most_context_ = options.most_context;
  if (const int64_t limit = served->engine_->position_limit(); limit > 0)
    served->most_context_ = std::min(served->most_context_, limit);
  return served;
}

bool Served::can_choose(int32_t id) const {
  return engine_->vocabulary() == 0 || id < engine_->vocabulary();
}

std::optional<ApiError> Served::read_prompt(const CompletionRequest& request, Task& task) const {
  const char* const param = request.is_chat ? "messages" : "prompt";
  if (request.is_chat) {
    if (!chat_)
      return ApiError{400, "the model has no chat template: use /v1/completions", "model",
                      "no_chat_template"};
    hg::ChatOptions options = chat_options_;
    const std::time_t now = std::time(nullptr);
    if (std::tm local; localtime_r(&now, &local) != nullptr) options.now = local;
    const hg::Result<std::string> text = chat_->render_json(request.messages, options);
    if (!text.ok()) return ApiError{400, std::string(text.status().message()), param};
    // The template already writes the special tokens.
    hg::Result<std::vector<int32_t>> ids = tokenizer_.encode(*text, false);
    if (!ids.ok()) return ApiError{400, std::string(ids.status().message()), param};
    task.prompt = *std::move(ids);
  } else if (!request.ids.empty()) {
    task.prompt = request.ids;
  } else {
    hg::Result<std::vector<int32_t>> ids = tokenizer_.encode(request.text, true);
    if (!ids.ok()) return ApiError{400, std::string(ids.status().message()), param};
    task.prompt = *std::move(ids);
  }
  return check_ids(task.prompt, param);
}

std::optional<ApiError> Served::check_ids(const std::vector<int32_t>& ids,
                                          const char* param) const {
  if (ids.empty()) return ApiError{400, hg::str_cat("the ", param, " has no tokens"), param};
  // The tokenizer writes the tokens of the prompt in `logprobs`.
  int64_t words = tokenizer_.vocabulary_size();
  if (engine_->vocabulary() > 0) words = std::min(words, engine_->vocabulary());
  for (const int32_t id : ids)
    if (id >= words)
      return ApiError{
          400,
          hg::str_cat("the ", param, " has the id ", id, ", but the model has ", words, " tokens"),
          param};
  const auto size = static_cast<int64_t>(ids.size());
  if (size > most_context_)
    return ApiError{
        400, hg::str_cat("the ", param, " has ", size, " tokens; the limit is ", most_context_),
        param, kTooLong};
  return {};
}

std::optional<ApiError> Served::embed(const EmbeddingRequest& request,
                                      std::vector<std::vector<float>>& out, int64_t& tokens) const {
  std::vector<std::vector<int32_t>> inputs = request.ids;
  for (const std::string& text : request.texts) {
    hg::Result<std::vector<int32_t>> ids = tokenizer_.encode(text, true);
    if (!ids.ok()) return ApiError{400, std::string(ids.status().message()), "input"};
    inputs.push_back(*std::move(ids));
  }
  for (const std::vector<int32_t>& ids : inputs)
    if (auto error = check_ids(ids, "input")) return error;
  const std::lock_guard lock(embed_mutex_);
  if (!embedder_) {
    hg::Result<hg::Embedder> opened = hg::Embedder::create(model_, session_);
    if (!opened.ok())
      return ApiError{400, std::string(opened.status().message()), "model", "no_embeddings"};
    embedder_ = *std::move(opened);
  }
  for (const std::vector<int32_t>& ids : inputs) {
    hg::Result<std::vector<float>> made = embedder_->embed(ids, embed_options_);
    if (!made.ok()) return ApiError{500, std::string(made.status().message())};
    out.push_back(*std::move(made));
    tokens += static_cast<int64_t>(ids.size());
  }
  return {};
}

std::optional<ApiError> Served::check_size(const CompletionRequest& request, Task& task) const {
  const auto size = static_cast<int64_t>(task.prompt.size());
  const int64_t room = most_context_ - size + 1;  // the last token is never an input
  if (request.max_tokens < 0) {
    task.options.max_tokens = std::min(most_tokens_, room);
    return {};
  }
  if (request.max_tokens > most_tokens_)
    return ApiError{
        400, hg::str_cat("max_tokens is ", request.max_tokens, "; the limit is ", most_tokens_),
        "max_tokens"};
  if (request.max_tokens > room)
    return ApiError{400,
                    hg::str_cat("the prompt has ", size, " tokens and max_tokens is ",
                                request.max_tokens, "; together the limit is ", most_context_),
                    "max_tokens", kTooLong};
  task.options.max_tokens = request.max_tokens;
  return {};
}

hg::Result<std::shared_ptr<const hg::Constraint>> Served::constraint(
    const std::string& schema) const {
  constexpr size_t kMost = 64;
  const std::lock_guard lock(mutex_);
  if (const auto known = constraints_.find(schema); known != constraints_.end())
    return known->second;
  HG_TRY_ASSIGN(const hg::Grammar grammar, hg::Grammar::from_json_schema(schema));
  if (texts_ == nullptr) {
    HG_TRY_ASSIGN(texts_, hg::token_texts(tokenizer_));
  }
  if (constraints_.size() >= kMost) constraints_.clear();
  return constraints_[schema] = hg::constraint_of(grammar, texts_);
}

std::optional<ApiError> Served::prepare(const CompletionRequest& request, Task& task) const {
  if (auto error = read_prompt(request, task)) return error;
  if (auto error = check_size(request, task)) return error;
  const int64_t words = engine_->vocabulary();
  for (const auto& [id, bias] : request.bias)
    if (words > 0 && id >= words)
      return ApiError{
          400, hg::str_cat("logit_bias: has the id ", id, ", but the model has ", words, " tokens"),
          "logit_bias"};
  hg::GenerateOptions& options = task.options;
  options.sampler = request.sampler;
  if (!request.has_seed) {
    std::random_device random;
    options.sampler.seed = uint64_t{random()} << 32 | random();
  }
  if (!request.schema.empty()) {
    hg::Result<std::shared_ptr<const hg::Constraint>> made = constraint(request.schema);
    if (!made.ok()) return ApiError{400, std::string(made.status().message()), "response_format"};
    options.constraint = *std::move(made);
  }
  options.log_probabilities = request.log_probabilities;
  options.stop_ids = stop_ids_;
  for (const std::string& stop : request.stops) {
    // The text of a special token is not part of the answer, so only its id can be found.
    const std::optional<int32_t> id = tokenizer_.id_of(stop);
    if (!id || !tokenizer_.is_special(*id))
      task.stops.push_back(stop);
    else if (can_choose(*id))
      options.stop_ids.push_back(*id);
  }
  task.alternatives = request.alternatives;
  task.frequency_penalty = static_cast<float>(request.frequency_penalty);
  task.presence_penalty = static_cast<float>(request.presence_penalty);
  task.bias = request.bias;
  return {};
}
