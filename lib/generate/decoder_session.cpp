// SPDX-License-Identifier: Apache-2.0
#include "lib/generate/decoder_session.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <string_view>

#include "hg/generator.h"
#include "hg/graph.h"
#include "hg/stateful.h"
#include "lib/generate/tables.h"
#include "lib/generate/windows.h"
#include "lib/graph/access.h"
#include "lib/graph/ends.h"
#include "lib/graph/past_names.h"

namespace hg {
namespace {

constexpr char kKept[] = "kept_logits";   // an input and its size
constexpr int64_t kChunk = 512;           // most tokens of a prompt that a run reads
constexpr int64_t kFirstCapacity = 1024;  // positions that create() makes room for
constexpr int64_t kLargestWindow = 1 << 24;
constexpr int64_t kRolledBack = 64;  // tokens that truncate() may drop from a full window

template <class T>
void copy_parts(const std::vector<std::vector<int64_t>>& rows, int64_t from, int64_t to, T* out) {
  for (const std::vector<int64_t>& row : rows)
    out = std::transform(row.begin() + from, row.begin() + to, out,
                         [](int64_t value) { return static_cast<T>(value); });
}

template <class T>
void copy_row(const Tensor& tensor, int64_t at, int64_t stride, std::vector<float>& out) {
  const T* const from = tensor.as<const T>() + at;
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(from[static_cast<int64_t>(i) * stride]);
}

// The operand of the product that computes logits, without slices of it; kNoValue if no product
// does.
ValueId head_input(const Graph& graph, ValueId id) {
  const auto is_one_of = [](const Node& node, std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), node.op->name()) != names.end();
  };
  const auto has_tokens = [&](ValueId value) {
    return value != kNoValue && graph.value_info(value).type.rank() == 3;
  };
  bool is_past_product = false;
  for (int32_t at; (at = graph.value_info(id).node) >= 0;) {
    const Node& node = graph.nodes()[static_cast<size_t>(at)];
    const bool is_slice = node.op->name() == "slice";
    if (is_past_product) {
      if (!is_slice) break;
      id = node.inputs[0];
    } else if (is_one_of(node, {"linear", "quantized_linear", "matmul"})) {
      is_past_product = true;
      id = node.inputs[0];
    } else {
      const bool is_elementwise = (node.op->def.traits & kElementwise) != 0;
      if (!is_slice && !is_elementwise && node.op->name() != "cast") break;
      if (std::count_if(node.inputs.begin(), node.inputs.end(), has_tokens) != 1) break;
      id = *std::find_if(node.inputs.begin(), node.inputs.end(), has_tokens);
    }
  }
  return is_past_product ? id : kNoValue;
}

}  // namespace

Result<DecoderSession> DecoderSession::create(const Model& model, SessionOptions options,
                                              int64_t batch, DecoderOutput output,
                                              std::optional<DType> stored) {
  if (!options.entry.empty()) {
    HG_TRY_ASSIGN(const Model entry, model.entry(options.entry));
    options.entry.clear();
    return create(entry, std::move(options), batch, output, stored);
  }
  if (is_encoder_decoder(model)) {
    HG_TRY_ASSIGN(Model entry, model.entry("decode"));
    const auto decode = std::make_shared<const Model>(std::move(entry));
    HG_TRY_ASSIGN(DecoderSession made, create_decoder(decode, options, batch, output, stored));
    HG_TRY_ASSIGN(made.encoder_,
                  EncoderSession::create(model, decode->graph(), std::move(options)));
    return made;
  }
  HG_TRY(model.graph().status());
  for (const ValueId id : model.graph().inputs())
    if (const std::string& name = model.graph().value_info(id).name; EncoderSession::gives(name))
      return unsupported("generate: the input '", name,
                         "' comes from an encoder; generate with the model of both entries");
  return create_decoder(std::make_shared<const Model>(model), std::move(options), batch, output,
                        stored);
}

