// SPDX-License-Identifier: Apache-2.0
// A small decoder with random weights, and its greedy tokens by runs over the whole text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg::small_decoder {

constexpr int64_t kWords = 61, kPositions = 200, kWidth = 32, kHeads = 4, kHeadDim = 8;
using Ids = std::vector<int32_t>;
using Prompts = std::vector<Ids>;

struct Form {
  bool past = true, mask = true, positions = true;
  bool columns = false;  // without `positions`: cache_position counts the tokens
  bool table = false;    // what a position sees is in a table of kPositions rows and columns
  DType integers = i64;
  DType floats = f32;  // dtype of the logits
  bool last_only = false;
  std::string past_name = "past_key_values.", present_name = "present.";
  std::string ids_name = "input_ids", logits_name = "logits";
  std::string hidden_name = {};  // of an output before the head; empty: none
  Dim batch = Dim("b");
  std::optional<DType> stored = {};  // keys and values are rounded as this past is stored
  int64_t window = 0;                // keys that a token sees; 0: all
  bool all_slide = true;             // or the first layer only
  bool plain = false;                // attention as products, softmax and a mask of large numbers
  int64_t position_count = kPositions;
};

// x as it is read from a past that is stored as f16, bf16 or i8.
inline Value stored_and_read(const Value& x, DType dtype) {
  if (dtype != i8) return cast(cast(x, dtype), f32);
  const Value scale = amax(abs(x), {-1}, true) / 127.0 + 1e-30;
  return round(x / scale) * scale;
}

// Heads of x [b, t, width]: [b, heads, t, dim].
inline Value heads_of(const Value& x, const Dim& batch) {
  return permute(reshape(x, {batch, Dim("t"), kHeads, kHeadDim}), {0, 2, 1, 3});
}

inline Model decoder(const Form& form = {}) {
  Graph g;
  const Dim b = form.batch, t("t"), p = form.past ? Dim("p") : Dim(0);
  uint64_t seed = 0;
  const auto weight = [&](const char* name, int64_t rows, int64_t columns, double scale) {
    ++seed;
    return g.parameter(str_cat(name, seed), f32, {rows, columns}, init::normal(0, scale, seed));
  };
  const auto integers = [&](const std::string& name, const Shape& shape) {
    const Value value = g.input(name, form.integers, shape);
    return form.integers == i64 ? value : cast(value, i64);
  };
  const Value ids = integers(form.ids_name, {b, t});
  Value visible = le(arange(g, p + t), reshape(arange(g, p, p + t), {t, 1}));
  if (form.table) {
    TensorData lower = must(TensorData::allocate(boolean, {kPositions, kPositions}));
    for (int64_t i = 0; i < kPositions * kPositions; ++i)
      lower.tensor.as<bool>()[i] = i % kPositions <= i / kPositions;
    const Value rows =
        g.call("slice", {g.parameter("lower", lower)}, {{"dim", 0}, {"start", p}, {"end", p + t}});
    visible = g.call("slice", {rows}, {{"dim", 1}, {"start", 0}, {"end", p + t}});
  }
  if (form.mask) {
    const Value is_shown = ne(integers("attention_mask", {b, p + t}), g.scalar(int64_t{0}, i64));
    visible = logical_and(visible, reshape(is_shown, {b, 1, 1, p + t}));
  }
  const Value positions = form.positions ? integers("position_ids", {b, t})
                          : form.columns ? g.input("cache_position", i64, {t})
                                         : arange(g, p, p + t);
  Value x = add(embedding(weight("words", kWords, kWidth, 1), ids),
                embedding(weight("positions", form.position_count, kWidth, 1), positions));
  std::vector<std::pair<std::string, Value>> presents;
  const Value near = gt(arange(g, p + t), reshape(arange(g, p, p + t), {t, 1}) - form.window);
  for (int layer = 0; layer < 2; ++layer) {
    const bool slides = form.window > 0 && (form.all_slide || layer == 0);
    const Value seen = slides ? logical_and(near, visible) : visible;
    const Value normed = rms_norm(x, {kWidth});
    const auto part = [&](const char* name) {
      return heads_of(linear(normed, weight(name, kWidth, kWidth, 0.2)), b);
    };
    const Value q = part("q");
    Value k = part("k"), v = part("v");
    for (auto& [name, value] : {std::pair{"key", &k}, std::pair{"value", &v}}) {
      if (form.stored) *value = stored_and_read(*value, *form.stored);
      if (!form.past) continue;
      const std::string suffix = str_cat(layer, ".", name);
      const Value past = g.input(form.past_name + suffix, f32, {b, kHeads, p, kHeadDim});
      *value = concat({past, *value}, 2);
      presents.emplace_back(form.present_name + suffix, *value);
    }
    Value attended;
    if (form.plain) {
      const Value low = where(seen, g.scalar(0.0), g.scalar(-1e30));
      const Value scores = matmul(q, permute(k, {0, 1, 3, 2})) * (1 / std::sqrt(kHeadDim));
      attended = matmul(softmax(tanh(scores * 0.02) * 50.0 + low), v);
    } else {
      attended = attention(q, k, v, seen);
    }
    const Value mixed = permute(attended, {0, 2, 1, 3});
    x = add(x, linear(reshape(mixed, {b, t, kWidth}), weight("o", kWidth, kWidth, 0.2)));
    x = add(x, linear(silu(linear(rms_norm(x, {kWidth}), weight("up", 64, kWidth, 0.2))),
                      weight("down", kWidth, 64, 0.2)));
  }
  const Value hidden = rms_norm(x, {kWidth});
  Value logits = linear(hidden, weight("head", kWords, kWidth, 0.5));
  if (form.last_only)
    logits = g.call("slice", {logits}, {{"dim", 1}, {"start", t - 1}, {"end", t}});
  if (form.floats != f32) logits = g.call("cast", {logits}, {{"dtype", form.floats}});
  g.output(form.logits_name, logits);
  if (!form.hidden_name.empty()) g.output(form.hidden_name, hidden);
  for (const auto& [name, value] : presents) g.output(name, value);
  return must(Model::from_graph(std::move(g)));
}

// Logits after the last id, from a run over the whole text.
class Whole {
 public:
  explicit Whole(Form form = {})
      : session_(must(Session::create(decoder(alone(form)), {.threads = 1}))) {}
  std::vector<float> logits(const Ids& ids) {
    const std::vector<int64_t> wide(ids.begin(), ids.end());
    const auto time = static_cast<int64_t>(ids.size());
    EXPECT_TRUE(session_.set_input(0, view(wide, {1, time})).ok());
    EXPECT_TRUE(session_.run().ok());
    const Tensor all = must(session_.output(0));
    const float* const row = all.as<float>() + (time - 1) * kWords;
    return {row, row + kWords};
  }
  // New ids after `ids`, each with the largest logit.
  Ids greedy(Ids ids, int64_t count) {
    const size_t begin = ids.size();
    while (count-- > 0) {
      const std::vector<float> row = logits(ids);
      ids.push_back(static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
    }
    return {ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end()};
  }

 private:
  static Form alone(const Form& form) {
    return {.past = false,
            .mask = false,
            .positions = false,
            .stored = form.stored,
            .window = form.window,
            .all_slide = form.all_slide,
            .plain = form.plain,
            .position_count = form.position_count};
  }
  Session session_;
};

inline Ids random_ids(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Ids ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % kWords);
  return ids;
}

inline void expect_refusal(const Status& status, Code code, std::string_view part) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(part), std::string_view::npos) << status.message();
}

}  // namespace hg::small_decoder
