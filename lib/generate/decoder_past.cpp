// SPDX-License-Identifier: Apache-2.0
// The past of one sequence: dropping its last tokens, copies of it, and its file.
//
// The file is a model without nodes. Its buffers are the ids and what the model carries after the
// tokens it has read, so the reader of models checks it.
#include <algorithm>
#include <array>
#include <charconv>

#include "lib/generate/decoder_session.h"
#include "lib/graph/access.h"
#include "lib/graph/checksum.h"
#include "lib/graph/ends.h"
#include "lib/model/crc32c.h"

namespace hg {
namespace {

constexpr char kFileKind[] = "past of a language model";
constexpr char kIds[] = "ids", kRead[] = "read";

const Tensor* state_named(const Graph& graph, std::string_view name) {
  for (const State& state : graph.states())
    if (state.name == name) return &state.data.tensor;
  return nullptr;
}

}  // namespace

bool DecoderSession::can_roll_back() const {
  return !buffers_ && std::all_of(kept_.begin(), kept_.end(),
                                  [](const KeptState& each) { return each.grows >= 0; });
}

Status DecoderSession::check_no_encoder(std::string_view what) const {
  return encoder_ ? unsupported("generate: cannot ", what,
                                " a past that depends on the inputs of an encoder")
                  : Status();
}

Status DecoderSession::check_speculation() const {
  HG_TRY(check_no_encoder("speculate with"));
  if (!keeps_past() || !can_roll_back())
    return unsupported(
        "generate: speculative decoding needs a past that grows, which the session keeps");
  if (gives_last_only())
    return unsupported("generate: speculative decoding needs the logits of all tokens; '", logits_,
                       "' is ", logits_type_);
  return {};
}

Status DecoderSession::check_sequence(std::string_view what) const {
  HG_TRY(check_no_encoder(what));
  HG_CHECK(batch_ <= 1, "generate: cannot ", what, " the past of ", batch_,
           " sequences; call reset()");
  if (!session_) return internal_error("generate: an earlier call lost the session");
  return {};
}

void DecoderSession::reset() {
  batch_ = past_ = window_past_ = 0;
  for (Integers* const input : {&ids_, &mask_, &positions_}) input->rows.clear();
}

int64_t DecoderSession::length() const {
  return batch_ == 1 && !encoder_ ? static_cast<int64_t>(ids_.rows[0].size()) : 0;
}

std::vector<int32_t> DecoderSession::ids() const {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < length(); ++i)
    out.push_back(static_cast<int32_t>(ids_.rows[0][static_cast<size_t>(i)]));
  return out;
}

Status DecoderSession::truncate(int64_t length) {
  HG_TRY(check_sequence("truncate"));
  HG_CHECK(length >= 0 && length <= this->length(), "generate: cannot truncate a past of ",
           this->length(), " tokens to ", length);
  if (batch_ == 0) return {};
  for (Integers* const input : {&ids_, &mask_, &positions_})
    input->rows[0].resize(static_cast<size_t>(length));
  if (length >= past_) return {};
  if (!can_roll_back(length)) return forget_read();
  window_past_ = std::max(int64_t{0}, window_past_ - (past_ - length));
  past_ = length;
  return {};
}

// Positions that states that slide hold at least after this many tokens.
int64_t DecoderSession::least_held(int64_t past) const {
  return std::min(past, std::max(int64_t{0}, window_ - 1));
}

// Whether no token is read again.
bool DecoderSession::can_roll_back(int64_t length) const {
  return can_roll_back() && window_past_ - (past_ - length) >= least_held(length);
}

// Drops positions that no window shows, so that states that slide have room for more tokens.
Status DecoderSession::make_room(int64_t time) {
  if (window_past_ + time <= window_capacity_) return {};
  const int64_t kept = std::max(least_held(past_), std::min(window_past_, window_capacity_ - time));
  HG_TRY(move_columns(true, window_past_ - kept, 0, kept));
  window_past_ = kept;
  if (kept + time <= window_capacity_) return {};
  HG_TRY_ASSIGN(const std::vector<TensorData> carried, copy_carried());
  window_capacity_ = kept + time;
  HG_TRY(open(batch_, capacity_));
  return restore_carried(carried);
}

Result<int64_t> DecoderSession::resume(std::span<const int32_t> prompt, int64_t positions) {
  if (encoder_ || batch_ != 1 || !session_) return 0;
  const std::vector<int64_t>& before = ids_.rows[0];
  const int64_t most = std::min<int64_t>(past_, static_cast<int64_t>(prompt.size()) - 1);
  int64_t same = 0;
  while (same < most && before[static_cast<size_t>(same)] == prompt[static_cast<size_t>(same)])
    ++same;
  if (same == 0 || (same < past_ && !can_roll_back(same))) return 0;
  HG_TRY(truncate(same));
  if (keeps_past() && positions > capacity_) HG_TRY(grow(positions));
  return same;
}