Result<DecoderSession> DecoderSession::create_decoder(SharedModel model, SessionOptions options,
                                                      int64_t batch, DecoderOutput output,
                                                      std::optional<DType> stored) {
  options.device_outputs = false;
  DecoderSession decoder(std::move(model), std::move(options));
  decoder.output_ = output;
  decoder.stored_ = stored;
  const Graph& graph = decoder.model_->graph();
  for (const ValueId id : graph.inputs()) HG_TRY(decoder.find_input(id));
  for (const auto& [name, id] : graph.outputs()) HG_TRY(decoder.find_output(name, id));
  HG_TRY(decoder.check_parts());
  decoder.find_limits();
  if (output == DecoderOutput::hidden) HG_TRY(decoder.read_hidden());
  HG_TRY(decoder.use_windows());
  HG_TRY(decoder.keep_last_logits());
  HG_TRY(decoder.find_carried());
  HG_TRY(decoder.open_first(batch));
  return decoder;
}

Status DecoderSession::find_input(ValueId id) {
  const std::string& name = model_->graph().value_info(id).name;
  const TensorType& type = model_->graph().value_info(id).type;
  if (past_suffix(name) || EncoderSession::gives(name)) return {};
  const bool is_mask = name == "attention_mask";
  if (name == "cache_position") {
    if (type.dtype != i64 || type.rank() != 1 ||
        (type.shape[0].is_constant() && type.shape[0] != Dim(1)))
      return unsupported("generate: the input '", name, "' is ", type,
                         ", expected i64[time], where time is a symbol or 1");
    columns_.value = id;
    return {};
  }
  if ((type.dtype != i64 && type.dtype != i32 && !(is_mask && type.dtype == boolean)) ||
      type.rank() != 2 || (type.shape[1].is_constant() && (is_mask || type.shape[1] != Dim(1))))
    return unsupported("generate: the input '", name, "' is ", type, ", expected i64[batch, ",
                       is_mask ? "past + time]" : "time]", ", where time is a symbol",
                       is_mask ? "" : " or 1");
  const bool is_types = output_ == DecoderOutput::hidden && name == "token_type_ids";
  Integers& input = is_mask                  ? mask_
                    : name == "position_ids" ? positions_
                    : is_types               ? types_
                                             : ids_;
  if (input.value != kNoValue)
    return unsupported("generate: the inputs '", model_->graph().value_info(input.value).name,
                       "' and '", name, "' could both be the ids");
  input.value = id;
  return {};
}

Status DecoderSession::find_output(const std::string& name, ValueId id) {
  if (present_suffix(name)) return {};
  const bool is_hidden = output_ == DecoderOutput::hidden;
  const char* const wanted = is_hidden ? "last_hidden_state" : "logits";
  if (!logits_.empty() && name != wanted && logits_ != wanted)
    return unsupported("generate: the outputs '", logits_, "' and '", name, "' could both be the ",
                       is_hidden ? "hidden states" : "logits");
  if (!logits_.empty() && name != wanted) return {};
  // A decoder without its head has no logits.
  if (!is_hidden && (name == "hidden_states" || name == "last_hidden_state")) return {};
  logits_ = name;
  logits_type_ = model_->graph().value_info(id).type;
  return {};
}

Status DecoderSession::check_parts() const {
  if (ids_.value == kNoValue)
    return unsupported("generate: the model has no input of ids, expected i64[batch, time]");
  if (logits_.empty())
    return unsupported(
        "generate: the model has no output of logits, expected f32[batch, time, vocabulary]");
  if (!is_float(logits_type_.dtype) || logits_type_.dtype == f64 || logits_type_.rank() != 3)
    return unsupported("generate: the output '", logits_, "' is ", logits_type_,
                       ", expected f32[batch, time, vocabulary]");
  return {};
}

