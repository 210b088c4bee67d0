// SPDX-License-Identifier: Apache-2.0
// Shapes: b batch, t new positions, p past positions, s = p + t.
#include "converter/load/gguf/decoder.h"

#include <cmath>
#include <string>

#include "converter/core/allocated.h"
#include "converter/core/failure.h"
#include "converter/load/gguf/settings.h"
#include "converter/load/gguf/weights.h"
#include "hg/ops.h"

namespace hg::convert::gguf {
namespace {

// Each position uses the experts with the highest router scores. Sorts rows by expert, so that each
// expert is one product. Shapes: n rows, e experts, k of them per row.
// x: f32[b, t, width] -> f32[b, t, width]. `at` is the tensors' prefix, such as "blk.0.". Throws
// Failure.
Value mixture_of_experts(Weights& weights, const std::string& at, const Value& x,
                         const Settings& settings) {
  Graph& graph = *x.graph();
  const int64_t width = settings.width, e = settings.experts, k = settings.experts_used;
  const int64_t inner = weights.size(at + "ffn_up_exps.weight", 1);
  const Dim n = x.dim(0) * x.dim(1);
  const Value rows = reshape(x, {n, width});
  const Value router = weights.take(at + "ffn_gate_inp.weight", {e, width});
  const Value shares = softmax(linear(rows, router), -1);
  const std::vector<Value> top = graph.calls("topk", {shares}, {{"k", k}, {"dim", -1}});
  if (top.size() != 2) return {};
  Value share = top[0];  // [n, k]
  if (settings.architecture->experts_normalized) share = share / sum(share, {-1}, true);
  const std::vector<Value> sorted = sort(reshape(top[1], {n * k}));
  if (sorted.size() != 2) return {};
  const Value to_row = floor_divide(sorted[1], graph.scalar(k, i64));
  const Value ends = searchsorted(sorted[0], arange(graph, e), true);
  const Value chosen = index_select(rows, to_row, 0);  // [n * k, width]
  const auto expert = [&](const char* name, const Value& in, int64_t from, int64_t to) {
    const Value weight = weights.take(at + name, {e, to, from});
    return grouped_mm(in, permute(weight, {0, 2, 1}), ends);
  };
  Value y = silu(expert("ffn_gate_exps.weight", chosen, width, inner)) *
            expert("ffn_up_exps.weight", chosen, width, inner);
  y = expert("ffn_down_exps.weight", y, inner, width);
  // Restores the order of the rows.
  const std::vector<Value> back = sort(sorted[1]);
  if (back.size() != 2) return {};
  y = reshape(index_select(y, back[1], 0), {n, k, width}) * reshape(share, {n, k, 1});
  y = sum(y, {1});
  if (settings.shared_expert) {
    const int64_t shared = weights.size(at + "ffn_up_shexp.weight", 0);
    const auto product = [&](const char* name, const Value& in, int64_t from, int64_t to) {
      return linear(in, weights.take(at + name, {to, from}));
    };
    Value z = silu(product("ffn_gate_shexp.weight", rows, width, shared)) *
              product("ffn_up_shexp.weight", rows, width, shared);
    z = product("ffn_down_shexp.weight", z, shared, width);
    if (settings.architecture->shared_expert) {
      const Value gate = weights.take(at + "ffn_gate_inp_shexp.weight", {width});
      z = z * sigmoid(linear(rows, reshape(gate, {1, width})));
    }
    y = y + z;
  }
  return reshape(y, x.shape());
}

class Builder {
 public:
  explicit Builder(const File& file)
      : file_(file), s_(read_settings(file)), a_(*s_.architecture), weights_(file, graph_) {}

