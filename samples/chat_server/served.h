// SPDX-License-Identifier: Apache-2.0
// A model that is served: its generator, tokenizer and chat template, and the tasks that requests
// become.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine.h"
#include "hg/embedder.h"
#include "hg/text/chat_template.h"
#include "hg/text/grammar.h"
#include "request.h"

struct ServedOptions {
  std::string entry, tokenizer, chat_template;  // empty: those of the model file
  int64_t most_tokens = 1024;                   // per answer
  int64_t most_context = 4096;                  // prompt and answer
  hg::Pooling pooling = hg::Pooling::mean;      // of embeddings
  Engine::Options engine;
};

class Served {
 public:
  static hg::Result<std::unique_ptr<Served>> load(const std::string& path,
                                                  const ServedOptions& options);

  // Turns a request into a task. Refuses one that does not fit the model.
  std::optional<ApiError> prepare(const CompletionRequest& request, Task& task) const;
  // Embeds the inputs, one request at a time. Sets the number of their tokens.
  std::optional<ApiError> embed(const EmbeddingRequest& request,
                                std::vector<std::vector<float>>& out, int64_t& tokens) const;
  Engine& engine() const { return *engine_; }

 private:
  Served(hg::Model model, hg::Tokenizer tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}
  bool can_choose(int32_t id) const;  // whether the model's logits have this token
  std::optional<ApiError> check_ids(const std::vector<int32_t>& ids, const char* param) const;
  std::optional<ApiError> read_prompt(const CompletionRequest& request, Task& task) const;
  std::optional<ApiError> check_size(const CompletionRequest& request, Task& task) const;
  hg::Result<std::shared_ptr<const hg::Constraint>> constraint(const std::string& schema) const;

  const hg::Model model_;
  hg::Tokenizer tokenizer_;
  std::optional<hg::ChatTemplate> chat_;
  hg::ChatOptions chat_options_;
  std::vector<int32_t> stop_ids_;
  int64_t most_tokens_ = 0, most_context_ = 0;
  std::unique_ptr<Engine> engine_;

  hg::SessionOptions session_;
  hg::EmbedOptions embed_options_;
  mutable std::mutex embed_mutex_;                // of the following
  mutable std::optional<hg::Embedder> embedder_;  // opened by the first request

  mutable std::mutex mutex_;                             // of the following
  mutable std::shared_ptr<const hg::TokenTexts> texts_;  // made for the first schema
  mutable std::map<std::string, std::shared_ptr<const hg::Constraint>> constraints_;  // by schema
};
