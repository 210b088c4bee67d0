// SPDX-License-Identifier: Apache-2.0
#include "converter/check/loops.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>

#include "converter/check/check_inputs.h"
#include "converter/check/compare.h"
#include "converter/check/conditioning.h"
#include "converter/check/fitting_sizes.h"
#include "hg/kernel.h"
#include "hg/op.h"
#include "hg/session.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/rounded.h"

namespace hg::convert {
namespace {

// Limits the work of all nodes that run through the loops, over all sizes of the check.
class Budget {
 public:
  // Returns whether the work on so many operations and elements is affordable, and spends it.
  bool take(double flops, double elements) {
    const double work = flops + kElement * elements;
    if (work > work_ || std::chrono::steady_clock::now() > end_) return false;
    work_ -= work;
    return true;
  }

 private:
  static constexpr double kElement = 16;  // operations to read, convert and compare an element
  double work_ = 2e9;
  // For slow or busy machines.
  std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(5);
};

std::vector<double> elements_of(const Tensor& tensor) {
  std::vector<double> values;
  TensorData owner;
  const Result<Tensor> dense = row_major(tensor, owner);
  if (!dense.ok()) return values;
  values.reserve(dense->count());
  for (int64_t i = 0; i < dense->count(); ++i) values.push_back(number_at(*dense, i));
  return values;
}

Result<TensorData> tensor_of(const std::vector<double>& values, DType dtype, const Sizes& shape) {
  HG_TRY_ASSIGN(TensorData data, TensorData::allocate(dtype, shape));
  const auto fill = [&]<class T>(T* to) {
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
        to[i] = T(static_cast<float>(values[i]));
      else
        to[i] = static_cast<T>(values[i]);
    }
  };
  switch (dtype) {
    case f32:
      fill(data.tensor.as<float>());
      break;
    case f64:
      fill(data.tensor.as<double>());
      break;
    case f16:
      fill(data.tensor.as<Half>());
      break;
    case bf16:
      fill(data.tensor.as<BFloat16>());
      break;
    case i64:
      fill(data.tensor.as<int64_t>());
      break;
    case i32:
      fill(data.tensor.as<int32_t>());
      break;
    case i16:
      fill(data.tensor.as<int16_t>());
      break;
    case i8:
      fill(data.tensor.as<int8_t>());
      break;
    case u8:
      fill(data.tensor.as<uint8_t>());
      break;
    default:
      fill(data.tensor.as<bool>());
  }
  return data;
}

bool all_of(const std::vector<double>& values, bool (*holds)(double)) {
  return std::all_of(values.begin(), values.end(), holds);
}

class LoopWalk {
 public:
  LoopWalk(const Graph& graph, const Session& kept, const Binding& sizes, Budget& budget)
      : graph_(graph), kept_(kept), budget_(budget) {
    for (const auto& [symbol, size] : sizes) (void)symbols_.bind(symbol, size);
    for (const State& state : graph.states()) states_[state.value] = &state;
  }

  // Returns the first node whose result differs from that of the loops.
  std::optional<WrongNode> run() {
    for (const Node& node : graph_.nodes())
      if (auto wrong = check(node)) return wrong;
    return std::nullopt;
  }
  const std::map<std::string, int64_t>& left_out() const { return left_out_; }
  int64_t compared() const { return compared_; }

 private:
  std::optional<Tensor> value(ValueId id) const {
    if (const auto state = states_.find(id); state != states_.end())
      return state->second->data.tensor;
    const Result<Tensor> value = kept_.value(graph_.value_info(id).name);
    return value.ok() ? std::optional(*value) : std::nullopt;
  }

  std::vector<Attr> numbers(const Node& node) const {
    std::vector<Attr> attrs = node.attrs;
    for (Attr& attr : attrs) {
      if (auto* dim = std::get_if<Dim>(&attr.value)) *dim = dim->substitute(symbols_);
      if (auto* dims = std::get_if<std::vector<Dim>>(&attr.value))
        for (Dim& dim : *dims) dim = dim.substitute(symbols_);
    }
    return attrs;
  }

  std::optional<WrongNode> leave_out(const std::string& why) {
    ++left_out_[why];
    return std::nullopt;
  }

  std::optional<WrongNode> check(const Node& node) {
    const std::string op(node.op->name());
    std::vector<Tensor> results;
    for (const ValueId id : node.outputs) {
      const std::optional<Tensor> got = value(id);
      if (!got) return leave_out("whose values are not kept");
      const Shape& shape = graph_.value_info(id).type.shape;
      for (int d = 0; d < got->rank(); ++d)  // data-dependent sizes
        if (const std::string_view symbol = shape[d].symbol();
            !symbol.empty() && !symbols_.find(symbol))
          (void)symbols_.bind(symbol, got->shape[d]);
      results.push_back(*got);
    }
    const reference::Row* row = reference::find(op);
    if (!node.subgraphs.empty()) return leave_out("of control flow");
    if (row == nullptr || (node.op->def.traits & kRandom) != 0)
      return leave_out("that the loops do not have");
    std::vector<Attr> attributes = numbers(node);
    const AttrReader reader(node.op, attributes);
    std::vector<reference::Array> in, out;
    std::vector<Sizes> in_shapes, out_shapes;
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) {
        in.push_back({f32, {}, {}, false});
        in_shapes.emplace_back();
        continue;
      }
      const std::optional<Tensor> given = value(id);
      if (!given) return leave_out("whose values are not kept");
      in.push_back({given->dtype, given->shape, {}, true});
      in_shapes.push_back(given->shape);
    }
    double elements = 0;
    for (const Tensor& result : results) {
      out.push_back({result.dtype, result.shape, {}, true});
      out_shapes.push_back(result.shape);
    }
    for (const auto* arrays : {&in, &out})
      for (const reference::Array& array : *arrays) elements += static_cast<double>(array.count());
    const reference::Call call{in, out, KernelAttrs(reader)};
    double flops = 0;
    if (row->work)
      flops = row->work(call);
    else if (node.op->def.flops)
      flops = node.op->def.flops(in_shapes, out_shapes, reader);
    if (!budget_.take(flops, elements)) return leave_out("that would take too long at these sizes");
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in[i].given) continue;
      in[i].values = elements_of(*value(node.inputs[i]));
      // Otherwise the result of a product with 0 is undefined, or doubles may not represent the
      // integers.
      if (!all_of(in[i].values, [](double x) { return std::abs(x) < 0x1p53; }))
        return leave_out("of numbers that are not finite or too large");
    }
    for (reference::Array& array : out) array.values.assign(array.count(), 0.0);
    row->run({in, out, KernelAttrs(reader)});
    for (size_t k = 0; k < out.size(); ++k) {
      if (!is_float(out[k].dtype) &&
          !all_of(out[k].values, [](double x) { return std::abs(x) < 0x1p53; }))
        return leave_out("of numbers that are not finite or too large");
      const Result<TensorData> want =
          tensor_of(reference::rounded(out[k].values, out[k].dtype), out[k].dtype, out[k].shape);
      if (!want.ok()) return leave_out("that would take too much memory");
      const Comparison comparison = compare(results[k], want->tensor, f64, "the plain loop");
      if (!comparison.equal)
        return WrongNode{op, node.origin, comparison.difference, comparison.largest_error, true};
    }
    ++compared_;
    return std::nullopt;
  }

  const Graph& graph_;
  const Session& kept_;
  Budget& budget_;
  Bindings symbols_;
  std::map<ValueId, const State*> states_;
  std::map<std::string, int64_t> left_out_;
  int64_t compared_ = 0;
};

Status set_inputs(Session& session, const Inputs& inputs) {
  for (size_t i = 0; i < inputs.data.size(); ++i)
    HG_TRY(session.set_input(static_cast<int>(i), inputs.data[i].tensor));
  return {};
}

class LoopCheck {
 public:
  LoopCheck(const Graph& graph, const Model& written, const Job& job, const OnnxReference* runtime)
      : graph_(graph), written_(written), job_(job), runtime_(runtime), specs_(input_specs(graph)) {
    for (const Node& node : graph.nodes())
      is_random_ = is_random_ || (node.op->def.traits & kRandom) != 0;
  }

  CheckResult run(const std::string& import_unchecked,
                  const std::function<void(const std::string&)>& progress) {
    if (Result<Session> session = Session::create(written_); session.ok())
      plain_ = *std::move(session);
    else
      fail(Exit::unsupported,
           str_cat("the converted model cannot be run: ", session.status().message()));
    std::optional<Binding> earlier;
    for (const Binding& asked : smallest_first(check_sizes(specs_, job_))) {
      if (result_.exit != Exit::ok) break;
      const Binding sizes = admitted(asked, earlier);
      if (earlier == sizes) continue;
      progress(sizes.empty() ? "checking" : "checking with " + describe_sizes(sizes));
      check(sizes);
      earlier = sizes;
    }
    const bool beside = runtime_ != nullptr && !result_.cases.empty() && !is_random_;
    for (const auto& [why, count] : left_out_)
      if (!beside) result_.not_exercised.push_back(str_cat(count, " nodes ", why));
    if (!beside) result_.not_exercised.push_back(import_unchecked);
    return std::move(result_);
  }

 private:
  // Inputs and expected outputs at one binding of the sizes.
  struct Case {
    Inputs inputs;
    std::vector<TensorData> expected;  // ONNX Runtime's
  };

  // Cases with the least work come first.
  static std::vector<Binding> smallest_first(std::vector<Binding> all) {
    const auto elements = [](const Binding& sizes) {
      double product = 1;
      for (const auto& [symbol, size] : sizes) product *= static_cast<double>(size);
      return product;
    };
    std::stable_sort(all.begin(), all.end(),
                     [&](const Binding& a, const Binding& b) { return elements(a) < elements(b); });
    return all;
  }

  // Chooses inputs that the model and ONNX Runtime accept; returns the reason if there are none.
  std::optional<std::string> start(const Binding& sizes, Case& made) {
    std::string refusal;
    for (const Filling filling : kFillings) {
      made.inputs = make_inputs(specs_, sizes, job_, {filling});
      Status status = set_inputs(*plain_, made.inputs);
      if (status.ok()) status = plain_->run();
      if (!status.ok()) {
        refusal = str_cat("a run", with(sizes),
                          ", as it refuses the inputs of the check: ", status.message());
        continue;
      }
      if (runtime_ == nullptr) return std::nullopt;
      try {
        made.expected = runtime_->run(made.inputs);
        return std::nullopt;
      } catch (const OnnxRefusal& why) {
        refusal = str_cat("a run", with(sizes),
                          ", as ONNX Runtime refuses the inputs of the check: ", why.reason);
      }
    }
    return refusal;
  }

  // Runs the same again and keeps all values.
  Status run_kept(const Inputs& inputs) {
    if (!kept_) {
      SessionOptions all;
      all.keep_all_values = true;
      HG_TRY_ASSIGN(kept_, Session::create(written_, all));
    }
    HG_TRY(set_inputs(*kept_, inputs));
    return kept_->run();
  }

  // Returns `asked` if the guards admit it, otherwise similar admitted sizes, if any.
  Binding admitted(const Binding& asked, const std::optional<Binding>& earlier) const {
    if (!is_guarded(graph_, asked)) return asked;
    for (const bool may_repeat_batches : {false, true}) {
      const std::vector<Binding> found =
          admitted_sizes(specs_, job_, graph_, asked, earlier, may_repeat_batches);
      if (!found.empty()) return found[0];
    }
    return asked;
  }

  void check(const Binding& sizes) {
    Case made;
    if (const auto refusal = start(sizes, made)) {
      result_.not_exercised.push_back(*refusal + "; give ranges, as in 'x:i64[n]=0..100'");
      return;
    }
    CheckedCase checked;
    checked.sizes = sizes;
    // If ONNX Runtime has the same outputs, the loops need not run.
    const bool differs =
        runtime_ == nullptr || is_random_ || compare_with_runtime(sizes, made, checked);
    if (differs && result_.exit == Exit::ok) check_nodes(sizes, made, checked);
    result_.cases.push_back(std::move(checked));
  }

  // Returns whether some output differs from ONNX Runtime's.
  bool compare_with_runtime(const Binding& sizes, const Case& made, CheckedCase& checked) {
    const int count = plain_->output_count();
    if (count != static_cast<int>(made.expected.size())) {
      fail(Exit::mismatch,
           str_cat("the converted model has ", int64_t{count}, " outputs", with(sizes),
                   ", ONNX Runtime has ", static_cast<int64_t>(made.expected.size())));
      return true;
    }
    checked.beside = "ONNX Runtime's";
    for (int i = 0; i < count; ++i)
      checked.outputs.push_back(output(i, made.expected[i].tensor, "ONNX Runtime"));
    return first_different(checked) != nullptr;
  }

  static const CheckedOutput* first_different(const CheckedCase& checked) {
    for (const CheckedOutput& each : checked.outputs)
      if (each.verdict == CheckedOutput::Verdict::different) return &each;
    return nullptr;
  }

  // Checks every node separately, the optimized graph, and outputs that differ from ONNX Runtime's.
  void check_nodes(const Binding& sizes, const Case& made, CheckedCase& checked) {
    if (const Status status = run_kept(made.inputs); !status.ok())
      return result_.not_exercised.push_back(
          str_cat("a run that keeps all values", with(sizes), ": ", status.message()));
    LoopWalk walk(graph_, *kept_, sizes, budget_);
    if (const auto wrong = walk.run()) return fail_at(*wrong, sizes);
    for (const auto& [why, count] : walk.left_out()) left_out_[why] = count;
    CheckedCase own;
    own.sizes = sizes;
    own.beside = "the plain run's";
    for (int i = 0; i < plain_->output_count(); ++i)
      own.outputs.push_back(output(i, kept_->output(i), "the plain run"));
    excuse(made, own);
    if (const CheckedOutput* const different = first_different(own))
      fail(Exit::mismatch,
           str_cat("output '", different->name, "' is wrong", with(sizes), ": ", different->reason,
                   "; no single node differs, so it is the optimized graph that "
                   "does; please report it"));
    if (result_.exit == Exit::ok && first_different(checked)) return explain(sizes, made, checked);
    checked = std::move(own);
  }

