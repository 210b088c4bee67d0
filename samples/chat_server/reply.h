// SPDX-License-Identifier: Apache-2.0
// Answers in the form of OpenAI's API: whole ones, server-sent events, and errors.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine.h"
#include "request.h"

class Reply {
 public:
  Reply(const CompletionRequest& request, const std::string& id, int64_t created);

  // All answers as JSON.
  std::string whole(const std::vector<Piece>& all, const std::vector<Outcome>& outcomes) const;

  // Events, each "data: {...}\n\n". begin() comes before all pieces of an answer, and end() after
  // them. last() follows the last answer, unless one failed.
  std::string begin(size_t index) const;
  std::string piece(size_t index, const Piece& piece) const;
  std::string end(size_t index, const Outcome& outcome) const;
  std::string last(const std::vector<Outcome>& outcomes) const;

 private:
  using Json = nlohmann::ordered_json;
  Json head(bool is_event) const;
  Json log_probabilities(const Piece& piece) const;
  std::string event(Json choice) const;

  bool is_chat_, wants_usage_, log_probabilities_;
  int64_t alternatives_;
  std::string model_, id_;
  int64_t created_;
};

// The answer to /v1/embeddings. `tokens`: of all inputs.
std::string embeddings_text(const EmbeddingRequest& request,
                            const std::vector<std::vector<float>>& embeddings, int64_t tokens);
// {"error": {...}}
std::string error_text(const ApiError& error);
// An error of a generation.
ApiError error_of(const hg::Status& status);
// The answer to /v1/models, and to /v1/models/NAME.
std::string models_text(const std::vector<std::string>& names, int64_t created);
std::string model_text(const std::string& name, int64_t created);