Result<DecoderSession::SharedModel> DecoderSession::changed(Graph graph,
                                                            const std::string& how) const {
  HG_TRY_ASSIGN(Model model, Model::from_graph(std::move(graph)));
  GraphAccess::share_companions(whole_->graph(), how, model.graph());
  return std::make_shared<const Model>(std::move(model));
}

// Makes the hidden states the output in the place of the logits.
Status DecoderSession::read_hidden() {
  Graph graph(whole_->graph());
  ValueId hidden = output_named(graph, logits_);
  const bool are_logits = logits_ == "logits" || logits_type_.shape[2] == Dim(vocabulary_);
  if (logits_ != "last_hidden_state" && are_logits) hidden = head_input(graph, hidden);
  if (hidden == kNoValue)
    return unsupported("embed: the output '", logits_, "' is not computed by a product");
  const TensorType& type = graph.value_info(hidden).type;
  if (type.rank() != 3 || !is_float(type.dtype) || type.dtype == f64 ||
      !type.shape[2].is_constant())
    return unsupported("embed: the hidden states are ", type, ", expected f32[batch, time, size]");
  logits_type_ = type;
  auto& outputs = GraphAccess::body(graph).outputs;
  std::erase_if(outputs, [&](const auto& output) {
    return output.first != logits_ && !present_suffix(output.first);
  });
  for (auto& [name, id] : outputs)
    if (name == logits_) id = hidden;
  HG_TRY(graph.verify());
  HG_TRY_ASSIGN(model_, changed(std::move(graph), "hidden states"));
  whole_ = model_;
  return {};
}

bool DecoderSession::reads_single_tokens() const {
  return model_->graph().value_info(ids_.value).type.shape[1] == Dim(1);
}

// Passes of the compiler then leave out what computes the other logits. The number of logits is a
// symbol: one session serves runs that need one and runs that need several.
Status DecoderSession::keep_last_logits() {
  const Dim time = logits_type_.shape[1];
  if (time == Dim(1)) return {};
  Graph graph(whole_->graph());
  const Dim count(kKept);
  graph.input(kKept, boolean, {count});
  const ValueId all = output_named(graph, logits_);
  const Value last =
      graph.call("slice", {graph.value(all)}, {{"dim", 1}, {"start", time - count}, {"end", time}});
  HG_TRY(graph.status());
  for (auto& [name, id] : GraphAccess::body(graph).outputs)
    if (name == logits_) id = last.id();
  HG_TRY_ASSIGN(model_, changed(std::move(graph), "last logits"));
  counts_logits_ = true;
  return {};
}

// Keeps only the last positions of what sliding windows read, if a session keeps the past.
Status DecoderSession::use_windows() {
  HG_TRY_ASSIGN(std::optional<Windows> windows,
                find_windows(whole_->graph(), carried_values(whole_->graph())));
  if (!windows || windows->size > kLargestWindow) return {};
  HG_TRY_ASSIGN(SharedModel sliding, changed(std::move(windows->graph), "windows"));
  if (!make_stateful(*sliding, stateful_options(1, kFirstCapacity)).ok()) return {};
  whole_ = model_ = std::move(sliding);
  window_ = windows->size;
  window_capacity_ = window_ - 1 + kRolledBack + kChunk;
  sliding_ = std::move(windows->inputs);
  return {};
}