  Decoder run() {
    const int64_t vocabulary = weights_.size("token_embd.weight", 0);
    const Value ids = graph_.input("input_ids", i64, {b_, t_});
    const Value seen = graph_.input("attention_mask", i64, {b_, p_ + t_});
    positions_ = graph_.input("position_ids", i64, {b_, t_});
    for (int64_t i = 0; i < s_.layers; ++i) {
      keys_.push_back(graph_.input(str_cat("past_key_values.", i, ".key"), f32,
                                   {b_, s_.kv_heads, p_, s_.head_dim}));
      values_.push_back(graph_.input(str_cat("past_key_values.", i, ".value"), f32,
                                     {b_, s_.kv_heads, p_, s_.value_dim}));
    }
    make_masks(seen);
    make_angles();
    const Value table = weights_.take("token_embd.weight", {vocabulary, s_.width});
    Value x = embedding(table, ids);
    if (a_.scaled_embedding) x = x * std::sqrt(static_cast<double>(s_.width));
    if (a_.positions) {
      const int64_t rows = weights_.size("position_embd.weight", 0);
      x = x + embedding(weights_.take("position_embd.weight", {rows, s_.width}), positions_);
    }
    for (int64_t i = 0; i < s_.layers; ++i) x = layer(i, x);
    graph_.set_origin({"output", ""});
    x = norm("output_norm", x, s_.width);
    const Value head = weights_.has("output.weight")
                           ? weights_.take("output.weight", {vocabulary, s_.width})
                           : table;
    Value logits =
        linear(x, head,
               weights_.has("output.bias") ? weights_.take("output.bias", {vocabulary}) : Value());
    if (s_.logit_softcap > 0) logits = tanh(logits / s_.logit_softcap) * s_.logit_softcap;
    graph_.output("logits", logits);
    for (int64_t i = 0; i < s_.layers; ++i) {
      graph_.output(str_cat("present.", i, ".key"), keys_[static_cast<size_t>(i)]);
      graph_.output(str_cat("present.", i, ".value"), values_[static_cast<size_t>(i)]);
    }
    if (const std::string name = weights_.untaken(); !name.empty())
      throw Failure{Exit::unsupported, str_cat(file_.label(), ": the architecture '", a_.name,
                                               "' has no tensor '", name, "'")};
    if (!graph_.status().ok())
      throw Failure{Exit::unsupported,
                    str_cat(file_.label(), ": the settings and tensors do not fit each other: ",
                            graph_.status().message())};
    return {std::move(graph_), vocabulary, s_.context};
  }

 private:
  // Masks of the keys that a query sees, bool[b, 1, t, s]: keys at or before the query that are not
  // padding; with a window, only the last of these.
  void make_masks(const Value& seen) {
    const Dim s = p_ + t_;
    const Value query = reshape(arange(graph_, p_, s), {t_, Dim(1)});
    const Value key = arange(graph_, s);
    const Value real = reshape(ne(seen, graph_.scalar(int64_t{0}, i64)), {b_, 1, 1, s});
    const Value causal = le(key, query);
    mask_ = logical_and(causal, real);
    if (s_.window > 0) {
      const Value near = gt(key, query - graph_.scalar(s_.window, i64));
      window_mask_ = logical_and(logical_and(causal, near), real);
    }
  }

  struct Angles {
    Value cos, sin;  // [b, 1, t, rotated]
  };

  Angles angles(double base, double scale, const std::vector<double>& factors) {
    const int64_t half = s_.rotated / 2;
    TensorData data = allocated(f32, {half});
    for (int64_t i = 0; i < half; ++i) {
      const double frequency =
          std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(s_.rotated));
      const double factor = factors.empty() ? 1 : factors[static_cast<size_t>(i)];
      data.tensor.as<float>()[i] = static_cast<float>(frequency / factor / scale);
    }
    const Value at = reshape(hg::cast(positions_, f32), {b_, 1, t_, 1});
    const Value turn = at * graph_.constant(std::move(data));
    const Value both = concat({turn, turn}, -1);
    return {cos(both), sin(both)};
  }

  void make_angles() {
    if (a_.rope == Rope::none) return;
    std::vector<double> factors;
    if (a_.rope_factors && weights_.has("rope_freqs.weight"))
      factors = weights_.numbers("rope_freqs.weight", s_.rotated / 2);
    angles_ = angles(s_.rope_base, s_.rope_scale, factors);
    const bool local = s_.window > 0 && a_.window_rope_base > 0;
    window_angles_ = local ? angles(a_.window_rope_base, 1, {}) : angles_;
  }

