// SPDX-License-Identifier: Apache-2.0
#include "converter/load/exported/affine.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "converter/core/allocated.h"
#include "converter/load/known_values.h"
#include "converter/rows/rows.h"
#include "lib/quantize/rounding.h"

namespace hg::convert {
namespace {

constexpr const char* kDequantize = "torchao::dequantize_affine";

class Writer {
 public:
  explicit Writer(ScriptProgram& program) : program_(program), known_(program) {
    list_tensors(program.body);
    list_uses(program.body);
    write(program.body);
  }

 private:
  using Arguments = std::vector<std::pair<std::string, ScriptId>>;

  void list_tensors(const ScriptBlock& block) {
    for (const ScriptNode& node : block.nodes) {
      if (node.kind != "prim::GetAttr") continue;
      for (const auto& [name, item] : program_.root->attributes)
        if (const auto* index = std::get_if<ScriptTensorIndex>(&item.value);
            index != nullptr && name == node.attribute)
          tensors_[node.outputs[0]] = index->index;
    }
  }
  // Finds the tensors of the file that must stay as they are.
  void list_uses(const ScriptBlock& block) {
    for (const ScriptNode& node : block.nodes) {
      known_.learn(node);
      const auto input = argument_of(node, "input");
      for (const ScriptId id : node.inputs)
        if (node.kind != kDequantize || id != input || !has_four_bits(node)) note_other_use(id);
      for (const ScriptBlock& inner : node.blocks) list_uses(inner);
    }
    for (const ScriptId id : block.outputs) note_other_use(id);
  }
  void note_other_use(ScriptId id) {
    if (const auto found = tensors_.find(id); found != tensors_.end()) kept_.insert(found->second);
  }
  bool has_four_bits(const ScriptNode& node) const {
    const auto low = number(node, "quant_min"), high = number(node, "quant_max");
    return low && high && *low >= -8 && *high <= 7;
  }
  std::optional<double> number(const ScriptNode& node, std::string_view name) const {
    const auto id = argument_of(node, name);
    return id ? known_.number(*id) : std::nullopt;
  }

  void write(ScriptBlock& block) {
    std::vector<ScriptNode> nodes;
    std::swap(nodes, block.nodes);
    std::vector<ScriptNode>* const outer = std::exchange(nodes_, &block.nodes);
    for (ScriptNode& node : nodes) {
      for (ScriptBlock& inner : node.blocks) write(inner);
      if (node.kind != kDequantize || !dequantize(node)) nodes_->push_back(std::move(node));
    }
    nodes_ = outer;
  }

  ScriptId add(const std::string& kind, const std::string& overload, const Arguments& arguments,
               const std::string& type = "Tensor") {
    ScriptNode node;
    node.kind = kind;
    node.overload = overload;
    node.origin = origin_;
    for (const auto& [name, id] : arguments) {
      if (!name.empty()) node.argument_names.push_back(name);
      node.inputs.push_back(id);
    }
    node.outputs = {program_.value_count++};
    node.output_types = {type};
    nodes_->push_back(std::move(node));
    return nodes_->back().outputs[0];
  }
  ScriptId constant(Item item, const std::string& type) {
    const ScriptId id = add("prim::Constant", "", {}, type);
    nodes_->back().constant = std::move(item);
    return id;
  }
  ScriptId viewed(ScriptId id, const Sizes& shape) {
    auto sizes = std::make_shared<List>();
    for (const int64_t size : shape) sizes->items.emplace_back(size);
    return add("aten::reshape", "", {{"self", id}, {"shape", constant(sizes, "List[int]")}});
  }
  ScriptId cast(ScriptId id, ScriptId dtype) {
    return add("aten::to", "dtype",
               {{"self", id},
                {"dtype", dtype},
                {"non_blocking", constant(false, "bool")},
                {"copy", constant(false, "bool")},
                {"memory_format", constant(Item(), "NoneType")}});
  }