Status DecoderSession::find_carried() {
  const Graph& graph = model_->graph();
  const std::vector<CarriedValue> values = carried_values(graph);
  for (const ValueId id : graph.inputs()) {
    const std::string& name = graph.value_info(id).name;
    const auto suffix = past_suffix(name);
    if (!suffix) continue;
    const auto found = std::find_if(values.begin(), values.end(), [&](const CarriedValue& each) {
      return past_suffix(each.input) == suffix;
    });
    if (found == values.end())
      return unsupported("generate: the input '", name, "' has no output 'present", *suffix, "'");
    if (found->input != name)
      return unsupported("generate: the inputs '", found->input, "' and '", name,
                         "' have the same past");
    carried_.push_back(*found);
    const bool slides = std::find(sliding_.begin(), sliding_.end(), name) != sliding_.end();
    KeptState kept{name, growing_dim(*found), batch_dim(*found), slides};
    if (stored_ == i8 && kept.grows >= 0)
      kept_.push_back({scale_name(name), kept.grows, kept.batch, slides});
    kept_.push_back(std::move(kept));
  }
  if (stored_ && !grows())
    return unsupported("generate: the model has no past that grows, to be stored as ", *stored_);
  const ValueInfo& ids = graph.value_info(ids_.value);
  if (carried_.empty() && ids.type.shape[1].is_constant())
    return unsupported("generate: the input '", ids.name, "' is ", ids.type,
                       ", but the model has no past; export it with a dynamic dim 1 of '", ids.name,
                       "', or with its cache as inputs past.* and outputs present.*");
  return {};
}

bool DecoderSession::grows() const {
  return std::any_of(kept_.begin(), kept_.end(),
                     [](const KeptState& each) { return each.grows >= 0; });
}

void DecoderSession::find_limits() {
  const auto rows = [&](const Integers& input) {
    return input.value == kNoValue ? 0 : rows_of_table(model_->graph(), input.value);
  };
  vocabulary_ = rows(ids_);
  position_limit_ = rows(positions_);
  if (mask_.value != kNoValue) {  // such as --max-context of `hologram llm`
    const Dim& length = model_->graph().value_info(mask_.value).type.shape.back();
    for (const Guard& guard : model_->graph().guards()) {
      if (guard.left != length || !guard.right.is_constant()) continue;
      const int64_t most = guard.right.constant() - (guard.relation == Relation::lt ? 1 : 0);
      const bool limits = guard.relation == Relation::le || guard.relation == Relation::lt;
      if (limits && most > 0 && (position_limit_ == 0 || most < position_limit_))
        position_limit_ = most;
    }
  }
  const Dim& logits = logits_type_.shape[2];
  if (vocabulary_ == 0 && logits.is_constant()) vocabulary_ = logits.constant();
}

// ---- Sessions ----

Status DecoderSession::open_first(int64_t batch) {
  if (!carried_.empty()) {
    if (batch_size().is_constant()) batch = batch_size().constant();
    Result<Model> stateful = make_stateful(*model_, stateful_options(batch, kFirstCapacity));
    if (stateful.ok())
      return open(std::make_shared<const Model>(*std::move(stateful)), batch, kFirstCapacity);
    if (stored_) return stateful.status();
    HG_TRY_ASSIGN(buffers_, PastBuffers::create(model_->graph(), carried_));
  }
  return use(Session::create(*model_, options_));
}

const Dim& DecoderSession::batch_size() const {
  return model_->graph().value_info(ids_.value).type.shape[0];
}

StatefulOptions DecoderSession::stateful_options(int64_t batch, int64_t capacity) const {
  StatefulOptions options = {.carried = carried_, .capacity = capacity, .stored = stored_};
  if (const std::string symbol(batch_size().symbol()); !symbol.empty())
    options.dims = {{symbol, batch}};
  if (window_ > 0) options.capacities = {{kWindowPast, std::min(capacity, window_capacity_)}};
  return options;
}

int64_t DecoderSession::capacity_for(int64_t positions) {
  return std::max(kFirstCapacity,
                  static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(positions))));
}

Status DecoderSession::use(Result<Session> session) {
  HG_TRY(session.status());
  if (change_) HG_TRY(change_(*session));
  session_ = std::make_shared<SharedSession>(*std::move(session));
  return {};
}