  bool has_window(int64_t layer) const {
    return s_.window > 0 && (layer + 1) % a_.window_period != 0;
  }

  // The bias of a projection; none if it may be missing.
  Value bias(const std::string& name, int64_t size, int64_t head = 0, int64_t pairs = 0) {
    const std::string full = name + ".bias";
    if (!a_.biases && !weights_.has(full)) return {};
    return weights_.take(full, {size}, head, pairs);
  }
  Value norm(const std::string& name, const Value& x, int64_t size) {
    const Value weight = weights_.take(name + ".weight", {size});
    if (a_.norm == Norm::rms) return rms_norm(x, {size}, weight, s_.eps);
    return layer_norm(x, {size}, weight, weights_.take(name + ".bias", {size}), s_.eps);
  }
  Value project(const std::string& name, const Value& x, int64_t out) {
    const int64_t in = x.dim(-1).is_constant() ? x.dim(-1).constant() : 0;
    return linear(x, weights_.take(name + ".weight", {out, in}), bias(name, out));
  }
  // As project(), for q or k. Reorders rows so that pairs of neighbors become pairs of halves.
  Value project_rotated(const std::string& name, const Value& x, int64_t heads) {
    if (a_.rope != Rope::neighbors) return project(name, x, heads * s_.head_dim);
    const int64_t out = heads * s_.head_dim, pairs = s_.rotated / 2;
    return linear(x, weights_.take(name + ".weight", {out, s_.width}, s_.head_dim, pairs),
                  bias(name, out, s_.head_dim, pairs));
  }

  // [b, t, heads * dim] -> [b, heads, t, dim]
  Value split_heads(const Value& x, int64_t heads, int64_t dim) {
    return permute(reshape(x, {b_, t_, heads, dim}), {0, 2, 1, 3});
  }
  Value rotated(const Value& x, const Angles& angles) {
    if (!angles.cos) return x;
    if (s_.rotated == s_.head_dim) return rope(x, angles.cos, angles.sin);
    const Value turned = rope(slice(x, -1, 0, s_.rotated), angles.cos, angles.sin);
    return concat({turned, slice(x, -1, s_.rotated, s_.head_dim)}, -1);
  }

  struct Heads {
    Value q, k, v;  // [b, t, heads * dim]
  };
  Heads project_heads(const std::string& at, const Value& x) {
    const int64_t q = s_.heads * s_.head_dim, k = s_.kv_heads * s_.head_dim;
    const int64_t v = s_.kv_heads * s_.value_dim;
    if (!weights_.has(at + "attn_qkv.weight"))
      return {project_rotated(at + "attn_q", x, s_.heads),
              project_rotated(at + "attn_k", x, s_.kv_heads), project(at + "attn_v", x, v)};
    if (a_.rope == Rope::neighbors)
      throw Failure{Exit::unsupported, str_cat(file_.label(), ": '", at,
                                               "attn_qkv' of the "
                                               "architecture '",
                                               a_.name, "' is not supported")};
    const Value all = project(at + "attn_qkv", x, q + k + v);
    return {slice(all, -1, 0, q), slice(all, -1, q, q + k), slice(all, -1, q + k, q + k + v)};
  }

  Value attend(int64_t i, const std::string& at, const Value& x) {
    Heads heads = project_heads(at, x);
    if (a_.qk_norm == QkNorm::whole) {
      heads.q = norm(at + "attn_q_norm", heads.q, s_.heads * s_.head_dim);
      heads.k = norm(at + "attn_k_norm", heads.k, s_.kv_heads * s_.head_dim);
    }
    Value q = split_heads(heads.q, s_.heads, s_.head_dim);
    Value k = split_heads(heads.k, s_.kv_heads, s_.head_dim);
    if (a_.qk_norm == QkNorm::per_head) {
      q = norm(at + "attn_q_norm", q, s_.head_dim);
      k = norm(at + "attn_k_norm", k, s_.head_dim);
    }
    const bool window = has_window(i);
    const Angles& angles = window ? window_angles_ : angles_;
    q = rotated(q, angles);
    k = rotated(k, angles);
    Value& keys = keys_[static_cast<size_t>(i)];
    Value& values = values_[static_cast<size_t>(i)];
    keys = concat({keys, k}, 2);
    values = concat({values, split_heads(heads.v, s_.kv_heads, s_.value_dim)}, 2);
    const Value y = scores_times_values(q, keys, values, window ? window_mask_ : mask_);
    const int64_t width = s_.heads * s_.value_dim;
    return project(at + "attn_output", reshape(permute(y, {0, 2, 1, 3}), {b_, t_, width}),
                   s_.width);
  }

