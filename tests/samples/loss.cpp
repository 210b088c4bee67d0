// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/loss.cpp and lib/ops/ctc_loss.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

NamedAttrs with(NamedAttrs attrs, const char* reduction) {
  attrs.push_back({"reduction", reduction});
  return attrs;
}

SampleInput classes(Sizes shape, double count) {
  return {.dtype = i64, .shape = shape, .low = 0, .high = count - 1};
}

}  // namespace

std::vector<Sample> loss() {
  std::vector<Sample> all;
  const SampleInput x = {.shape = {3, 5}}, y = {.shape = {3, 5}};
  const SampleInput share = {.shape = {3, 5}, .low = 0.1, .high = 0.9};
  const SampleInput sign = {.shape = {3, 5},
                            .values = {1, -1, 1, 1, -1, -1, 1, 1, -1, 1, 1, -1, -1, 1, -1}};
  const SampleInput signs = {.shape = {3}, .values = {1, -1, 1}};
  const SampleInput labels = {
      .dtype = i64, .shape = {3, 5}, .values = {3, 0, -1, 1, 2, -1, 0, 0, 0, 0, 0, 1, 2, 3, 4}};
  for (const char* r : {"none", "mean", "sum"}) {
    auto add = [&](std::string_view op, std::vector<SampleInput> inputs, NamedAttrs attrs = {}) {
      all.push_back({.op = op, .inputs = std::move(inputs), .attrs = with(std::move(attrs), r)});
    };
    add("mse_loss", {x, y});
    add("l1_loss", {x, y});
    add("smooth_l1_loss", {x, y}, {{"beta", 0.6}});
    add("smooth_l1_loss", {x, y}, {{"beta", 0.0}});
    add("huber_loss", {x, y}, {{"delta", 0.4}});
    add("binary_cross_entropy", {share, share});
    add("binary_cross_entropy", {share, share, share});
    add("binary_cross_entropy_with_logits", {x, share});
    add("binary_cross_entropy_with_logits",
        {x, share, share, {.shape = {5}, .low = 0.5, .high = 2}});
    add("kl_div", {x, share});
    add("kl_div", {x, y}, {{"log_target", true}});
    add("hinge_embedding_loss", {share, sign}, {{"margin", 1.3}});
    add("margin_ranking_loss", {x, y, sign}, {{"margin", 0.2}});
    add("soft_margin_loss", {x, sign});
    add("cosine_embedding_loss", {x, y, signs}, {{"margin", 0.1}});
    add("poisson_nll_loss", {x, {.shape = {3, 5}, .low = 1.1, .high = 4}}, {{"full", true}});
    add("poisson_nll_loss", {share, share}, {{"log_input", false}});
    add("triplet_margin_loss", {x, y, share}, {{"swap", true}});
    add("multi_margin_loss", {x, classes({3}, 5)});
    add("multi_margin_loss", {x, classes({3}, 5), {.shape = {5}}}, {{"p", 2.0}, {"margin", 0.7}});
    add("multilabel_margin_loss", {x, labels});
    add("nll_loss", {x, classes({3}, 5)});
    add("nll_loss", {{.shape = {2, 4, 3}}, classes({2, 3}, 4), {.shape = {4}, .low = 0.2}},
        {{"ignore_index", 1}});
    add("nll_loss", {{.shape = {4}}, classes({}, 4)});
    add("cross_entropy", {x, classes({3}, 5)});
    add("cross_entropy", {{.shape = {2, 4, 3}}, classes({2, 3}, 4), {.shape = {4}, .low = 0.2}},
        {{"ignore_index", 2}, {"label_smoothing", 0.1}});
    add("cross_entropy", {x, share}, {{"label_smoothing", 0.2}});
  }
  const SampleInput scores = {.shape = {6, 2, 4}, .low = -3, .high = -0.5};
  const SampleInput targets = {.dtype = i64, .shape = {2, 3}, .values = {0, 2, 2, 3, 3, 0}};
  const SampleInput in_a_row = {.dtype = i64, .shape = {5}, .values = {0, 2, 2, 3, 3}};
  for (double time : {5, 2})  // two steps are too few for a repeated label
    for (const SampleInput& labels : {targets, in_a_row})
      for (bool zero_infinity : {false, true}) {
        const NamedAttrs attrs = {{"zero_infinity", zero_infinity}, {"blank", 1}};
        std::vector<SampleInput> given = {scores,
                                          labels,
                                          {.dtype = i64, .shape = {2}, .values = {6, time}},
                                          {.dtype = i64, .shape = {2}, .values = {3, 2}}};
        all.push_back(
            {.op = "ctc_loss", .inputs = given, .attrs = attrs, .gradient = false, .twice = false});
        given.insert(given.begin(), SampleInput{.shape = {2}});
        all.push_back({.op = "ctc_loss_grad",
                       .inputs = given,
                       .attrs = attrs,
                       .gradient = false,
                       .twice = false});
      }
  return all;
}

}  // namespace hg::test::samples