// Copies what the model carries to a session of its own if forks share the session.
Status DecoderSession::own_session() {
  const std::shared_ptr<SharedSession> shared = session_;
  const std::lock_guard lock(shared->reading);
  if (shared.use_count() <= 2 || !keeps_past()) return {};  // session_ and `shared`
  HG_TRY(open(stateful_, session_batch_, capacity_));
  for (const KeptState& each : kept_) {
    HG_TRY_ASSIGN(const Tensor from, shared->value(each.name));
    HG_TRY_ASSIGN(const Tensor to, session_->value(each.name));
    copy_elements(used_part(each, from), used_part(each, to));
    HG_TRY(keep_changes(each.name, to));
  }
  return {};
}

// Creates a session whose states are zeros.
Status DecoderSession::open(int64_t batch, int64_t capacity) {
  session_.reset();  // frees its memory before the next session allocates
  HG_TRY_ASSIGN(Model stateful, make_stateful(*model_, stateful_options(batch, capacity)));
  return open(std::make_shared<const Model>(std::move(stateful)), batch, capacity);
}
Status DecoderSession::open(SharedModel stateful, int64_t batch, int64_t capacity) {
  stateful_ = std::move(stateful);
  SessionOptions options = options_;
  const std::string_view symbol = batch_size().symbol();
  std::erase_if(options.dims, [&](const auto& dim) { return dim.first == symbol; });
  std::erase_if(options.ranges, [&](const SizeRange& range) { return range.symbol == symbol; });
  HG_TRY(use(Session::create(*stateful_, std::move(options))));
  capacity_ = grows() ? capacity : std::numeric_limits<int64_t>::max();
  session_batch_ = batch;
  return {};
}

Status DecoderSession::start(int64_t batch, int64_t positions) {
  const Dim& size = batch_size();
  HG_CHECK(!size.is_constant() || size.constant() == batch, "generate: the model takes ",
           size.constant(), size.constant() == 1 ? " prompt" : " prompts", " at a time, got ",
           batch);
  batch_ = batch;
  past_ = window_past_ = 0;
  for (Integers* input : {&ids_, &mask_, &positions_})
    input->rows.assign(static_cast<size_t>(batch), {});
  if (buffers_) buffers_->start(batch);
  if (!keeps_past()) return {};
  if (!session_ || session_.use_count() > 1 || batch != session_batch_ || positions > capacity_)
    return open(batch, capacity_for(positions));
  return clear_states();
}

// Values that grow start with a past of 0; other values start with zeros.
Status DecoderSession::clear_states() {
  if (session_.use_count() > 1) return open(batch_, capacity_);
  for (const KeptState& each : kept_) {
    if (each.grows >= 0) continue;
    HG_TRY_ASSIGN(const Tensor state, session_->value(each.name));
    HG_TRY_ASSIGN(const TensorData zeros, TensorData::allocate(state.dtype, state.shape));
    HG_TRY(session_->set_value(each.name, zeros.tensor));
  }
  return {};
}

// The dim of a carried value that grows in each run; -1: none.
int DecoderSession::growing_dim(const CarriedValue& carried) const {
  const Graph& graph = model_->graph();
  const TensorType& before = graph.value_info(input_named(graph, carried.input)).type;
  const TensorType& after = graph.value_info(output_named(graph, carried.output)).type;
  for (int d = 0; d < before.rank(); ++d)
    if (before.shape[static_cast<size_t>(d)] != after.shape[static_cast<size_t>(d)]) return d;
  return -1;
}

// ---- Tokens ----

void DecoderSession::push(size_t row, int64_t id, int64_t position, bool is_hidden) {
  ids_.rows[row].push_back(id);
  mask_.rows[row].push_back(is_hidden ? 0 : 1);
  positions_.rows[row].push_back(position);
}

