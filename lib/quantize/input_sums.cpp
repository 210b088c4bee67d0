// SPDX-License-Identifier: Apache-2.0
#include "lib/quantize/input_sums.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "hg/op.h"
#include "hg/ops.h"
#include "lib/graph/element.h"

namespace hg {
namespace {

bool reads_as_weight(const Node& node, size_t input) {
  const std::string_view op = node.op->name();
  return input == 1 && (op == "linear" || op == "matmul" || op == "conv");
}

std::optional<WeightMatrix> matrix_for(const Node& node, const Sizes& shape) {
  const std::string_view op = node.op->name();
  if (op == "conv") {
    const AttrReader attrs(node.op, node.attrs);
    const Dim groups = attrs.integer("groups");
    const auto is_fixed = [&](std::string_view name) {
      const std::span<const Dim> values = attrs.integers(name);
      return std::all_of(values.begin(), values.end(), [](Dim d) { return d.is_constant(); });
    };
    if (attrs.flag("transposed") || !groups.is_constant() || shape.rank() < 3 || shape[0] == 0 ||
        !is_fixed("stride") || !is_fixed("padding") || !is_fixed("dilation"))
      return {};
    const int64_t count = groups.constant();
    return WeightMatrix{count, shape[0] / count, shape.count() / shape[0], false};
  }
  if (shape.rank() != 2) return {};
  if (op == "linear") return WeightMatrix{1, shape[0], shape[1], false};
  return WeightMatrix{1, shape[1], shape[0], true};
}

// Adds rows to the second moments of one group.
class Moments {
 public:
  static Result<Moments> create(int64_t columns) {
    Moments made;
    made.columns_ = columns;
    HG_TRY_ASSIGN(made.rows_, TensorData::allocate(f32, {kRows, columns}));
    if (columns < kFewColumns) return made;
    Graph g;
    const Value x = g.input("x", f32, {kRows, columns});
    g.output("y", matmul(permute(x, {1, 0}), x));
    HG_TRY_ASSIGN(const Model model, Model::from_graph(std::move(g)));
    HG_TRY_ASSIGN(Session session, Session::create(model));
    made.session_.emplace(std::move(session));
    return made;
  }

  // The place of the next row, and the sums to which it belongs.
  Result<float*> next(std::vector<double>& sums) {
    if (filled_ == kRows || (filled_ > 0 && sums_ != &sums)) HG_TRY(flush());
    sums_ = &sums;
    return rows_.tensor.as<float>() + filled_++ * columns_;
  }

  Status flush() {
    if (filled_ == 0) return {};
    float* const rows = rows_.tensor.as<float>();
    double* const sums = sums_->data();
    if (!session_) {
      for (int64_t r = 0; r < filled_; ++r) {
        const float* const x = rows + r * columns_;
        for (int64_t i = 0; i < columns_; ++i)
          for (int64_t j = 0; j < columns_; ++j)
            sums[i * columns_ + j] += static_cast<double>(x[i]) * static_cast<double>(x[j]);
      }
    } else {
      std::fill(rows + filled_ * columns_, rows + kRows * columns_, 0.f);
      HG_TRY(session_->set_input(0, rows_.tensor));
      HG_TRY(session_->run());
      HG_TRY_ASSIGN(const Tensor y, session_->output(0));
      const float* const products = y.as<float>();
      for (int64_t i = 0; i < columns_ * columns_; ++i) sums[i] += static_cast<double>(products[i]);
    }
    filled_ = 0;
    return {};
  }

 private:
  static constexpr int64_t kRows = 512, kFewColumns = 48;
  int64_t columns_ = 0, filled_ = 0;
  TensorData rows_;
  std::vector<double>* sums_ = nullptr;
  std::optional<Session> session_;
};

// The windows of a convolution as rows [channels of a group, kernel...].
class Windows {
 public:
  Windows(const Node& node, const Sizes& weight, const Sizes& x) : weight_(weight), x_(x) {
    const AttrReader attrs(node.op, node.attrs);
    dims_ = x.rank() - 2;
    const auto at = [&](std::string_view name, int d) {
      const std::span<const Dim> values = attrs.integers(name);
      return values[values.size() == 1 ? 0 : static_cast<size_t>(d)].constant();
    };
    for (int d = 0; d < dims_; ++d) {
      stride_.push_back(at("stride", d));
      padding_.push_back(at("padding", d));
      dilation_.push_back(at("dilation", d));
      const int64_t reach = dilation_[d] * (weight[d + 2] - 1) + 1;
      out_.push_back(std::max<int64_t>((x[d + 2] + 2 * padding_[d] - reach) / stride_[d] + 1, 0));
      kernel_.push_back(weight[d + 2]);
    }
  }

  int64_t count() const { return out_.count(); }

  // Writes the window at `place` of x[image, first channel...].
  void read(const float* x, int64_t image, int64_t first, int64_t place, float* row) const {
    Sizes start = out_;
    for (int d = dims_; d-- > 0; place /= out_[d])
      start[d] = place % out_[d] * stride_[d] - padding_[d];
    const int64_t area = kernel_.count();
    int64_t plane = 1;
    for (int d = 0; d < dims_; ++d) plane *= x_[d + 2];
    const float* const image_x = x + (image * x_[1] + first) * plane;
    for (int64_t k = 0; k < area; ++k) {
      int64_t rest = k, offset = 0, step = 1;
      bool is_inside = true;
      for (int d = dims_; d-- > 0; rest /= kernel_[d]) {
        const int64_t i = start[d] + rest % kernel_[d] * dilation_[d];
        is_inside = is_inside && i >= 0 && i < x_[d + 2];
        offset += i * step;
        step *= x_[d + 2];
      }
      for (int64_t c = 0; c < weight_[1]; ++c)
        row[c * area + k] = is_inside ? image_x[c * plane + offset] : 0.f;
    }
  }

 private:
  Sizes weight_, x_, stride_, padding_, dilation_, out_, kernel_;
  int dims_ = 0;
};

class InputObserver {
 public:
  InputObserver(const Graph& graph, std::span<const Weight* const> weights) {
    for (const Weight* weight : weights) {
      Entry entry{weight, *matrix_of(graph, *weight), {}, {}};
      for (int64_t g = 0; g < entry.matrix.groups; ++g)
        entry.sums.moments.emplace_back(
            static_cast<size_t>(entry.matrix.columns * entry.matrix.columns), 0.0);
      entries_.push_back(std::move(entry));
    }
    for (size_t e = 0; e < entries_.size(); ++e)
      for (const auto& [owner, index] : entries_[e].weight->states) {
        const ValueId state = owner->states()[static_cast<size_t>(index)].value;
        for (const Node& node : owner->nodes())
          if (node.inputs.size() > 1 && node.inputs[1] == state)
            readers_[owner->value_info(node.inputs[0]).name].emplace_back(e, &node);
      }
  }

  Status see(std::string_view name, const ConstTensor& value) {
    const auto found = readers_.find(name);
    if (found == readers_.end()) return {};
    HG_TRY_ASSIGN(const TensorData x, floats(value));
    const float* const numbers = x.tensor.as<float>();
    const bool is_finite =
        std::all_of(numbers, numbers + x.tensor.count(), [](float v) { return std::isfinite(v); });
    for (const auto& [e, node] : found->second) {
      Entry& entry = entries_[e];
      entry.sums.is_finite = entry.sums.is_finite && is_finite;
      if (entry.sums.is_finite && entry.matrix.columns > 0) HG_TRY(add(entry, *node, x.tensor));
    }
    return {};
  }

  Result<std::vector<InputSums>> take() {
    std::vector<InputSums> out;
    for (Entry& entry : entries_) {
      if (entry.adder) HG_TRY(entry.adder->flush());
      out.push_back(std::move(entry.sums));
    }
    return out;
  }

 private:
  struct Entry {
    const Weight* weight;
    WeightMatrix matrix;
    InputSums sums;
    std::optional<Moments> adder;
  };

  static Result<TensorData> floats(const ConstTensor& value) {
    HG_TRY_ASSIGN(TensorData copy, TensorData::copy_of(value));
    if (copy.tensor.dtype == f32) return copy;
    HG_TRY_ASSIGN(TensorData out, TensorData::allocate(f32, copy.tensor.shape));
    for (int64_t i = 0; i < copy.tensor.count(); ++i)
      out.tensor.as<float>()[i] = static_cast<float>(element(copy.tensor, i));
    return out;
  }

  static Status add(Entry& entry, const Node& node, const Tensor& x) {
    const int64_t columns = entry.matrix.columns;
    if (!entry.adder) {
      HG_TRY_ASSIGN(Moments made, Moments::create(columns));
      entry.adder.emplace(std::move(made));
    }
    const float* const numbers = x.as<float>();
    if (node.op->name() != "conv") {
      for (int64_t r = 0; r < x.count() / columns; ++r) {
        HG_TRY_ASSIGN(float* const row, entry.adder->next(entry.sums.moments[0]));
        std::copy_n(numbers + r * columns, columns, row);
      }
      return {};
    }
    const Sizes& weight = entry.weight->data.tensor.shape;
    const Windows windows(node, weight, x.shape);
    for (int64_t g = 0; g < entry.matrix.groups; ++g)
      for (int64_t n = 0; n < x.shape[0]; ++n)
        for (int64_t place = 0; place < windows.count(); ++place) {
          HG_TRY_ASSIGN(float* const row,
                        entry.adder->next(entry.sums.moments[static_cast<size_t>(g)]));
          windows.read(numbers, n, g * weight[1], place, row);
        }
    return {};
  }

  std::vector<Entry> entries_;
  std::map<std::string, std::vector<std::pair<size_t, const Node*>>, std::less<>> readers_;
};

}  // namespace

std::optional<WeightMatrix> matrix_of(const Graph& graph, const Weight& weight) {
  std::optional<WeightMatrix> matrix;
  for (const auto& [owner, index] : weight.states) {
    if (owner != &graph) return {};
    const ValueId state = graph.states()[static_cast<size_t>(index)].value;
    const auto is_state = [&](const auto& named) { return named.second == state; };
    if (std::any_of(graph.outputs().begin(), graph.outputs().end(), is_state) ||
        std::any_of(graph.assignments().begin(), graph.assignments().end(), is_state))
      return {};
    for (const Node& node : graph.nodes())
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != state) continue;
        if (!reads_as_weight(node, i)) return {};
        const std::optional<WeightMatrix> made = matrix_for(node, weight.data.tensor.shape);
        if (!made || (matrix && !(*matrix == *made))) return {};
        matrix = made;
      }
  }
  return matrix;
}

Result<std::vector<InputSums>> observe_inputs(const Model& model, const Graph& graph,
                                              std::span<const Weight* const> weights,
                                              Samples samples, const SessionOptions& session) {
  InputObserver observer(graph, weights);
  HG_TRY_ASSIGN(Session made, create_observed(model, session));
  HG_TRY(observe_runs(
      made, samples,
      [&](std::string_view name, const ConstTensor& value) { return observer.see(name, value); },
      [] {}));
  return observer.take();
}

}  // namespace hg
