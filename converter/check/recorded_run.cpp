// SPDX-License-Identifier: Apache-2.0
#include "converter/check/recorded_run.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <set>

#include "converter/load/torchscript/torch_module.h"

namespace hg::convert {
namespace {

using c10::IValue;

NodeRun::Argument argument_of(const at::Tensor& tensor) {
  return {tensor.unsafeGetTensorImpl(), to_parts(tensor)};
}

void add_elements(const IValue& value, std::vector<NodeRun::Argument>& result) {
  if (!value.isTensorList()) return;
  for (const at::Tensor& element : value.toTensorVector()) result.push_back(argument_of(element));
}

// Returns the position of each element in the storage.
at::Tensor places_of(const at::Tensor& tensor) {
  const auto count = static_cast<int64_t>(tensor.storage().nbytes() / tensor.itemsize());
  return at::arange(count).as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

// Whether computing one element overwrites an element of `read` that a different element needs.
bool lies_across(const at::Tensor& written, const at::Tensor& read) {
  if (!written.has_storage() || !read.has_storage() || !written.is_alias_of(read)) return false;
  if (written.numel() == 0 || read.numel() == 0 || written.itemsize() != read.itemsize() ||
      !at::is_expandable_to(read.sizes(), written.sizes()))
    return false;
  const at::Tensor mine = places_of(written), theirs = places_of(read).expand(written.sizes());
  return !mine.equal(theirs) && at::isin(theirs, mine).any().item<bool>();
}

void collect_read(const ScriptNode& of, std::set<ScriptId>& inside, std::vector<ScriptId>& read) {
  const auto note = [&](const std::vector<ScriptId>& ids) {
    for (const ScriptId id : ids)
      if (!inside.contains(id) && std::find(read.begin(), read.end(), id) == read.end())
        read.push_back(id);
  };
  note(of.inputs);
  for (const ScriptBlock& block : of.blocks) {
    inside.insert(block.inputs.begin(), block.inputs.end());
    for (const ScriptNode& inner : block.nodes) {
      collect_read(inner, inside, read);
      inside.insert(inner.outputs.begin(), inner.outputs.end());
    }
    note(block.outputs);
  }
}

}  // namespace

TensorData to_parts(const at::Tensor& tensor) {
  TensorData data = to_ours(tensor);
  if (data.empty()) return data;
  if (is_complex(data.tensor.dtype) && data.tensor.rank() == kMaxRank) return {};
  data.tensor = view_as_real(data.tensor);
  return data;
}

void begin_libtorch_run(uint64_t seed) {
  at::set_num_threads(1);
  at::manual_seed(seed);
}

at::Tensor in_place_of(const at::Tensor& theirs, const Tensor& ours) {
  const at::Tensor tensor = to_torch(ours);
  if (theirs.is_quantized())
    return at::quantize_per_tensor(tensor, theirs.q_scale(), theirs.q_zero_point(),
                                   theirs.scalar_type());
  return theirs.is_complex() ? at::view_as_complex(tensor) : tensor;
}

RecordedRun::RecordedRun(std::vector<IValue>& values, bool& replays, const ScriptNode& of,
                         int64_t which)
    : values_(values), replays_(replays) {
  node = &of;
  occurrence = which;
  for (const ScriptId id : of.outputs)
    outputs.push_back(value(id).isTensor() ? to_parts(value(id).toTensor()) : TensorData());
}

std::vector<NodeRun::Argument> RecordedRun::arguments() const {
  std::vector<Argument> result;
  for (const ScriptId id : values_read()) {
    if (value(id).isTensor()) result.push_back(argument_of(value(id).toTensor()));
    add_elements(value(id), result);
  }
  return result;
}

NodeRun::Identity RecordedRun::identity(size_t output) const {
  const IValue& given = value(node->outputs[output]);
  return given.isTensor() ? given.toTensor().unsafeGetTensorImpl() : nullptr;
}

double RecordedRun::level(size_t output) const {
  const IValue& given = value(node->outputs[output]);
  if (node->kind.starts_with("quantized_decomposed::quantize_")) return 1;
  return given.isTensor() && given.toTensor().is_quantized() &&
                 given.toTensor().qscheme() == at::kPerTensorAffine
             ? given.toTensor().q_scale()
             : 0;
}

std::vector<NodeRun::Argument> RecordedRun::elements() const {
  std::vector<Argument> result;
  for (const ScriptId id : node->outputs) add_elements(value(id), result);
  return result;
}

bool RecordedRun::reads_what_it_writes() const {
  if (!node->kind.ends_with('_') || node->inputs.empty() || !value(node->inputs[0]).isTensor())
    return false;
  const at::Tensor written = value(node->inputs[0]).toTensor();
  return std::any_of(node->inputs.begin() + 1, node->inputs.end(), [&](ScriptId id) {
    return value(id).isTensor() && lies_across(written, value(id).toTensor());
  });
}

std::optional<bool> RecordedRun::boolean(std::string_view argument) const {
  for (size_t i = 0; i < node->argument_names.size() && i < node->inputs.size(); ++i)
    if (const IValue& input = value(node->inputs[i]);
        node->argument_names[i] == argument && input.isBool())
      return input.toBool();
  return std::nullopt;
}

std::optional<std::vector<TensorData>> RecordedRun::outputs_of(
    std::span<const Tensor> given) const {
  if (!is_repeatable()) return std::nullopt;
  const std::vector<IValue> before = values_;
  std::optional<std::vector<TensorData>> result;
  replays_ = true;
  try {
    set_given(given);
    run_again();
    result = listed_outputs();
  } catch (const std::exception&) {
  } catch (const ReferenceFailure&) {
  }
  replays_ = false;
  values_ = before;
  return result;
}

void RecordedRun::replace(size_t output, const Tensor& tensor) {
  IValue& given = value(node->outputs[output]);
  const at::Tensor theirs = given.toTensor();
  const at::Tensor ours = in_place_of(theirs, tensor);
  // Writes in place, so that tensors that share the memory see the value.
  if (theirs.sizes() == ours.sizes() && theirs.is_non_overlapping_and_dense())
    theirs.copy_(ours);
  else
    given = ours;
}

std::vector<ScriptId> RecordedRun::values_read() const {
  std::set<ScriptId> inside;
  std::vector<ScriptId> read;
  collect_read(*node, inside, read);
  return read;
}

// `given` is in the order of arguments().
void RecordedRun::set_given(std::span<const Tensor> given) const {
  size_t next = 0;
  const auto replaced = [&](const at::Tensor& theirs) {
    const Tensor& ours = given[next++];
    return ours.data == nullptr ? theirs : in_place_of(theirs, ours);
  };
  for (const ScriptId id : values_read()) {
    const IValue theirs = value(id);
    if (theirs.isTensor()) value(id) = replaced(theirs.toTensor());
    if (!theirs.isTensorList()) continue;
    c10::List<at::Tensor> list;
    for (const at::Tensor& element : theirs.toTensorVector()) list.push_back(replaced(element));
    value(id) = std::move(list);
  }
}

std::vector<TensorData> RecordedRun::listed_outputs() const {
  std::vector<TensorData> result;
  for (const ScriptId id : node->outputs) {
    const IValue& output = value(id);
    if (output.isTensorList())
      for (const at::Tensor& element : output.toTensorVector()) result.push_back(to_parts(element));
    else
      result.push_back(output.isTensor() ? to_parts(output.toTensor()) : TensorData());
  }
  return result;
}

}  // namespace hg::convert