  Value scores_times_values(const Value& q, const Value& k, const Value& v, const Value& mask) {
    if (s_.score_softcap == 0) return attention(q, k, v, mask, false, s_.score_scale);
    // The queries of all heads that share a key head become rows of one product.
    const int64_t each = s_.heads / s_.kv_heads;
    const Dim s = p_ + t_, rows = t_ * each;
    const Value wide = reshape(q, {b_, s_.kv_heads, rows, s_.head_dim});
    Value scores = matmul(wide, permute(k, {0, 1, 3, 2})) * s_.score_scale;
    scores = tanh(scores / s_.score_softcap) * s_.score_softcap;
    scores = reshape(scores, {b_, s_.kv_heads, each, t_, s});
    const Value shown = reshape(mask, {b_, 1, 1, t_, s});
    scores = where(shown, scores, graph_.scalar(-1e30, f32));
    const Value weights = reshape(softmax(scores, -1), {b_, s_.kv_heads, rows, s});
    return reshape(matmul(weights, v), {b_, s_.heads, t_, s_.value_dim});
  }

  Value activated(const Value& x) const {
    if (a_.activation == Activation::silu) return silu(x);
    return gelu(
        x, a_.activation == Activation::gelu ? GeluApproximation::none : GeluApproximation::tanh);
  }

  Value mlp(const std::string& at, const Value& x) {
    if (s_.experts > 0 && weights_.has(at + "ffn_gate_inp.weight"))
      return mixture_of_experts(weights_, at, x, s_);
    const std::string up = at + "ffn_up", gate = at + "ffn_gate";
    const int64_t rows = weights_.size(up + ".weight", 0);
    Value y = project(up, x, rows);
    if (a_.gate == Gate::in_up) {
      if (rows % 2 != 0)
        throw Failure{Exit::unsupported, str_cat(file_.label(), ": '", up, ".weight' has ", rows,
                                                 " rows, an odd number")};
      y = activated(slice(y, -1, 0, rows / 2)) * slice(y, -1, rows / 2, rows);
    } else if (a_.gate == Gate::own) {
      y = activated(project(gate, x, rows)) * y;
    } else {
      y = activated(y);
    }
    return project(at + "ffn_down", y, s_.width);
  }

  Value layer(int64_t i, const Value& x) {
    const std::string at = str_cat("blk.", i, ".");
    graph_.set_origin({str_cat("blk.", i), ""});
    if (a_.parallel) {
      const Value y = norm(at + "attn_norm", x, s_.width);
      const std::string second = at + "attn_norm_2";
      const Value z = weights_.has(second + ".weight") ? norm(second, x, s_.width) : y;
      return x + attend(i, at, z) + mlp(at, y);
    }
    Value y = a_.norm_before ? norm(at + "attn_norm", x, s_.width) : x;
    y = attend(i, at, y);
    if (a_.norm_after) y = norm(at + "post_attention_norm", y, s_.width);
    const Value middle = x + y;
    y = a_.norm_before ? norm(at + "ffn_norm", middle, s_.width) : middle;
    y = mlp(at, y);
    if (a_.norm_after) y = norm(at + "post_ffw_norm", y, s_.width);
    return middle + y;
  }

  const File& file_;
  const Settings s_;
  const Architecture& a_;
  Graph graph_;
  Weights weights_;
  const Dim b_ = Dim("b"), t_ = Dim("t"), p_ = Dim("p");
  Value positions_, mask_, window_mask_;
  Angles angles_, window_angles_;
  std::vector<Value> keys_, values_;
};

}  // namespace

Decoder build_decoder(const File& file) { return Builder(file).run(); }

}  // namespace hg::convert::gguf