// Sets the values of some positions, as [batch, time].
Status DecoderSession::set_integers(Integers& input, int64_t from, int64_t to) {
  if (input.value == kNoValue) return {};
  const ValueInfo& info = model_->graph().value_info(input.value);
  HG_TRY_ASSIGN(input.data, TensorData::allocate(info.type.dtype, {batch_, to - from}));
  const Tensor& tensor = input.data.tensor;
  if (tensor.dtype == i64)
    copy_parts(input.rows, from, to, tensor.as<int64_t>());
  else if (tensor.dtype == i32)
    copy_parts(input.rows, from, to, tensor.as<int32_t>());
  else
    copy_parts(input.rows, from, to, tensor.as<bool>());
  return session_->set_input(info.name, tensor);
}

Status DecoderSession::run(std::stop_token stop) {
  const auto all = static_cast<int64_t>(ids_.rows[0].size());
  if (!session_) return internal_error("generate: an earlier call lost the session");
  if (keeps_past() && all > capacity_)
    HG_TRY(grow(all));
  else
    HG_TRY(own_session());
  if (carried_.empty()) HG_TRY(run_part(0, all, stop));
  // Features of images replace tokens of the first run.
  const int64_t most = reads_single_tokens() ? 1 : encoder_ ? all : kChunk;
  // The last part has all tokens whose logits are kept. Models with states may compute a run
  // of one token as a step of an answer, so the last part of a long prompt has at least two.
  const int64_t ending =
      most > 1 && !can_roll_back() ? std::max<int64_t>(kept_logits_, 2) : kept_logits_;
  while (!carried_.empty() && past_ < all) {
    const int64_t left = all - past_;
    const bool is_last = left <= std::max(most, ending);
    HG_TRY(run_part(past_, past_ + (is_last ? left : std::min(most, left - ending)), stop));
  }
  kept_logits_ = 1;
  return {};
}

// Reads these tokens.
Status DecoderSession::run_part(int64_t from, int64_t to, std::stop_token stop) {
  if (window_ > 0) {
    HG_TRY(make_room(to - from));
    HG_TRY_ASSIGN(window_data_, TensorData::allocate(boolean, {window_past_}));
  }
  session_->forget_tensors();
  if (window_ > 0) HG_TRY(session_->set_input(kWindowPast, window_data_.tensor));
  if (encoder_) HG_TRY(encoder_->run(*session_, stop));
  HG_TRY(set_integers(ids_, from, to));
  HG_TRY(set_integers(mask_, 0, to));
  HG_TRY(set_integers(positions_, from, to));
  if (columns_.value != kNoValue) {
    HG_TRY_ASSIGN(columns_.data, TensorData::allocate(i64, {to - from}));
    std::iota(columns_.data.tensor.as<int64_t>(), columns_.data.tensor.as<int64_t>() + (to - from),
              from);
    HG_TRY(session_->set_input("cache_position", columns_.data.tensor));
  }
  if (types_.value != kNoValue) {
    const ValueInfo& info = model_->graph().value_info(types_.value);
    HG_TRY_ASSIGN(types_.data, TensorData::allocate(info.type.dtype, {batch_, to - from}));
    HG_TRY(session_->set_input(info.name, types_.data.tensor));
  }
  if (counts_logits_) {
    HG_TRY_ASSIGN(kept_data_, TensorData::allocate(boolean, {std::min(kept_logits_, to - from)}));
    HG_TRY(session_->set_input(kKept, kept_data_.tensor));
  }
  if (buffers_) HG_TRY(buffers_->set(*session_, to - from));
  HG_TRY(session_->run(std::move(stop)));
  if (carried_.empty()) return {};
  if (buffers_) buffers_->ran(to - from);
  past_ = to;
  window_past_ += to - from;
  return {};
}

Status DecoderSession::logits(size_t row, std::vector<float>& out, int64_t back) const {
  HG_TRY_ASSIGN(const Tensor all, session_->output(logits_));
  HG_CHECK(all.shape[0] == batch_ && all.shape[1] > back, "generate: the output '", logits_,
           "' is ", all.shape, " for ", batch_, " prompts");
  const int64_t at =
      static_cast<int64_t>(row) * all.strides[0] + (all.shape[1] - 1 - back) * all.strides[1];
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