  // Packs the levels, once. Returns whether a byte now holds two.
  bool pack(int32_t index, const Sizes& shape) {
    if (packed_.contains(index)) return true;
    Tensor& levels = program_.tensors[static_cast<size_t>(index)].data.tensor;
    if (kept_.contains(index) || shape.rank() != 2 || shape.count() == 0 || levels.dtype != i8)
      return false;
    const auto* from = levels.as<const int8_t>();
    const Blocks blocks{shape, shape};
    for (int64_t i = 0; i < shape.count(); ++i)
      if (from[i] < -8 || from[i] > 7) return false;
    TensorData halves = allocated(i8, blocks.levels(4));
    const LevelWriter writer(blocks, 4, halves.tensor);
    for (int64_t i = 0; i < shape.count(); ++i) writer.put(i, from[i]);
    program_.tensors[static_cast<size_t>(index)].data = std::move(halves);
    packed_.insert(index);
    return true;
  }
  // The levels of bytes that hold two: see Blocks::packed().
  ScriptId unpacked(ScriptId bytes, const Sizes& shape) {
    const int along = Blocks{shape, shape}.packed();
    const ScriptId four = constant(4, "int"), dim = constant(along, "int");
    const auto shifted = [&](const char* kind, ScriptId id) {
      return add(kind, "Scalar", {{"self", id}, {"other", four}});
    };
    const ScriptId low = shifted("aten::__rshift__", shifted("aten::__lshift__", bytes)),
                   high = shifted("aten::__rshift__", bytes);
    const ScriptId parts = add("prim::ListConstruct", "", {{"", low}, {"", high}}, "List[Tensor]");
    const ScriptId all = add("aten::cat", "", {{"tensors", parts}, {"dim", dim}});
    if (shape[along] % 2 == 0) return all;
    return add("aten::narrow", "",
               {{"self", all},
                {"dim", dim},
                {"start", constant(0, "int")},
                {"length", constant(shape[along], "int")}});
  }

  // (input - zero_point) * scale, computed in blocks. Returns whether the node was replaced.
  bool dequantize(const ScriptNode& node) {
    const auto input = argument_of(node, "input"), scale = argument_of(node, "scale"),
               zero = argument_of(node, "zero_point"), blocks = argument_of(node, "block_size");
    const auto tensor = input ? tensors_.find(*input) : tensors_.end();
    if (tensor == tensors_.end() || !scale || !blocks) return false;
    if (!shapes_.contains(tensor->second))
      shapes_[tensor->second] =
          program_.tensors[static_cast<size_t>(tensor->second)].data.tensor.shape;
    const Sizes shape = shapes_[tensor->second];
    const Item* sizes = known_.find(*blocks);
    if (sizes == nullptr || !sizes->is_list()) return false;
    const std::vector<Item>& block = std::get<std::shared_ptr<List>>(sizes->value)->items;
    if (std::ssize(block) != shape.rank()) return false;
    Sizes apart, of_blocks;
    for (int d = 0; d < shape.rank(); ++d) {
      const auto* dim = std::get_if<Dim>(&block[static_cast<size_t>(d)].value);
      if (dim == nullptr || !dim->is_constant()) return false;
      const int64_t size = dim->constant();
      if (size < 1 || (shape[d] % size != 0 && size != shape[d])) return false;
      if (size != shape[d] && size > 1) {
        apart.push_back(shape[d] / size);
        of_blocks.push_back(shape[d] / size);
      }
      apart.push_back(size == 1 ? shape[d] : size);
      of_blocks.push_back(size == 1 ? shape[d] : 1);
    }
    if (apart.overflowed()) return false;
    origin_ = node.origin;
    const auto given = argument_of(node, "output_dtype");
    const ScriptId dtype =
        given && !known_.is_none(*given) ? *given : constant(torch_of_dtype(f32), "int");
    ScriptId levels = *input;
    if (has_four_bits(node) && pack(tensor->second, shape)) levels = unpacked(levels, shape);
    if (!(apart == shape)) levels = viewed(levels, apart);
    levels = cast(levels, dtype);
    if (zero && !known_.is_none(*zero))
      levels = add("aten::sub", "Tensor",
                   {{"self", levels},
                    {"other", cast(viewed(*zero, of_blocks), dtype)},
                    {"alpha", constant(1, "int")}});
    ScriptId wide =
        add("aten::mul", "Tensor", {{"self", levels}, {"other", viewed(*scale, of_blocks)}});
    if (!(apart == shape)) wide = viewed(wide, shape);
    cast(wide, dtype);
    nodes_->back().outputs = node.outputs;
    return true;
  }

  ScriptProgram& program_;
  KnownValues known_;
  std::vector<ScriptNode>* nodes_ = nullptr;  // of the block in work
  Origin origin_;
  std::map<ScriptId, int32_t> tensors_;  // values that are tensors of the file
  std::map<int32_t, Sizes> shapes_;      // of levels before they were packed
  std::set<int32_t> kept_, packed_;
};

}  // namespace

void write_out_affine(ScriptProgram& program) { Writer writer(program); }

}  // namespace hg::convert