// The next run reads all tokens again.
Status DecoderSession::forget_read() {
  past_ = window_past_ = 0;
  if (buffers_) buffers_->start(batch_);
  return keeps_past() ? clear_states() : Status();
}

// ---- Copies ----

// A carried value without the positions that are free.
Tensor DecoderSession::used_part(const KeptState& kept, Tensor state) const {
  if (kept.grows >= 0) state.shape[kept.grows] = held(kept);
  return state;
}

Result<std::vector<TensorData>> DecoderSession::copy_carried() const {
  std::vector<TensorData> copies;
  const std::lock_guard lock(session_->reading);
  for (const KeptState& each : kept_) {
    HG_TRY_ASSIGN(const Tensor state, session_->value(each.name));
    HG_TRY_ASSIGN(TensorData copy, TensorData::copy_of(used_part(each, state)));
    copies.push_back(std::move(copy));
  }
  return copies;
}

Status DecoderSession::restore_carried(std::span<const TensorData> copies) {
  for (size_t i = 0; i < copies.size(); ++i) {
    HG_TRY_ASSIGN(const Tensor state, session_->value(kept_[i].name));
    copy_elements(copies[i].tensor, used_part(kept_[i], state));
    HG_TRY(keep_changes(kept_[i].name, state));
  }
  return {};
}

// Makes room for more positions. Keeps the values that the model carries.
Status DecoderSession::grow(int64_t positions) {
  HG_TRY_ASSIGN(const std::vector<TensorData> kept, copy_carried());
  HG_TRY(open(batch_, capacity_for(positions)));
  return restore_carried(kept);
}

Status DecoderSession::change_sessions(std::function<Status(Session&)> change, uint64_t hash) {
  if (encoder_)
    return unsupported("generate: cannot change the sessions of an encoder and a decoder together");
  if (!session_) return internal_error("generate: an earlier call lost the session");
  HG_TRY(own_session());
  HG_TRY(change(*session_));
  change_ = std::move(change);
  change_hash_ = hash;
  if (batch_ > 1) reset();
  return batch_ == 0 ? Status() : forget_read();
}

Result<DecoderSession> DecoderSession::fork() const {
  HG_TRY(check_sequence("fork"));
  DecoderSession copy(whole_, options_);
  copy.model_ = model_;
  copy.counts_logits_ = counts_logits_;
  copy.logits_ = logits_;
  copy.logits_type_ = logits_type_;
  copy.carried_ = carried_;
  copy.kept_ = kept_;
  copy.stored_ = stored_;
  copy.change_ = change_;
  copy.change_hash_ = change_hash_;
  copy.vocabulary_ = vocabulary_;
  copy.position_limit_ = position_limit_;
  for (const auto& [to, from] : {std::pair{&copy.ids_, &ids_}, std::pair{&copy.mask_, &mask_},
                                 std::pair{&copy.positions_, &positions_}}) {
    to->value = from->value;
    to->rows = from->rows;
  }
  copy.window_ = window_;
  copy.window_capacity_ = window_capacity_;
  copy.sliding_ = sliding_;
  copy.batch_ = batch_;
  if (!keeps_past()) {
    if (buffers_) {
      HG_TRY_ASSIGN(copy.buffers_, PastBuffers::create(model_->graph(), carried_));
    }
    HG_TRY(copy.use(Session::create(*model_, options_)));
    HG_TRY(copy.forget_read());
    return copy;
  }
  copy.stateful_ = stateful_;
  copy.session_ = session_;
  copy.session_batch_ = session_batch_;
  copy.capacity_ = capacity_;
  copy.past_ = past_;
  copy.window_past_ = window_past_;
  return copy;
}

// ---- Files ----

uint64_t hash_of_states(const Graph& graph, uint64_t hash) {
  const auto add = [&](const auto& value) {
    hash = checksum_of(std::as_bytes(std::span(&value, 1)), hash);
  };
  for (const State& state : graph.states()) {
    hash = checksum_of(std::as_bytes(std::span(state.name)), hash);
    const Tensor& tensor = state.data.tensor;
    add(tensor.dtype);
    for (const int64_t size : tensor.shape) add(size);
    add(crc32c(tensor.data, static_cast<size_t>(tensor.bytes())));
  }
  return hash;
}

