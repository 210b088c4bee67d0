// SPDX-License-Identifier: Apache-2.0
// Turns texts into vectors with a language model or a text encoder.
//
//     HG_TRY_ASSIGN(hg::Embedder embedder, hg::Embedder::create(model));
//     HG_TRY_ASSIGN(std::vector<float> embedding, embedder.embed(ids));
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "hg/model.h"
#include "hg/options.h"

namespace hg {

// How the vectors of a text's tokens become one.
enum class Pooling : uint8_t { mean, last, first };
std::string_view to_string(Pooling pooling);
Result<Pooling> parse_pooling(std::string_view word);

struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = true;  // to a Euclidean length of 1
};

// Embeds texts with one session of a model. The model is one that Generator accepts
// (hg/generator.h), or a text encoder, which may also have the input token_type_ids. The vectors of
// tokens are the output `last_hidden_state`, or an output without the size of the vocabulary.
// Without such an output, they are the input of the product that computes the logits, usually the
// last normalized hidden state.
//
// Use an embedder from one thread at a time. Embedders and generators of one model share weights.
class Embedder {
 public:
  // Fails as Generator::create() does, and with unsupported for an encoder-decoder.
  static Result<Embedder> create(const Model& model, SessionOptions options = {});
  Embedder(Embedder&&) noexcept;
  Embedder& operator=(Embedder&&) noexcept;
  ~Embedder();

  // Returns size() numbers. Fails with invalid_argument if there are no ids, if one is outside the
  // vocabulary, or if there are more than position_limit().
  Result<std::vector<float>> embed(std::span<const int32_t> ids, const EmbedOptions& options = {},
                                   std::stop_token stop = {});

  int64_t size() const;            // of a vector
  int64_t vocabulary() const;      // as in Generator
  int64_t position_limit() const;  // as in Generator

 private:
  struct Body;
  explicit Embedder(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg
