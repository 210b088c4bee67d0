// SPDX-License-Identifier: Apache-2.0
// Quantized tensors of the file, and the embeddings that look up rows of them.
#include <cstring>
#include <utility>

#include "converter/load/torchscript/quantized.h"
#include "converter/load/torchscript/quantized_lowering.h"

namespace hg::convert::quantized {
namespace {

// torch's numbers for dtypes.
constexpr int64_t kFloat = 6, kDouble = 7;

}  // namespace

void Lowering::lower_tensor(const ScriptNode& at, const Object& tensor) {
  const Levels levels{std::get<double>(attribute(tensor, "scale").value),
                      std::get<Dim>(attribute(tensor, "zero_point").value).constant(),
                      std::get<Dim>(attribute(tensor, "dtype").value).constant()};
  real_of(at, constant(at, attribute(tensor, "weight")), levels, at.outputs[0]);
  levels_[at.outputs[0]] = levels;
}

// FBGEMM rounds levels * scale + offset once: f64 holds the product exactly. Sums of bags are f32.
void Lowering::lower_embedding(ScriptNode&& node) {
  const Object* packed = object_of(argument_of(node, "weight").value_or(-1), kPackedEmbedding);
  const std::string op = node.kind.substr(std::strlen("quantized::"));
  const bool bag = op.starts_with("embedding_bag_");
  if (packed == nullptr)
    return refuse(std::move(node), "the packed weights are not an attribute of the model");
  const Item bits = attribute(*packed, "bits");
  if (!bits.is_int() || !op.ends_with(std::get<Dim>(bits.value) == Dim(4) ? "_4bit" : "_byte"))
    return refuse(std::move(node), "only its own weights of 8 or 4 bits are supported");
  const auto is_off = [&](const char* name) {
    const auto id = argument_of(node, name);
    return !id || known_.is_none(*id) || known_.number(*id) == 0.0;
  };
  if (!is_off("pruned_weights") || !is_off("compressed_indices_mapping"))
    return refuse(std::move(node), "pruned weights are not supported");
  ScriptId indices = *argument_of(node, "indices");
  const auto int_at = [&](int64_t i) { return constant(node, i); };
  ScriptId offsets = -1, count = -1;
  if (bag) {
    const auto given = argument_of(node, "offsets");
    if (!is_off("mode") || !is_off("scale_grad_by_freq"))
      return refuse(std::move(node), "only sums of bags are supported");
    const ScriptId all = indices;
    indices =
        value(node, "aten::flatten",
              {{"self", all}, {"start_dim", int_at(0)}, {"end_dim", int_at(-1)}}, "using_ints");
    count = value(node, "aten::numel", {{"self", all}});
    nodes_->back().output_types = {"int"};
    if (given && !known_.is_none(*given)) {
      offsets = *given;
    } else {  // rows of [bags, indices]
      if (!is_off("include_last_offset"))
        return refuse(std::move(node), "include_last_offset needs offsets");
      const ScriptId width = value(node, "aten::size", {{"self", all}, {"dim", int_at(1)}}, "int");
      nodes_->back().output_types = {"int"};
      offsets = value(node, "aten::arange", {{"start", int_at(0)}, {"end", count}, {"step", width}},
                      "start_step");
    }
  }
  const auto rows = [&](const char* name) {
    return value(node, "aten::embedding",
                 {{"weight", constant(node, attribute(*packed, name))}, {"indices", indices}});
  };
  const auto as = [&](ScriptId x, int64_t dtype, ScriptId result) {
    return emit(node, "aten::to",
                {{"self", x},
                 {"dtype", int_at(dtype)},
                 {"non_blocking", constant(node, false)},
                 {"copy", constant(node, false)}},
                result, "dtype")
        .outputs[0];
  };
  const ScriptId product =
      value(node, "aten::mul",
            {{"self", as(rows("weight"), kDouble, -1)}, {"other", as(rows("scale"), kDouble, -1)}},
            "Tensor");
  const ScriptId real =
      value(node, "aten::add",
            {{"self", product}, {"other", as(rows("offset"), kDouble, -1)}, {"alpha", int_at(1)}},
            "Tensor");
  if (!bag) {
    as(real, kFloat, node.outputs.at(0));
    return;
  }
  Arguments arguments = {{"weight", as(real, kFloat, -1)},
                         {"indices", value(node, "aten::arange", {{"end", count}})},
                         {"offsets", offsets},
                         {"scale_grad_by_freq", constant(node, false)},
                         {"mode", int_at(0)},
                         {"sparse", constant(node, false)}};
  for (const char* name : {"per_sample_weights", "include_last_offset"})
    if (const auto id = argument_of(node, name)) arguments.emplace_back(name, *id);
  ScriptNode& sums = emit(node, "aten::embedding_bag", arguments, node.outputs.at(0));
  for (int i = 0; i < 3; ++i) {
    sums.outputs.push_back(program_.value_count++);
    sums.output_types.emplace_back("Tensor");
  }
}

}  // namespace hg::convert::quantized
