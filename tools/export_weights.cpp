// SPDX-License-Identifier: Apache-2.0
// The safetensors format: https://github.com/huggingface/safetensors#format.
#include "tools/export_weights.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "hg/named_arrays.h"
#include "lib/graph/training_state.h"
#include "lib/model/destination.h"
#ifdef HG_HAS_IO
#include "hg/npz.h"
#include "lib/graph/access.h"
#include "lib/graph/same_bits.h"
#include "lib/graph/state_names.h"
#endif

namespace hg::tools {
namespace {

using States = std::map<std::string_view, const State*>;

States named_states(const Graph& graph) {
  States states;
  for (const State& state : graph.states())
    if (state.kind != State::Kind::constant)
      for (const std::string_view name : names_of(state)) states.emplace(name, &state);
  return states;
}

constexpr bool kHasNpz =
#ifdef HG_HAS_IO
    true;
#else
    false;
#endif

bool is_npz(const std::string& path) { return path.ends_with(".npz"); }

NamedArrays weights_of(const Model& model) {
  NamedArrays weights;
  for (const State& state : model.graph().states()) {
    if (state.kind == State::Kind::constant || is_training_state(state)) continue;
    weights.emplace_back(state.name, Array(state.data));
    for (const std::string& alias : state.aliases) weights.emplace_back(alias, Array(state.data));
  }
  return weights;
}

// Null if the format does not have this dtype.
const char* safetensors_name(DType dtype) {
  constexpr std::pair<DType, const char*> kNames[] = {
      {f32, "F32"}, {f64, "F64"}, {f16, "F16"}, {bf16, "BF16"}, {i64, "I64"},     {i32, "I32"},
      {i16, "I16"}, {i8, "I8"},   {u8, "U8"},   {c64, "C64"},   {boolean, "BOOL"}};
  for (const auto& [known, name] : kNames)
    if (known == dtype) return name;
  return nullptr;
}

Status write_file(const std::string& path, const std::string& header, const NamedArrays& weights) {
  HG_TRY_ASSIGN(Destination file, Destination::open(path));
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(uint64_t{header.size()} >> (8 * i));
  HG_TRY(file.write(length, sizeof length));
  HG_TRY(file.write(header.data(), header.size()));
  for (const auto& [name, array] : weights)
    if (array.bytes() > 0)
      HG_TRY(file.write(array.tensor().data, static_cast<uint64_t>(array.bytes())));
  return file.finish({});
}

Outcome write_safetensors(const std::string& path, const NamedArrays& weights) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t at = 0;
  for (const auto& [name, array] : weights) {
    const char* const dtype = safetensors_name(array.dtype());
    if (dtype == nullptr)
      return {Exit::unsupported,
              str_cat(path, ": '", name, "' is ", array.dtype(),
                      ", which safetensors does not have; give a name that ", "ends in .npz")};
    nlohmann::ordered_json shape = nlohmann::ordered_json::array();
    for (const int64_t size : array.shape()) shape.push_back(size);
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {at, at + array.bytes()}}};
    at += array.bytes();
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const Status written = write_file(path, text, weights);
  if (!written.ok()) return {Exit::unreadable, std::string(written.message())};
  return {};
}

}  // namespace

Outcome check_weights_path(const std::string& path) {
  if (is_npz(path) && !kHasNpz)
    return usage(path, ": this build has no .npz; give a name that ends in .safetensors");
  if (is_npz(path) || path.ends_with(".safetensors")) return {};
  return usage(path, ": the name must end in .npz or .safetensors");
}

Outcome write_weights(const Model& model, const std::string& path) {
  const NamedArrays weights = weights_of(model);
#ifdef HG_HAS_IO
  if (is_npz(path)) return outcome(write_npz(path, weights));
#endif
  return write_safetensors(path, weights);
}

Result<Model> with_trained_entry(const Model& file, const std::string& name, const Model& trained) {
  HG_TRY_ASSIGN(const Model before, file.entry(name));
  const States old_states = named_states(before.graph()),
               new_states = named_states(trained.graph());
  Model result;
  for (const std::string& entry : file.entries()) {
    if (entry == name) {
      HG_TRY(result.add_entry(entry, trained.graph()));
      continue;
    }
    HG_TRY_ASSIGN(Model other, file.entry(entry));
    for (State& state : GraphAccess::body(other.graph()).states) {
      if (state.kind == State::Kind::constant || is_training_state(state)) continue;
      for (const std::string_view own : names_of(state)) {
        const auto was = old_states.find(own), is = new_states.find(own);
        if (was == old_states.end() || is == new_states.end() ||
            !have_same_bits(was->second->data.tensor, state.data.tensor))
          continue;
        state.data = is->second->data;
        break;
      }
    }
    HG_TRY(result.add_entry(entry, std::move(other.graph())));
  }
  result.set_info(trained.info());
  return result;
}

}  // namespace hg::tools
