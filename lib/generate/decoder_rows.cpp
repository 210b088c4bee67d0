// SPDX-License-Identifier: Apache-2.0
// Rows of a session whose sequences join and leave. Keys and values are moved inside the session's
// buffers.
#include <algorithm>
#include <cstring>

#include "lib/generate/decoder_session.h"
#include "lib/graph/ends.h"

namespace hg {

// The dim of a carried value that counts the sequences; -1: none, or several.
int DecoderSession::batch_dim(const CarriedValue& carried) const {
  const TensorType& type =
      model_->graph().value_info(input_named(model_->graph(), carried.input)).type;
  int found = -1;
  for (int d = 0; d < type.rank(); ++d) {
    if (type.shape[static_cast<size_t>(d)] != batch_size()) continue;
    if (found >= 0) return -1;
    found = d;
  }
  return found;
}

Status DecoderSession::check_rows(std::string_view what) const {
  const std::string cannot = str_cat("generate: cannot ", what, ": ");
  if (!can_pad())
    return unsupported(cannot, "the model lacks the input attention_mask or position_ids");
  if (!keeps_past()) return unsupported(cannot, "the session does not keep the model's past");
  if (batch_size().is_constant())
    return unsupported(cannot, "the model takes ", batch_size().constant(), " prompts at a time");
  for (const KeptState& each : kept_)
    if (each.batch < 0)
      return unsupported(cannot, "no dim, or several, of the input '", each.name,
                         "' is the number of prompts");
  return {};
}

// A device reads what changed in the host's copy of a state.
Status DecoderSession::keep_changes(const std::string& name, const Tensor& state) {
  if (options_.device == Device::cpu) return {};
  HG_TRY_ASSIGN(const TensorData copy, TensorData::copy_of(state));
  return session_->set_value(name, copy.tensor);
}

// Moves columns of the states that slide, or of the others that grow.
Status DecoderSession::move_columns(bool slides, int64_t from, int64_t to, int64_t count) {
  if (count == 0 || from == to) return {};
  for (const KeptState& each : kept_) {
    const int grows = each.grows;
    if (grows < 0 || each.slides != slides) continue;
    HG_TRY_ASSIGN(const Tensor state, session_->value(each.name));
    int64_t outer = 1, column = size_of(state.dtype);
    for (int d = 0; d < grows; ++d) outer *= state.shape[d];
    for (int d = grows + 1; d < state.rank(); ++d) column *= state.shape[d];
    for (int64_t i = 0; i < outer; ++i) {
      auto* const columns = static_cast<char*>(state.data) + i * state.shape[grows] * column;
      std::memmove(columns + to * column, columns + from * column,
                   static_cast<size_t>(count * column));
    }
    HG_TRY(keep_changes(each.name, state));
  }
  return {};
}

Status DecoderSession::drop_columns(int64_t count) {
  HG_TRY(move_columns(false, count, 0, past_ - count));
  const int64_t held = std::min(window_past_, past_ - count);
  HG_TRY(move_columns(true, window_past_ - held, 0, held));
  window_past_ = held;
  for (Integers* const input : {&ids_, &mask_, &positions_})
    for (std::vector<int64_t>& row : input->rows) row.erase(row.begin(), row.begin() + count);
  past_ -= count;
  return {};
}

Status DecoderSession::replace_row(size_t row, const DecoderSession& other, size_t other_row,
                                   int64_t length) {
  if (!session_ || !other.session_)
    return internal_error("generate: an earlier call lost the session");
  const int64_t more = std::max(int64_t{0}, length - past_);
  if (past_ + more > capacity_) HG_TRY(grow(past_ + more));
  HG_TRY(move_columns(false, 0, more, past_));
  for (Integers* const input : {&ids_, &mask_, &positions_})
    for (std::vector<int64_t>& each : input->rows)
      each.insert(each.begin(), static_cast<size_t>(more), 0);
  past_ += more;
  const int64_t least = std::max(window_past_, least_held(past_));
  HG_TRY(move_columns(true, 0, least - window_past_, window_past_));
  window_past_ = std::max(window_past_, least);
  for (const KeptState& each : kept_) {
    const int grows = each.grows, batch = each.batch;
    const int64_t count =
        each.slides ? std::min({length, window_past_, other.window_past_}) : length;
    // The row's last `count` columns, or all of its state.
    const auto part = [&](Tensor state, size_t index, int64_t held) {
      int64_t offset = static_cast<int64_t>(index) * state.strides[batch];
      state.shape[batch] = 1;
      if (grows >= 0) {
        offset += (held - count) * state.strides[grows];
        state.shape[grows] = count;
      }
      state.data = static_cast<char*>(state.data) + offset * size_of(state.dtype);
      return state;
    };
    HG_TRY_ASSIGN(const Tensor from, other.session_->value(each.name));
    HG_TRY_ASSIGN(const Tensor to, session_->value(each.name));
    copy_elements(part(from, other_row, other.held(each)), part(to, row, held(each)));
    HG_TRY(keep_changes(each.name, to));
  }
  for (const auto& [mine, its] : {std::pair{&ids_, &other.ids_}, std::pair{&mask_, &other.mask_},
                                  std::pair{&positions_, &other.positions_}}) {
    std::vector<int64_t>& tokens = mine->rows[row];
    const std::vector<int64_t>& given = its->rows[other_row];
    std::fill(tokens.begin(), tokens.end(), 0);
    std::copy_n(given.begin() + (other.past_ - length), length, tokens.end() - length);
  }
  return {};
}

Status DecoderSession::keep_new(std::span<const int64_t> kept, int64_t count) {
  const int64_t most = *std::max_element(kept.begin(), kept.end()), dropped = count - most;
  past_ -= dropped;
  window_past_ = std::max(int64_t{0}, window_past_ - dropped);
  for (Integers* const input : {&ids_, &mask_, &positions_})
    for (size_t row = 0; row < kept.size(); ++row) {
      std::vector<int64_t>& tokens = input->rows[row];
      tokens.resize(tokens.size() - static_cast<size_t>(count - kept[row]));
      tokens.insert(tokens.begin(), static_cast<size_t>(most - kept[row]), 0);
    }
  if (std::all_of(kept.begin(), kept.end(), [&](int64_t each) { return each == most; })) return {};
  for (const KeptState& each : kept_) {
    HG_TRY_ASSIGN(const Tensor state, session_->value(each.name));
    for (size_t row = 0; row < kept.size(); ++row) {
      const int64_t moved = std::min(most - kept[row], held(each));
      if (moved == 0) continue;
      Tensor part = state;
      part.shape[each.batch] = 1;
      part.shape[each.grows] = held(each) - moved;
      const int64_t size = size_of(state.dtype);
      part.data = static_cast<char*>(state.data) +
                  static_cast<int64_t>(row) * state.strides[each.batch] * size;
      HG_TRY_ASSIGN(const TensorData columns, TensorData::copy_of(part));
      part.data = static_cast<char*>(part.data) + moved * state.strides[each.grows] * size;
      copy_elements(columns.tensor, part);
    }
    HG_TRY(keep_changes(each.name, state));
  }
  return {};
}

Status DecoderSession::reorder(std::span<const size_t> from) {
  bool is_same = true;
  for (size_t i = 0; i < from.size(); ++i) is_same = is_same && from[i] == i;
  if (is_same) return {};
  for (Integers* const input : {&ids_, &mask_, &positions_}) {
    const auto before = input->rows;
    for (size_t i = 0; i < from.size(); ++i) input->rows[i] = before[from[i]];
  }
  if (buffers_) return buffers_->reorder(from);
  for (const KeptState& each : kept_) {
    const int batch = each.batch;
    if (batch < 0)
      return unsupported("generate: no dim, or several, of the input '", each.name,
                         "' is the number of prompts");
    HG_TRY_ASSIGN(Tensor state, session_->value(each.name));
    const auto row = [&](const Tensor& all, size_t index) {
      Tensor part = all;
      part.shape[batch] = 1;
      part.data = static_cast<char*>(all.data) +
                  static_cast<int64_t>(index) * all.strides[batch] * size_of(all.dtype);
      return part;
    };
    const Tensor used = used_part(each, state);
    HG_TRY_ASSIGN(const TensorData before, TensorData::copy_of(used));
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i] != i) copy_elements(row(before.tensor, from[i]), row(used, i));
    HG_TRY(keep_changes(each.name, state));
  }
  return {};
}

void DecoderSession::discard_new() {
  for (Integers* const input : {&ids_, &mask_, &positions_})
    for (std::vector<int64_t>& row : input->rows)
      if (static_cast<int64_t>(row.size()) > past_) row.resize(static_cast<size_t>(past_));
}

}  // namespace hg