// Distinguishes models: a past means nothing to other weights, ops, attributes or another
// precision.
std::string DecoderSession::fingerprint() const {
  uint64_t hash = checksum_of({});
  const auto add = [&](const auto& value) {
    hash = checksum_of(std::as_bytes(std::span(&value, 1)), hash);
  };
  add(options_.precision);
  if (stored_) add(*stored_);
  const std::string text = whole_->graph().text();
  hash = hash_of_states(model_->graph(), checksum_of(std::as_bytes(std::span(text)), hash));
  if (change_) add(change_hash_);
  std::array<char, 16> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  return {digits.data(), end};
}

Status DecoderSession::save(const std::string& path) const {
  HG_TRY(check_sequence("save"));
  const bool keeps = keeps_past() && batch_ == 1;
  const std::vector<int32_t> ids = this->ids();
  const std::vector<int64_t> read = {keeps ? past_ : 0};
  Graph graph;
  HG_TRY_ASSIGN(TensorData id_data, TensorData::copy_of(view(ids, {std::ssize(ids)})));
  HG_TRY_ASSIGN(TensorData read_data, TensorData::copy_of(view(read, {1})));
  graph.buffer(kIds, std::move(id_data));
  graph.buffer(kRead, std::move(read_data));
  if (read[0] > 0) {
    HG_TRY_ASSIGN(std::vector<TensorData> states, copy_carried());
    for (size_t i = 0; i < states.size(); ++i) graph.buffer(kept_[i].name, std::move(states[i]));
  }
  HG_TRY_ASSIGN(Model file, Model::from_graph(std::move(graph)));
  file.set_info({.producer = "hologram", .source = kFileKind, .source_hash = fingerprint()});
  return file.save(path);
}

Status DecoderSession::load(const std::string& path) {
  HG_TRY(check_sequence("load"));
  HG_TRY_ASSIGN(const Model file,
                Model::load(path, Registry::built_in(), {.verify_weights = true, .map = false}));
  const auto damaged = [&](const auto&... what) {
    return Status(Code::corrupt_model, str_cat("generate: '", path, "': ", what...));
  };
  HG_CHECK(file.info().source == kFileKind, "generate: '", path, "' holds no past");
  HG_CHECK(file.info().source_hash == fingerprint(), "generate: the past in '", path,
           "' belongs to another model, adapter or precision");
  const Tensor* const ids = state_named(file.graph(), kIds);
  const Tensor* const read = state_named(file.graph(), kRead);
  if (ids == nullptr || ids->dtype != i32 || ids->rank() != 1) return damaged("has no ids");
  const int64_t length = ids->shape[0];
  if (read == nullptr || read->dtype != i64 || read->count() != 1 || *read->as<int64_t>() < 0 ||
      *read->as<int64_t>() > length)
    return damaged("has a wrong number of tokens");
  if (position_limit_ > 0 && length > position_limit_)
    return damaged("has ", length, " tokens; the model has ", position_limit_, " positions");
  for (const int32_t id : std::span(ids->as<const int32_t>(), static_cast<size_t>(length)))
    if (id < 0 || (vocabulary_ > 0 && id >= vocabulary_))
      return damaged("has the id ", id, "; the vocabulary has ", vocabulary_, " tokens");
  const int64_t past = keeps_past() ? *read->as<int64_t>() : 0;
  std::vector<TensorData> states;
  int64_t window_past = -1;  // of the first state that slides
  for (const KeptState& each : kept_) {
    if (past == 0) break;
    const Tensor* const state = state_named(file.graph(), each.name);
    const std::lock_guard lock(session_->reading);
    HG_TRY_ASSIGN(Tensor wanted, session_->value(each.name));
    if (each.batch >= 0) wanted.shape[each.batch] = 1;
    if (state == nullptr) return damaged("has no '", each.name, "'");
    if (each.slides && window_past < 0 && state->rank() == wanted.rank())
      window_past =
          std::clamp(state->shape[each.grows], least_held(past), std::min(past, window_capacity_));
    if (each.grows >= 0) wanted.shape[each.grows] = each.slides ? window_past : past;
    if (state->dtype != wanted.dtype || !(state->shape == wanted.shape))
      return damaged("'", each.name, "' is ", to_string(state->dtype), state->shape, ", expected ",
                     to_string(wanted.dtype), wanted.shape);
    HG_TRY_ASSIGN(TensorData copy, TensorData::copy_of(*state));
    states.push_back(std::move(copy));
  }
  HG_TRY(start(1, length));
  for (int64_t i = 0; i < length; ++i) push(0, ids->as<int32_t>()[i], i, false);
  past_ = past;
  window_past_ = window_past < 0 ? past : window_past;
  const Status restored = restore_carried(states);
  if (!restored.ok()) reset();
  return restored;
}

}  // namespace hg
