// SPDX-License-Identifier: Apache-2.0
#include "hg/embedder.h"

#include <cmath>

#include "lib/generate/decoder_session.h"
#include "lib/generate/prompt_check.h"
#include "lib/graph/border.h"

namespace hg {

std::string_view to_string(Pooling pooling) {
  return pooling == Pooling::mean ? "mean" : pooling == Pooling::last ? "last" : "first";
}

Result<Pooling> parse_pooling(std::string_view word) {
  for (const Pooling each : {Pooling::mean, Pooling::last, Pooling::first})
    if (word == to_string(each)) return each;
  return invalid_argument("there is no pooling '", word, "', expected mean, last or first");
}

struct Embedder::Body {
  explicit Body(DecoderSession made) : session(std::move(made)) {}

  Status pool(std::span<const int32_t> ids, Pooling pooling, std::stop_token stop);

  DecoderSession session;
  std::vector<double> sum;
  std::vector<float> row;
};

// Sets the sum to that of the rows that count.
Status Embedder::Body::pool(std::span<const int32_t> ids, Pooling pooling, std::stop_token stop) {
  const int64_t count = std::ssize(ids);
  const bool steps = session.reads_single_tokens();
  if (pooling != Pooling::last && !steps && session.gives_last_only())
    return unsupported("embed: the model gives the vector of the last token; use the pooling last");
  sum.assign(static_cast<size_t>(session.output_size()), 0);
  HG_TRY(session.start(1, count));
  const auto add = [&](int64_t at, int64_t back) -> Status {
    if (pooling == Pooling::last ? at + 1 < count : pooling == Pooling::first && at > 0) return {};
    HG_TRY(session.logits(0, row, back));
    for (size_t e = 0; e < sum.size(); ++e) sum[e] += double{row[e]};
    return {};
  };
  for (int64_t i = 0; i < count; ++i) {
    session.push(0, ids[static_cast<size_t>(i)], i, false);
    if (!steps) continue;
    HG_TRY(session.run(stop));
    HG_TRY(add(i, 0));
  }
  if (steps) return {};
  if (pooling != Pooling::last) session.keep_logits(count);
  HG_TRY(session.run(std::move(stop)));
  const int64_t first = pooling == Pooling::last ? count - 1 : 0;
  for (int64_t i = first; i < count; ++i) HG_TRY(add(i, count - 1 - i));
  return {};
}

Embedder::Embedder(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Embedder::Embedder(Embedder&&) noexcept = default;
Embedder& Embedder::operator=(Embedder&&) noexcept = default;
Embedder::~Embedder() = default;

Result<Embedder> Embedder::create(const Model& model, SessionOptions options) {
  return or_no_memory([&]() -> Result<Embedder> {
    HG_TRY_ASSIGN(DecoderSession session,
                  DecoderSession::create(model, std::move(options), 1, DecoderOutput::hidden));
    HG_TRY(session.check_no_encoder("embed with"));
    return Embedder(std::make_unique<Body>(std::move(session)));
  });
}

Result<std::vector<float>> Embedder::embed(std::span<const int32_t> ids,
                                           const EmbedOptions& options, std::stop_token stop) {
  return or_no_memory([&]() -> Result<std::vector<float>> {
    HG_TRY(check_text(body_->session, ids, "embed: the text"));
    HG_TRY(body_->pool(ids, options.pooling, std::move(stop)));
    double scale = options.pooling == Pooling::mean ? 1 / static_cast<double>(ids.size()) : 1;
    if (options.normalize) {
      double squares = 0;
      for (const double each : body_->sum) squares += each * each;
      HG_CHECK(squares > 0 && std::isfinite(squares),
               "embed: the vector cannot be normalized; the sum of its squares is ", squares);
      scale = 1 / std::sqrt(squares);
    }
    std::vector<float> out;
    for (const double each : body_->sum) out.push_back(static_cast<float>(each * scale));
    return out;
  });
}

int64_t Embedder::size() const { return body_->session.output_size(); }
int64_t Embedder::vocabulary() const { return body_->session.vocabulary(); }
int64_t Embedder::position_limit() const { return body_->session.position_limit(); }

}  // namespace hg
