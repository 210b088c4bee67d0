// SPDX-License-Identifier: Apache-2.0
// Weights of tokens are exp(logit - largest logit) in f64; dropped tokens have weight 0.
#include "hg/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/fill/philox.h"
#include "lib/graph/border.h"

namespace hg {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kDropped = -kInfinity;

// The smallest id with the largest logit.
Result<size_t> largest(std::span<const float> logits) {
  HG_CHECK(!logits.empty(), "sampler: there are no logits");
  size_t best = 0;
  float top = kDropped;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    HG_CHECK(logit < kInfinity, "sampler: the logit of token ", uint64_t{i}, " of ",
             uint64_t{logits.size()}, " is ", double{logit});  // also fails for NaN
    if (logit > top) {
      top = logit;
      best = i;
    }
  }
  HG_CHECK(top != kDropped, "sampler: all ", uint64_t{logits.size()}, " logits are -infinity");
  return best;
}

void penalize(std::vector<float>& logits, std::span<const int32_t> history, float penalty) {
  const std::vector<float> before = logits;  // an id that occurs twice is penalized once
  for (const int32_t id : history) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    const auto i = static_cast<size_t>(id);
    logits[i] = before[i] < 0 ? before[i] * penalty : before[i] / penalty;
  }
}

void keep_top_k(std::vector<float>& logits, size_t k) {
  if (k >= logits.size()) return;
  std::vector<float> order = logits;
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k - 1), order.end(),
                   std::greater<>());
  const float least = order[k - 1];
  for (float& logit : logits)
    if (logit < least) logit = kDropped;
}

double sum_of_weights(std::span<const float> logits, float top) {
  double sum = 0;
  for (const float logit : logits)
    if (logit != kDropped) sum += std::exp(double{logit} - top);
  return sum;
}

// Keeps a token if the tokens that are more likely sum to less than top_p.
void keep_top_p(std::vector<float>& logits, float top, double top_p) {
  const double all = sum_of_weights(logits, top), enough = top_p * all;
  // Tokens below this logit sum to less than 1 - top_p, so they need no sorting.
  const double low =
      top + std::log(0.999999 * (1 - top_p) * all / static_cast<double>(logits.size()));
  std::vector<size_t> heap;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= low)
      heap.push_back(i);
    else
      logits[i] = kDropped;
  }
  const auto is_less = [&](size_t a, size_t b) {
    return logits[a] != logits[b] ? logits[a] < logits[b] : a > b;
  };
  std::make_heap(heap.begin(), heap.end(), is_less);
  double sum = 0;
  while (!heap.empty() && sum < enough) {
    std::pop_heap(heap.begin(), heap.end(), is_less);
    sum += std::exp(double{logits[heap.back()]} - top);
    heap.pop_back();
  }
  for (const size_t i : heap) logits[i] = kDropped;
}

void keep_min_p(std::vector<float>& logits, float top, double min_p) {
  for (float& logit : logits)
    if (std::exp(double{logit} - top) < min_p) logit = kDropped;
}

// The token at which the running sum of weights exceeds the fraction `unit` of the total.
size_t draw(std::span<const float> logits, float top, double unit) {
  double rest = unit * sum_of_weights(logits, top);
  size_t chosen = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double weight = logits[i] == kDropped ? 0 : std::exp(double{logits[i]} - top);
    if (weight == 0) continue;
    chosen = i;  // the last one if rounding leaves a remainder
    if (rest < weight) break;
    rest -= weight;
  }
  return chosen;
}

// Logits after all steps, and the id of the largest one.
struct Filtered {
  std::vector<float> logits;
  size_t largest = 0;
};

Result<Filtered> filtered(const SamplerOptions& options, std::span<const float> logits,
                          std::span<const int32_t> history) {
  HG_TRY(largest(logits).status());
  std::vector<float> kept(logits.begin(), logits.end());
  if (options.repetition_penalty != 1) penalize(kept, history, options.repetition_penalty);
  if (options.temperature != 0)
    for (float& logit : kept) logit /= options.temperature;
  HG_TRY_ASSIGN(const size_t best, largest(kept));  // fails if a division overflowed
  if (options.temperature != 0) {
    if (options.top_k > 0) keep_top_k(kept, static_cast<size_t>(options.top_k));
    if (options.top_p < 1) keep_top_p(kept, kept[best], double{options.top_p});
    if (options.min_p > 0) keep_min_p(kept, kept[best], double{options.min_p});
  }
  return Filtered{std::move(kept), best};
}

}  // namespace

Result<Sampler> Sampler::create(const SamplerOptions& options) {
  HG_CHECK(options.temperature >= 0 && std::isfinite(options.temperature),
           "sampler: temperature is ", double{options.temperature},
           ", expected a finite number of at least 0");
  HG_CHECK(options.top_k >= 0, "sampler: top_k is ", options.top_k, ", expected at least 0");
  HG_CHECK(options.top_p > 0 && options.top_p <= 1, "sampler: top_p is ", double{options.top_p},
           ", expected more than 0 and at most 1");
  HG_CHECK(options.min_p >= 0 && options.min_p <= 1, "sampler: min_p is ", double{options.min_p},
           ", expected 0 to 1");
  HG_CHECK(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty),
           "sampler: repetition_penalty is ", double{options.repetition_penalty},
           ", expected a finite number above 0");
  return Sampler(options);
}

Result<std::vector<float>> Sampler::filter(std::span<const float> logits,
                                           std::span<const int32_t> history) const {
  return or_no_memory([&]() -> Result<std::vector<float>> {
    HG_TRY_ASSIGN(Filtered result, filtered(options_, logits, history));
    return std::move(result.logits);
  });
}

Result<int32_t> Sampler::choose(std::span<const float> logits, std::span<const int32_t> history,
                                uint64_t step, uint32_t sequence) const {
  return or_no_memory([&]() -> Result<int32_t> {
    if (options_.temperature == 0 && options_.repetition_penalty == 1) {
      HG_TRY_ASSIGN(const size_t best, largest(logits));
      return static_cast<int32_t>(best);
    }
    HG_TRY_ASSIGN(const Filtered kept, filtered(options_, logits, history));
    if (options_.temperature == 0) return static_cast<int32_t>(kept.largest);
    const kernels::PhiloxCounter bits = kernels::philox(
        {static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), sequence, 0},
        options_.seed);
    return static_cast<int32_t>(
        draw(kept.logits, kept.logits[kept.largest], kernels::philox_unit(bits[0], bits[1])));
  });
}

Result<float> log_probability(std::span<const float> logits, int32_t id) {
  return or_no_memory([&]() -> Result<float> {
    HG_TRY_ASSIGN(const size_t best, largest(logits));
    HG_CHECK(id >= 0 && static_cast<size_t>(id) < logits.size(), "sampler: the id ", id,
             " is outside the vocabulary of ", uint64_t{logits.size()}, " tokens");
    const double top = logits[best];
    return static_cast<float>(logits[static_cast<size_t>(id)] - top -
                              std::log(sum_of_weights(logits, logits[best])));
  });
}

}  // namespace hg
