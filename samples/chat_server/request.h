// SPDX-License-Identifier: Apache-2.0
// The requests of OpenAI's API: /v1/completions, /v1/chat/completions and /v1/embeddings.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hg/sampler.h"

// An answer in the form of OpenAI's errors.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {}, code = {};  // empty: null
};

struct CompletionRequest {
  bool is_chat = false;
  std::string model;
  std::string text;          // completions: the prompt, unless it is given as ids
  std::vector<int32_t> ids;  // completions: the prompt as ids, or empty
  std::string messages;      // chat: a JSON list of {role, content} with texts, for a template
  bool streams = false, wants_usage = false;
  int64_t answers = 1;
  int64_t max_tokens = -1;  // -1: not given
  std::string schema;       // chat: a JSON schema that the answer fits; empty: any text
  std::vector<std::string> stops;
  hg::SamplerOptions sampler;
  bool has_seed = false;
  bool log_probabilities = false;
  int64_t alternatives = 0;  // most likely tokens to report for each token
  double frequency_penalty = 0, presence_penalty = 0;
  std::map<int32_t, float> bias;  // is added to the logits of ids
};

struct EmbeddingRequest {
  std::string model;
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> ids;  // instead of texts
  bool as_base64 = false;
};

// Reads a request. Refuses parameters that the server does not support, unless their value changes
// nothing.
std::optional<ApiError> read_request(std::string_view body, bool is_chat, CompletionRequest& out);
std::optional<ApiError> read_request(std::string_view body, EmbeddingRequest& out);
