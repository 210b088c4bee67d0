// SPDX-License-Identifier: Apache-2.0
#include "converter/load/onnx/pairs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "lib/graph/element.h"

namespace hg::convert::onnx {
namespace {

class Joiner {
 public:
  explicit Joiner(ScriptProgram& program) : program_(program) {
    count_uses(program.body);
    run(program.body);
    if (none_ < 0) return;
    ScriptNode node;
    node.kind = "prim::Constant";
    node.outputs = {none_};
    node.output_types = {"Tensor"};
    program.body.nodes.insert(program.body.nodes.begin(), std::move(node));
  }

 private:
  void run(ScriptBlock& block) {
    producers_.clear();
    for (size_t i = 0; i < block.nodes.size(); ++i) {
      for (const ScriptId id : block.nodes[i].outputs) producers_[id] = i;
      if (block.nodes[i].kind == "prim::Constant")
        constants_[block.nodes[i].outputs[0]] = block.nodes[i].constant;
    }
    block_ = &block;
    for (ScriptNode& node : block.nodes) join(node);
    // In reverse order, so that the producers of a removed node's inputs may become unused.
    for (size_t i = block.nodes.size(); i-- > 0;)
      if (is_unused(block.nodes[i])) {
        forget(block.nodes[i]);
        block.nodes[i].kind.clear();
      }
    std::erase_if(block.nodes, [](const ScriptNode& node) { return node.kind.empty(); });
    for (size_t i = 0; i < block.nodes.size(); ++i)
      for (ScriptBlock& inner : block.nodes[i].blocks) run(inner);
  }

  // The quantization of DequantizeLinear or QuantizeLinear.
  struct Levels {
    ScriptId value = 0, scale = 0, zero = 0;
    DType dtype = u8;
    std::vector<double> scales;
    bool is_list = false;  // one scale per index of the axis
    int64_t axis = 1;
  };

  void count_uses(const ScriptBlock& block) {
    for (const ScriptNode& node : block.nodes) {
      for (const ScriptId id : node.inputs) ++uses_[id];
      for (const ScriptBlock& inner : node.blocks) count_uses(inner);
    }
    for (const ScriptId id : block.outputs) ++uses_[id];
  }
  void forget(const ScriptNode& node) {
    for (const ScriptId id : node.inputs) --uses_[id];
  }
  // Returns whether joining left the node without uses.
  bool is_unused(const ScriptNode& node) const {
    const bool pure =
        is_dequantize(node) || left_.contains(node.outputs.empty() ? -1 : node.outputs[0]);
    return pure && std::all_of(node.outputs.begin(), node.outputs.end(),
                               [&](ScriptId id) { return uses_.at(id) == 0; });
  }

  static bool is_dequantize(const ScriptNode& node) {
    return node.kind == "onnx::DequantizeLinear" || node.kind == "com.microsoft::DequantizeLinear";
  }
  const ScriptNode* producer(ScriptId id) const {
    const auto found = producers_.find(id);
    return found == producers_.end() ? nullptr : &block_->nodes[found->second];
  }
  const Tensor* tensor(ScriptId id) const {
    const auto found = constants_.find(id);
    if (found == constants_.end()) return nullptr;
    const auto* index = std::get_if<ScriptTensorIndex>(&found->second.value);
    return index == nullptr ? nullptr : &program_.tensors[index->index].data.tensor;
  }
  bool is_none(ScriptId id) const {
    const auto found = constants_.find(id);
    return found != constants_.end() && found->second.is_none();
  }
  static const Item* attribute(const ScriptNode& node, std::string_view name) {
    const auto* dict = std::get_if<std::shared_ptr<Dict>>(&node.constant.value);
    if (dict == nullptr) return nullptr;
    for (const auto& [key, value] : (*dict)->items)
      if (const auto* text = std::get_if<std::string>(&key.value); text && *text == name)
        return &value;
    return nullptr;
  }
  static int64_t integer(const ScriptNode& node, std::string_view name, int64_t fallback) {
    const Item* item = attribute(node, name);
    if (item == nullptr) return fallback;
    const auto* dim = std::get_if<Dim>(&item->value);
    return dim != nullptr && dim->is_constant() ? dim->constant() : INT64_MIN;
  }
  static double real(const ScriptNode& node, std::string_view name, double fallback) {
    const Item* item = attribute(node, name);
    if (item == nullptr) return fallback;
    const auto* number = std::get_if<double>(&item->value);
    return number != nullptr ? *number : NAN;
  }

  // Returns the quantization of either node, if it has 8 bits or is that of a bias, and if
  // constants define it.
  std::optional<Levels> levels_of(const ScriptNode& node, bool is_bias = false) const {
    if (node.inputs.size() < 2 || integer(node, "block_size", 0) != 0 ||
        attribute(node, "output_dtype") != nullptr)
      return {};
    Levels levels;
    levels.value = node.inputs[0];
    levels.scale = node.inputs[1];
    const Tensor* const scale = tensor(levels.scale);
    if (scale == nullptr || scale->dtype != f32 || scale->rank() > 1) return {};
    for (int64_t i = 0; i < scale->count(); ++i) levels.scales.push_back(element(*scale, i));
    levels.is_list = scale->count() != 1;
    levels.axis = integer(node, "axis", 1);
    const bool has_zero = node.inputs.size() > 2 && !is_none(node.inputs[2]);
    const Tensor* const zero = has_zero ? tensor(node.inputs[2]) : nullptr;
    const Tensor* const value = tensor(levels.value);
    if (has_zero && (zero == nullptr || zero->rank() > 1)) return {};
    if (zero == nullptr && value == nullptr) return {};
    levels.zero = has_zero ? node.inputs[2] : -1;
    levels.dtype = zero != nullptr ? zero->dtype : value->dtype;
    if (!is_bias)
      return levels.dtype == u8 || levels.dtype == i8 ? std::optional(levels) : std::nullopt;
    for (int64_t i = 0; zero != nullptr && i < zero->count(); ++i)
      if (element(*zero, i) != 0) return {};
    return levels.dtype == i32 ? std::optional(levels) : std::nullopt;
  }
  std::optional<Levels> dequantized(ScriptId id, bool is_bias = false) const {
    const ScriptNode* const node = producer(id);
    if (node == nullptr || !is_dequantize(*node)) return {};
    return levels_of(*node, is_bias);
  }

  // Returns whether the activation cannot change a quantized value, because its bounds are at or
  // beyond the lowest and highest level.
  bool changes_nothing(const ScriptNode& node, const Levels& y) const {
    const Tensor* const zero_point = tensor(y.zero);
    if (zero_point == nullptr || y.is_list) return false;
    const double zero = element(*zero_point, 0), lowest = y.dtype == i8 ? -128 : 0;
    const auto level = [&](double x) {
      return std::nearbyint(static_cast<float>(x) / static_cast<float>(y.scales[0])) + zero;
    };
    if (node.kind == "onnx::Relu") return zero <= lowest;
    if (node.kind != "onnx::Clip") return false;
    double low = real(node, "min", -INFINITY), high = real(node, "max", INFINITY);
    for (const size_t i : {size_t{1}, size_t{2}}) {
      if (node.inputs.size() <= i || is_none(node.inputs[i])) continue;
      const Tensor* const bound = tensor(node.inputs[i]);
      if (bound == nullptr || bound->dtype != f32 || bound->count() != 1) return false;
      (i == 1 ? low : high) = element(*bound, 0);
    }
    return low <= high && level(low) <= lowest && level(high) >= lowest + 255;
  }

  // Returns whether each scale of the bias is the product of the scales of x and w, within the
  // precision of f32.
  static bool is_product(const Levels& bias, const Levels& x, const Levels& w) {
    if (bias.is_list && bias.axis != 0 && bias.axis != -1 && bias.axis != 1) return false;
    const size_t count = std::max(bias.scales.size(), w.scales.size());
    for (size_t i = 0; i < count; ++i) {
      const double one = bias.scales[bias.is_list ? i : 0],
                   other = x.scales[0] * w.scales[w.is_list ? i : 0];
      if (!(std::abs(one - other) <= std::abs(other) * 0x1p-22)) return false;
    }
    return (!bias.is_list || !w.is_list || bias.scales.size() == w.scales.size());
  }

  // The inputs whose elements make up the result of an op that only moves elements; 0: other ops.
  // Such an op moves levels as it moves the numbers that they represent.
  static size_t moved_inputs(const ScriptNode& node) {
    static const std::set<std::string_view> kMoving = {
        "onnx::DepthToSpace", "onnx::Expand",  "onnx::Flatten", "onnx::Gather",
        "onnx::GatherND",     "onnx::MaxPool", "onnx::Reshape", "onnx::Slice",
        "onnx::SpaceToDepth", "onnx::Squeeze", "onnx::Tile",    "onnx::Transpose",
        "onnx::Unsqueeze"};
    if (node.outputs.size() != 1) return 0;
    return node.kind == "onnx::Concat" ? node.inputs.size() : kMoving.contains(node.kind) ? 1 : 0;
  }
  bool are_equal(const Levels& one, const Levels& other) const {
    const auto zero = [&](const Levels& levels) {
      const Tensor* const point = levels.zero < 0 ? nullptr : tensor(levels.zero);
      return point == nullptr ? 0 : element(*point, 0);
    };
    return !one.is_list && !other.is_list && one.dtype == other.dtype &&
           one.scales == other.scales && zero(one) == zero(other);
  }
  // Replaces QuantizeLinear by `op`, which moves dequantized numbers of the same levels. Moving the
  // levels gives the same bits: (level - zero) * scale / scale rounds to level - zero, unless a
  // product is denormal or infinite.
  void move(ScriptNode& node, const ScriptNode& op, const Levels& y,
            const std::vector<ScriptId>& between) {
    if (!(y.scales[0] > 0x1p-100 && y.scales[0] < 0x1p100)) return;
    ScriptNode made = op;
    for (size_t i = 0; i < moved_inputs(op); ++i) {
      const std::optional<Levels> x = dequantized(op.inputs[i]);
      if (!x || !are_equal(*x, y)) return;
      made.inputs[i] = x->value;
    }
    replace(node, std::move(made), between);
  }
  void replace(ScriptNode& node, ScriptNode made, const std::vector<ScriptId>& between) {
    made.outputs = node.outputs;
    made.output_types = node.output_types;
    forget(node);
    for (const ScriptId each : made.inputs) ++uses_[each];
    left_.insert(between.begin(), between.end());
    node = std::move(made);
  }

  // Replaces QuantizeLinear by the quantized op, if possible.
  void join(ScriptNode& node) {
    if (node.kind != "onnx::QuantizeLinear" && node.kind != "com.microsoft::QuantizeLinear") return;
    const std::optional<Levels> y = levels_of(node);
    if (!y || y->is_list || y->zero < 0) return;
    std::vector<ScriptId> between;
    const auto alone = [&](ScriptId id) { return uses_[id] == 1; };
    ScriptId id = node.inputs[0];
    const ScriptNode* op = producer(id);
    while (op != nullptr && alone(id) && changes_nothing(*op, *y)) {
      between.push_back(id);
      id = op->inputs[0];
      op = producer(id);
    }
    if (op == nullptr || !alone(id)) return;
    between.push_back(id);
    if (moved_inputs(*op) > 0) return move(node, *op, *y, between);
    const bool conv = op->kind == "onnx::Conv", gemm = op->kind == "onnx::Gemm";
    if (!conv && !gemm && op->kind != "onnx::MatMul") return;
    const std::optional<Levels> a = dequantized(op->inputs[0]), b = dequantized(op->inputs[1]);
    if (!a || !b || a->is_list) return;
    if (b->is_list) {
      const Tensor* const weight = tensor(b->value);
      if (weight == nullptr || (!conv && weight->rank() != 2)) return;
      const int64_t axis = b->axis < 0 ? b->axis + weight->rank() : b->axis;
      if (axis != (conv || (gemm && integer(*op, "transB", 0) == 1) ? 0 : 1)) return;
    }
    if (gemm && (real(*op, "alpha", 1) != 1 || real(*op, "beta", 1) != 1)) return;
    const bool has_bias = op->inputs.size() > 2 && !is_none(op->inputs[2]);
    std::optional<Levels> bias;
    if (has_bias) {
      bias = dequantized(op->inputs[2], true);
      if (!bias || !is_product(*bias, *a, *b)) return;
    }
    ScriptNode made;
    made.kind = conv ? "onnx::QLinearConv" : gemm ? "com.microsoft::QGemm" : "onnx::QLinearMatMul";
    made.inputs = {a->value, a->scale, a->zero, b->value, b->scale, b->zero};
    const std::vector<ScriptId> result = {y->scale, y->zero};
    if (gemm) made.inputs.push_back(has_bias ? bias->value : -1);
    made.inputs.insert(made.inputs.end(), result.begin(), result.end());
    if (conv && has_bias) made.inputs.push_back(bias->value);
    for (ScriptId& each : made.inputs)
      if (each < 0) each = none();
    made.constant = op->constant;
    made.origin = op->origin;
    replace(node, std::move(made), between);
  }

  // Returns the id of an argument that is not given.
  ScriptId none() {
    if (none_ < 0) none_ = program_.value_count++;
    return none_;
  }

  ScriptProgram& program_;
  ScriptBlock* block_ = nullptr;
  std::unordered_map<ScriptId, int64_t> uses_;
  std::unordered_map<ScriptId, size_t> producers_;  // in the block
  std::unordered_map<ScriptId, Item> constants_;
  std::set<ScriptId> left_;  // results between the op and QuantizeLinear
  ScriptId none_ = -1;
};

}  // namespace

void join_pairs(ScriptProgram& program) { Joiner joiner(program); }

}  // namespace hg::convert::onnx
