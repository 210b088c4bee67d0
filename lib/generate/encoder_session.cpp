// SPDX-License-Identifier: Apache-2.0
#include "lib/generate/encoder_session.h"

#include <algorithm>
#include <string_view>

#include "hg/generator.h"
#include "lib/generate/tables.h"
#include "lib/graph/ends.h"

namespace hg {
namespace {

constexpr std::string_view kMask = "encoder_attention_mask";

// Row `index` of a tensor, as a tensor of one row.
Tensor row_of(Tensor rows, int64_t index) {
  rows.data = static_cast<char*>(rows.data) + index * rows.strides[0] * size_of(rows.dtype);
  rows.shape[0] = 1;
  return rows;
}

// Copies each row `copies` times, to the rows of `to` from `first * copies` on.
void repeat(const Tensor& rows, int64_t copies, int64_t first, const Tensor& to) {
  for (int64_t row = 0; row < rows.shape[0] * copies; ++row)
    copy_elements(row_of(rows, row / copies), row_of(to, first * copies + row));
}

}  // namespace

bool is_encoder_decoder(const Model& model) {
  const std::vector<std::string> names = model.entries();
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return has("encode") && has("decode");
}

bool EncoderSession::gives(std::string_view input) {
  return input == kMask || input.starts_with("cross.");
}

Result<EncoderSession> EncoderSession::create(const Model& model, const Graph& decode,
                                              SessionOptions options) {
  HG_TRY_ASSIGN(const Model encode, model.entry("encode"));
  const Graph& graph = encode.graph();
  HG_TRY_ASSIGN(Session session, Session::create(encode, std::move(options)));
  EncoderSession made(std::move(session));
  for (const ValueId id : graph.inputs()) {
    const ValueInfo& info = graph.value_info(id);
    const bool is_mask = info.name == "attention_mask";
    if (is_mask ? info.type.dtype != i64 || info.type.rank() != 2 : !made.source_.empty())
      return unsupported("generate: the input '", info.name, "' of the entry encode is ", info.type,
                         ", expected one input of ids or features, and attention_mask");
    if (is_mask) {
      made.mask_ = info.name;
      continue;
    }
    if (is_float(info.type.dtype) ? info.type.dtype != f32
                                  : info.type.dtype != i64 || info.type.rank() != 2)
      return unsupported("generate: the input '", info.name, "' of the entry encode is ", info.type,
                         ", expected i64[batch, source] or features of f32");
    made.source_ = info.name;
    made.source_type_ = info.type;
    made.vocabulary_ = rows_of_table(graph, id);
  }
  if (made.source_.empty()) return unsupported("generate: the entry encode has no input");
  for (const ValueId id : decode.inputs()) {
    const ValueInfo& info = decode.value_info(id);
    if (info.name == kMask) {
      if (info.type.dtype != i64 || made.mask_.empty())
        return unsupported("generate: the entry decode reads ", kMask, " as ", info.type,
                           made.mask_.empty() ? ", but encode has no attention_mask"
                                              : ", expected i64[batch, source]");
      made.gives_mask_ = true;
    } else if (gives(info.name)) {
      const ValueId out = output_named(graph, info.name);
      if (out == kNoValue || graph.value_info(out).type.dtype != info.type.dtype)
        return unsupported("generate: the entry decode reads '", info.name, "' as ", info.type,
                           ", but encode has no such output");
      made.crosses_.push_back(info.name);
    }
  }
  return made;
}

Status EncoderSession::begin(std::span<const std::vector<int32_t>> ids, const ConstTensor& features,
                             size_t prompts, int64_t copies) {
  has_run_ = false;
  copies_ = copies;
  const bool reads_ids = !is_float(source_type_.dtype);
  HG_CHECK(reads_ids ? features.data == nullptr : ids.empty(), "generate: the encoder reads ",
           reads_ids ? "token ids, not features" : "features, not token ids");
  const uint64_t given = reads_ids                  ? ids.size()
                         : features.data == nullptr ? 0
                                                    : static_cast<uint64_t>(features.shape[0]);
  HG_CHECK(given == prompts, "generate: the encoder got ", given, reads_ids ? " texts" : " rows",
           " for ", uint64_t{prompts}, prompts == 1 ? " prompt" : " prompts");
  if (reads_ids) return begin_ids(ids);
  bool fits = features.dtype == f32 && features.rank() == source_type_.rank();
  for (int d = 1; fits && d < features.rank(); ++d) {
    const Dim& size = source_type_.shape[static_cast<size_t>(d)];
    fits = !size.is_constant() || size.constant() == features.shape[d];
  }
  HG_CHECK(fits, "generate: the features are ", features.dtype, features.shape,
           ", but the encoder reads ", source_type_);
  HG_TRY_ASSIGN(given_, TensorData::copy_of(features));
  return {};
}

// Pads shorter texts on the right.
Status EncoderSession::begin_ids(std::span<const std::vector<int32_t>> ids) {
  size_t longest = 0, shortest = ids[0].size();
  for (size_t i = 0; i < ids.size(); ++i) {
    HG_CHECK(!ids[i].empty(), "generate: text ", uint64_t{i}, " of the encoder is empty");
    for (const int32_t id : ids[i])
      HG_CHECK(id >= 0 && (vocabulary_ == 0 || id < vocabulary_), "generate: text ", uint64_t{i},
               " of the encoder has the id ", id, ", but the vocabulary has ", vocabulary_,
               " tokens");
    longest = std::max(longest, ids[i].size());
    shortest = std::min(shortest, ids[i].size());
  }
  HG_CHECK(longest == shortest || !mask_.empty(), "generate: texts of the encoder have ",
           uint64_t{shortest}, " to ", uint64_t{longest},
           " ids; different lengths need the input attention_mask");
  const Sizes shape = {static_cast<int64_t>(ids.size()), static_cast<int64_t>(longest)};
  HG_TRY_ASSIGN(given_, TensorData::allocate(i64, shape));
  HG_TRY_ASSIGN(shown_, TensorData::allocate(i64, shape));
  for (size_t row = 0; row < ids.size(); ++row) {
    std::copy(ids[row].begin(), ids[row].end(), given_.tensor.as<int64_t>() + row * longest);
    std::fill_n(shown_.tensor.as<int64_t>() + row * longest, ids[row].size(), int64_t{1});
  }
  return {};
}

Status EncoderSession::run(Session& decode, std::stop_token stop) {
  const int64_t rows = given_.tensor.shape[0];
  const bool is_one = source_type_.shape[0] == Dim(1);  // an encoder of one row at a time
  for (int64_t first = 0; !has_run_ && first < rows; first += is_one ? 1 : rows) {
    const auto part = [&](const Tensor& all) { return is_one ? row_of(all, first) : all; };
    HG_TRY(session_.set_input(source_, part(given_.tensor)));
    if (!mask_.empty()) HG_TRY(session_.set_input(mask_, part(shown_.tensor)));
    HG_TRY(session_.run(stop));
    HG_TRY(keep_outputs(first));
  }
  if (!has_run_) session_.release_memory();
  has_run_ = true;
  for (size_t i = 0; i < crosses_.size(); ++i)
    HG_TRY(decode.set_input(crosses_[i], rows_[i].tensor));
  return gives_mask_ ? decode.set_input(kMask, shown_rows_.tensor) : Status();
}

// Keeps the outputs of the rows from `first` on.
Status EncoderSession::keep_outputs(int64_t first) {
  const int64_t all = given_.tensor.shape[0] * copies_;
  if (first == 0) rows_.clear();
  for (size_t i = 0; i < crosses_.size(); ++i) {
    HG_TRY_ASSIGN(const Tensor made, session_.output(crosses_[i]));
    if (first == 0) {
      Sizes shape = made.shape;
      shape[0] = all;
      HG_TRY_ASSIGN(rows_.emplace_back(), TensorData::allocate(made.dtype, shape));
    }
    repeat(made, copies_, first, rows_[i].tensor);
  }
  if (!gives_mask_ || first > 0) return {};
  HG_TRY_ASSIGN(shown_rows_, TensorData::allocate(i64, {all, shown_.tensor.shape[1]}));
  repeat(shown_.tensor, copies_, 0, shown_rows_.tensor);
  return {};
}

}  // namespace hg