  // Excuses outputs whose elements move as much when weights change in the last place: in a graph
  // that quantizes, rounding decides between levels.
  void excuse(const Case& made, CheckedCase& checked) {
    std::optional<Conditioning> conditioning;
    for (size_t i = 0; i < checked.outputs.size(); ++i) {
      CheckedOutput& each = checked.outputs[i];
      const Result<Tensor> got = plain_->output(static_cast<int>(i)),
                           want = kept_->output(static_cast<int>(i));
      if (each.verdict != CheckedOutput::Verdict::different || !got.ok() || !want.ok()) continue;
      if (!conditioning) conditioning.emplace(written_, made.inputs);
      const std::string reason =
          conditioning->excuse(i, *got, *want, Conditioning::Where::anywhere);
      if (reason.empty()) continue;
      each.verdict = CheckedOutput::Verdict::ill_conditioned;
      each.reason = reason;
      result_.warnings.push_back(
          str_cat("output '", each.name, "' is the plain run's but for rounding: ", reason));
    }
  }

  // Explains outputs that differ from ONNX Runtime's although no node differs from its loop.
  void explain(const Binding& sizes, const Case& made, CheckedCase& checked) {
    const OnnxReference::Explanation why = runtime_->explain(*kept_, made.inputs);
    if (why.wrong) return fail_at(*why.wrong, sizes);
    const CheckedOutput* const different = first_different(checked);
    if (!why.complete)
      return fail(Exit::mismatch,
                  str_cat("output '", different->name, "' is wrong", with(sizes), ": ",
                          different->reason, "; ",
                          why.trouble.empty() ? "no single node differs by much"
                                              : "the nodes could not be compared: " + why.trouble));
    for (CheckedOutput& each : checked.outputs)
      if (each.verdict == CheckedOutput::Verdict::different)
        each.verdict = CheckedOutput::Verdict::ill_conditioned;
    result_.warnings.push_back(
        str_cat("outputs differ from ONNX Runtime's", with(sizes),
                " by rounding that grows from node to node: each node by itself is equal"));
  }

  CheckedOutput output(int i, const Result<Tensor>& want, std::string_view whose) const {
    CheckedOutput made;
    made.name = std::string(plain_->output_name(i));
    const Result<Tensor> got = plain_->output(i);
    if (!got.ok() || !want.ok()) {
      made.verdict = CheckedOutput::Verdict::different;
      made.reason = "it is not there";
      return made;
    }
    made.type = str_cat(got->dtype, got->shape);
    const bool is_alike = got->dtype == want->dtype && got->shape == want->shape;
    if (is_alike && (is_random_ || got->count() == 0)) {
      made.verdict = CheckedOutput::Verdict::unchecked;
      made.reason = is_random_ ? "the model draws random numbers" : CheckedOutput::kNoElement;
      return made;
    }
    const Comparison comparison = compare(*got, *want, f64, whose);
    made.largest_error = comparison.largest_error;
    made.allowed = comparison.allowed;
    if (!comparison.equal) {
      made.verdict = CheckedOutput::Verdict::different;
      made.reason = comparison.difference;
    }
    return made;
  }

  static std::string with(const Binding& sizes) {
    return sizes.empty() ? "" : " with " + describe_sizes(sizes);
  }

  void fail_at(const WrongNode& wrong, const Binding& sizes) {
    result_.wrong_nodes.push_back(wrong);
    fail(Exit::mismatch, str_cat("the first wrong node", with(sizes), " is ", wrong.op,
                                 describe_origin(wrong.origin), ": ", wrong.difference));
  }

  void fail(Exit exit, std::string message) {
    result_.exit = exit;
    result_.message = std::move(message);
  }

  const Graph& graph_;
  const Model& written_;
  const Job& job_;
  const OnnxReference* const runtime_;
  std::vector<InputSpec> specs_;
  std::optional<Session> plain_, kept_;  // kept_ keeps all values
  bool is_random_ = false;
  Budget budget_;
  std::map<std::string, int64_t> left_out_;
  CheckResult result_;
};

}  // namespace

CheckResult check_by_loops(const Graph& graph, const Model& written, const Job& job,
                           const OnnxReference* runtime, const std::string& import_unchecked,
                           const std::function<void(const std::string&)>& progress) {
  return LoopCheck(graph, written, job, runtime).run(import_unchecked, progress);
}

}  // namespace hg::convert
