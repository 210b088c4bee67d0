// SPDX-License-Identifier: Apache-2.0
#include "lib/generate/decoder_session.h"

#include <algorithm>
#include <string_view>

#include "hg/graph.h"
#include "hg/op.h"
#include "lib/graph/past_names.h"

namespace hg {
namespace {

// Rows of the smallest table that the input's values index, also after a cast; 0 if they index
// none.
int64_t rows_of_table(const Graph& graph, ValueId indices) {
  std::vector<ValueId> same = {indices};
  int64_t rows = 0;
  for (const Node& node : graph.nodes()) {
    const auto reads = [&](size_t input) {
      return input < node.inputs.size() &&
             std::find(same.begin(), same.end(), node.inputs[input]) != same.end();
    };
    if (node.op->name() == "cast" && reads(0)) same.push_back(node.outputs[0]);
    if (node.op->name() != "embedding" || !reads(1)) continue;
    const Dim& size = graph.value_info(node.inputs[0]).type.shape[0];
    if (size.is_constant()) rows = rows == 0 ? size.constant() : std::min(rows, size.constant());
  }
  return rows;
}

template <class T>
void copy_tails(const std::vector<std::vector<int64_t>>& rows, int64_t from, T* out) {
  for (const std::vector<int64_t>& row : rows)
    out = std::transform(row.begin() + from, row.end(), out,
                         [](int64_t value) { return static_cast<T>(value); });
}

template <class T>
void copy_row(const Tensor& tensor, int64_t at, int64_t stride, std::vector<float>& out) {
  const T* const from = tensor.as<const T>() + at;
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(from[static_cast<int64_t>(i) * stride]);
}

}  // namespace

Result<DecoderSession> DecoderSession::create(const Model& model, SessionOptions options) {
  if (!options.entry.empty()) {
    HG_TRY_ASSIGN(const Model entry, model.entry(options.entry));
    options.entry.clear();
    return create(entry, std::move(options));
  }
  options.device_outputs = false;
  HG_TRY_ASSIGN(Session session, Session::create(model, std::move(options)));
  DecoderSession decoder(std::move(session));
  for (int i = 0; i < decoder.session_.input_count(); ++i) HG_TRY(decoder.find_input(i));
  for (int i = 0; i < decoder.session_.output_count(); ++i) HG_TRY(decoder.find_output(i));
  HG_TRY(decoder.check_parts());
  decoder.find_limits(model.graph());
  return decoder;
}

Status DecoderSession::find_past(int index, std::string_view suffix) {
  const std::string_view name = session_.input_name(index);
  const TensorType& type = session_.input_type(index);
  if (!is_float(type.dtype) || type.rank() != 4 || !type.shape[1].is_constant() ||
      type.shape[2].is_constant() || !type.shape[3].is_constant())
    return unsupported("generate: the input '", name, "' is ", type,
                       ", expected floats [batch, heads, past, dim], where past is a symbol");
  for (const Cache& other : caches_)
    if (past_suffix(session_.input_name(other.input)) == suffix)
      return unsupported("generate: the inputs '", session_.input_name(other.input), "' and '",
                         name, "' have the same past");
  Cache cache;
  cache.input = index;
  cache.dtype = type.dtype;
  cache.heads = type.shape[1].constant();
  cache.dim = type.shape[3].constant();
  caches_.push_back(std::move(cache));
  return {};
}

Status DecoderSession::find_input(int index) {
  const std::string_view name = session_.input_name(index);
  if (const auto suffix = past_suffix(name)) return find_past(index, *suffix);
  const TensorType& type = session_.input_type(index);
  const bool is_mask = name == "attention_mask";
  if ((type.dtype != i64 && type.dtype != i32 && !(is_mask && type.dtype == boolean)) ||
      type.rank() != 2 || type.shape[1].is_constant())
    return unsupported("generate: the input '", name, "' is ", type, ", expected i64[batch, ",
                       is_mask ? "past + time]" : "time]", ", where time is a symbol");
  Integers& input = is_mask ? mask_ : name == "position_ids" ? positions_ : ids_;
  if (input.index >= 0)
    return unsupported("generate: the inputs '", session_.input_name(input.index), "' and '", name,
                       "' could both be the ids");
  input.index = index;
  input.dtype = type.dtype;
  return {};
}

Status DecoderSession::find_output(int index) {
  const std::string_view name = session_.output_name(index);
  if (const auto suffix = present_suffix(name)) {
    for (Cache& cache : caches_)
      if (past_suffix(session_.input_name(cache.input)) == suffix) cache.output = index;
    return {};
  }
  if (logits_ >= 0 && name != "logits" && session_.output_name(logits_) != "logits")
    return unsupported("generate: the outputs '", session_.output_name(logits_), "' and '", name,
                       "' could both be the logits");
  if (logits_ < 0 || name == "logits") logits_ = index;
  return {};
}

Status DecoderSession::check_parts() const {
  if (ids_.index < 0)
    return unsupported("generate: the model has no input of ids, expected i64[batch, time]");
  if (logits_ < 0)
    return unsupported(
        "generate: the model has no output of logits, expected f32[batch, time, vocabulary]");
  const TensorType& type = session_.output_type(logits_);
  if (!is_float(type.dtype) || type.dtype == f64 || type.rank() != 3)
    return unsupported("generate: the output '", session_.output_name(logits_), "' is ", type,
                       ", expected f32[batch, time, vocabulary]");
  for (const Cache& cache : caches_) {
    const std::string_view name = session_.input_name(cache.input);
    if (cache.output < 0)
      return unsupported("generate: the input '", name, "' has no output 'present",
                         *past_suffix(name), "'");
    const TensorType& present = session_.output_type(cache.output);
    if (present.dtype != cache.dtype || present.rank() != 4)
      return unsupported("generate: the output '", session_.output_name(cache.output), "' is ",
                         present, ", but the input '", name, "' is ",
                         session_.input_type(cache.input));
  }
  return {};
}

void DecoderSession::find_limits(const Graph& graph) {
  const auto rows = [&](const Integers& input) {
    return input.index < 0 ? 0
                           : rows_of_table(graph, graph.inputs()[static_cast<size_t>(input.index)]);
  };
  vocabulary_ = rows(ids_);
  position_limit_ = rows(positions_);
  const Dim& logits = session_.output_type(logits_).shape[2];
  if (vocabulary_ == 0 && logits.is_constant()) vocabulary_ = logits.constant();
}

Status DecoderSession::start(int64_t batch) {
  const Dim& size = session_.input_type(ids_.index).shape[0];
  HG_CHECK(!size.is_constant() || size.constant() == batch, "generate: the model takes ",
           size.constant(), size.constant() == 1 ? " prompt" : " prompts", " at a time, got ",
           batch);
  batch_ = batch;
  past_ = 0;
  for (Integers* input : {&ids_, &mask_, &positions_})
    input->rows.assign(static_cast<size_t>(batch), {});
  return {};
}

void DecoderSession::push(size_t row, int64_t id, int64_t position, bool is_hidden) {
  ids_.rows[row].push_back(id);
  mask_.rows[row].push_back(is_hidden ? 0 : 1);
  positions_.rows[row].push_back(position);
}

// Makes room for the past and the present, and keeps the past.
Status DecoderSession::reserve(int64_t positions) {
  if (batch_ == capacity_batch_ && positions <= capacity_) return {};
  constexpr int64_t kLeast = 64;
  const int64_t grown =
      std::max({positions, kLeast, batch_ == capacity_batch_ ? 2 * capacity_ : 0});
  capacity_ = capacity_batch_ = 0;  // until all buffers are made
  for (Cache& cache : caches_) {
    const Sizes held = {batch_, cache.heads, past_, cache.dim};
    // One buffer at a time: the peak is that of the new buffers and the old past.
    cache.buffers[1 - now_] = {};
    for (int i : {1 - now_, now_}) {
      HG_TRY_ASSIGN(TensorData larger,
                    TensorData::allocate(cache.dtype, {batch_, cache.heads, grown, cache.dim}));
      if (i == now_ && past_ > 0)
        copy_elements(view(cache.buffers[now_].tensor.data, cache.dtype, held),
                      view(larger.tensor.data, cache.dtype, held));
      cache.buffers[i] = std::move(larger);
    }
  }
  capacity_ = grown;
  capacity_batch_ = batch_;
  return {};
}

// Sets the values from a position on as [batch, time].
Status DecoderSession::set_integers(Integers& input, int64_t from) {
  if (input.index < 0) return {};
  const int64_t time = static_cast<int64_t>(input.rows[0].size()) - from;
  HG_TRY_ASSIGN(input.data, TensorData::allocate(input.dtype, {batch_, time}));
  const Tensor& tensor = input.data.tensor;
  if (input.dtype == i64)
    copy_tails(input.rows, from, tensor.as<int64_t>());
  else if (input.dtype == i32)
    copy_tails(input.rows, from, tensor.as<int32_t>());
  else
    copy_tails(input.rows, from, tensor.as<bool>());
  return session_.set_input(input.index, tensor);
}

Status DecoderSession::set_caches(int64_t time) {
  HG_TRY(reserve(past_ + time));
  for (const Cache& cache : caches_)
    HG_TRY(session_.set_input(cache.input, view(cache.buffers[now_].tensor.data, cache.dtype,
                                                {batch_, cache.heads, past_, cache.dim})));
  for (const Cache& cache : caches_)
    HG_TRY(session_.set_output(cache.output, view(cache.buffers[1 - now_].tensor.data, cache.dtype,
                                                  {batch_, cache.heads, past_ + time, cache.dim})));
  return {};
}

Status DecoderSession::run(std::stop_token stop) {
  const auto all = static_cast<int64_t>(ids_.rows[0].size());
  session_.forget_tensors();
  HG_TRY(set_integers(ids_, past_));
  HG_TRY(set_integers(mask_, 0));
  HG_TRY(set_integers(positions_, past_));
  HG_TRY(set_caches(all - past_));
  HG_TRY(session_.run(std::move(stop)));
  if (caches_.empty()) return {};
  now_ = 1 - now_;
  past_ = all;
  return {};
}

Status DecoderSession::logits(size_t row, std::vector<float>& out) const {
  HG_TRY_ASSIGN(const Tensor all, session_.output(logits_));
  HG_CHECK(all.shape[0] == batch_ && all.shape[1] > 0, "generate: the output '",
           session_.output_name(logits_), "' is ", all.shape, " for ", batch_, " prompts");
  const int64_t at =
      static_cast<int64_t>(row) * all.strides[0] + (all.shape[1] - 1) * all.strides[1];
  out.resize(static_cast<size_t>(all.shape[2]));
  if (all.dtype == f32)
    copy_row<float>(all, at, all.strides[2], out);
  else if (all.dtype == f16)
    copy_row<Half>(all, at, all.strides[2], out);
  else
    copy_row<BFloat16>(all, at, all.strides[2], out);
  return {};
}

}  // namespace hg
