// SPDX-License-Identifier: Apache-2.0
// Normalizations and softmax.
#include <limits>

#include "converter/aten/softmax.h"
#include "converter/rows/scalar.h"
#include "converter/rows/view.h"
#include "hg/op.h"
#include "hg/ops/operators.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;

// softmax(x, dim, dtype): x is cast to `dtype` first. torch rejects an integer x without a dtype.
void softmax_of(Call& call, std::string_view op) {
  Value x = call.tensor("self");
  x = convert::cast(x, call.dtype("dtype", x.dtype()));
  if (!is_float(x.dtype())) call.refuse("self", "must be a float tensor");
  call.returns(call.graph().call(op, {x}, {{"dim", call.integer("dim")}}));
}
void softmax(Call& call) { softmax_of(call, "softmax"); }
void log_softmax(Call& call) { softmax_of(call, "log_softmax"); }

// _softmax(x, dim, half_to_float)
void inner_softmax_of(Call& call, std::string_view op) {
  Value x = call.tensor("self");
  if (call.flag("half_to_float", false)) x = convert::cast(x, f32);
  call.returns(call.graph().call(op, {x}, {{"dim", call.integer("dim")}}));
}
void inner_softmax(Call& call) { inner_softmax_of(call, "softmax"); }
void inner_log_softmax(Call& call) { inner_softmax_of(call, "log_softmax"); }

// Gradient of softmax from its result y: (dy - sum(dy y)) y; of log_softmax: dy - e^y sum(dy).
template <bool kLog>
void softmax_backward(Call& call) {
  Graph& g = call.graph();
  const Value dy = call.tensor("grad_output"), y = call.tensor("output");
  using Dims = std::vector<Dim>;
  const Dims dim = y.rank() == 0 ? Dims{} : Dims{call.integer("dim")};
  const auto total = [&](const Value& x) {
    return g.call("sum", {x}, {{"dim", dim}, {"keepdim", true}});
  };
  const Value dx = kLog ? dy - g.call("exp", {y}) * total(dy) : (dy - total(dy * y)) * y;
  call.returns(convert::cast(dx, call.dtype("input_dtype", y.dtype())));
}

void softmin(Call& call) {
  Value x = call.tensor("self");
  x = convert::cast(x, call.dtype("dtype", x.dtype()));
  call.returns(call.graph().call("softmax", {call.graph().call("neg", {x})},
                                 {{"dim", call.integer("dim")}}));
}

void safe_softmax_row(Call& call) {
  const Value x = call.tensor("self");
  call.returns(safe_softmax(convert::cast(x, call.dtype("dtype", x.dtype())), call.integer("dim")));
}

// x and its parameters in one dtype: f32 if 16-bit activations meet f32 parameters.
struct Norm {
  Value x, weight, bias;
  DType dtype;  // of x and of the result
};
Norm norm_arguments(Call& call) {
  Norm n;
  n.x = call.tensor("input");
  n.weight = call.tensor_or_none("weight");
  n.bias = call.tensor_or_none("bias");
  n.dtype = n.x.dtype();
  if (!is_float(n.dtype)) call.refuse("input", "must be a float tensor");
  DType wide = n.dtype;
  if (n.weight) wide = promote(wide, n.weight.dtype());
  if (n.bias) wide = promote(wide, n.bias.dtype());
  n.x = convert::cast(n.x, wide);
  if (n.weight) n.weight = convert::cast(n.weight, wide);
  if (n.bias) n.bias = convert::cast(n.bias, wide);
  return n;
}

void layer_norm(Call& call) {
  const Norm n = norm_arguments(call);
  const Value y = call_with(call.graph(), "layer_norm", {n.x, n.weight, n.bias},
                            {{"eps", scalar(call, "eps", 1e-5)}},
                            {{"normalized_shape", call.sizes("normalized_shape")}});
  call.returns(convert::cast(y, n.dtype));
}

// The mean and 1 / sqrt(var + eps) that the native_ variants return in addition to y.
struct Moments {
  Value mean, rstd;
};
Moments moments(const Value& x, const std::vector<Dim>& dims, const Real& eps) {
  Graph& g = *x.graph();
  const NamedAttrs over = {{"dim", dims}, {"keepdim", true}};
  const Value mean = g.call("mean", {x}, over);
  const Value centred = g.call("sub", {x, mean});
  const Value var = g.call("mean", {g.call("mul", {centred, centred})}, over);
  return {mean, g.call("rsqrt", {var + eps})};
}

void native_layer_norm(Call& call) {
  const Norm n = norm_arguments(call);
  const std::vector<Dim> shape = call.sizes("normalized_shape");
  const Real eps = scalar(call, "eps");
  const Value y = call_with(call.graph(), "layer_norm", {n.x, n.weight, n.bias}, {{"eps", eps}},
                            {{"normalized_shape", shape}});
  std::vector<Dim> dims;
  for (int i = n.x.rank() - static_cast<int>(shape.size()); i < n.x.rank(); ++i)
    dims.emplace_back(i);
  const Moments m = moments(n.x, dims, eps);
  call.returns(Values{convert::cast(y, n.dtype), m.mean, m.rstd});
}

// The default eps is the machine epsilon of the dtype in which PyTorch computes: f32 for 16 bits.
double epsilon(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                             : double{std::numeric_limits<float>::epsilon()};
}

void rms_norm(Call& call) {
  const Norm n = norm_arguments(call);
  const Value y = call_with(call.graph(), "rms_norm", {n.x, n.weight},
                            {{"eps", scalar(call, "eps", epsilon(n.dtype))}},
                            {{"normalized_shape", call.sizes("normalized_shape")}});
  call.returns(convert::cast(y, n.dtype));
}

void fused_rms_norm(Call& call) {
  const Norm n = norm_arguments(call);
  Graph& g = call.graph();
  const std::vector<Dim> shape = call.sizes("normalized_shape");
  const Real eps = scalar(call, "eps", epsilon(n.dtype));
  const Value y =
      call_with(g, "rms_norm", {n.x, n.weight}, {{"eps", eps}}, {{"normalized_shape", shape}});
  std::vector<Dim> dims;
  for (int i = n.x.rank() - static_cast<int>(shape.size()); i < n.x.rank(); ++i)
    dims.emplace_back(i);
  const Value square =
      g.call("mean", {g.call("mul", {n.x, n.x})}, {{"dim", dims}, {"keepdim", true}});
  const Value rstd = g.call("rsqrt", {square + eps});
  call.returns(Values{convert::cast(y, n.dtype), rstd});
}

void group_norm(Call& call) {
  const Norm n = norm_arguments(call);
  const Value y =
      call_with(call.graph(), "group_norm", {n.x, n.weight, n.bias},
                {{"eps", scalar(call, "eps", 1e-5)}}, {{"groups", call.size("num_groups")}});
  call.returns(convert::cast(y, n.dtype));
}

// (input, weight, bias, N, C, HxW, group, eps) returns y, mean [N, group], rstd [N, group].
void native_group_norm(Call& call) {
  const Norm n = norm_arguments(call);
  const Dim batch = call.size("N"), groups = call.size("group");
  const Real eps = scalar(call, "eps");
  const Value y = call_with(call.graph(), "group_norm", {n.x, n.weight, n.bias}, {{"eps", eps}},
                            {{"groups", groups}});
  const Dim each = floordiv(call.size("C"), groups) * call.size("HxW");
  const Moments m = moments(reshaped(n.x, {batch, groups, each}), {2}, eps);
  call.returns(Values{convert::cast(y, n.dtype), reshaped(m.mean, {batch, groups}),
                      reshaped(m.rstd, {batch, groups})});
}

// A call of the op, and the new running statistics.
struct BatchNorm {
  Norm n;
  Value y, running_mean, running_var;
};
BatchNorm batch_norm_of(Call& call, bool training, const Real& momentum, const Real& eps,
                        bool with_running = true) {
  BatchNorm b;
  b.n = norm_arguments(call);
  if (with_running) {
    b.running_mean = call.tensor_or_none("running_mean");
    b.running_var = call.tensor_or_none("running_var");
  }
  if (training) {  // one value has no variance; PyTorch rejects it
    Dim values = 1;
    for (int d = 0; d < b.n.x.rank(); ++d)
      if (d != 1) values = values * b.n.x.dim(d);
    if (!values.is_constant())
      call.graph().guard(values, Relation::ne, 1, "batch_norm in training mode");
  }
  DType wide = b.n.x.dtype();
  if (b.running_mean) wide = promote(wide, b.running_mean.dtype());
  auto widen = [&](const Value& v) { return v ? convert::cast(v, wide) : v; };
  // Outside of training, only a trainer uses the momentum, which must then be a number.
  const Real kept = training || momentum.is_known() ? momentum : Real(0.1);
  const Values out = calls_with(call.graph(), "batch_norm",
                                {widen(b.n.x), widen(b.n.weight), widen(b.n.bias),
                                 widen(b.running_mean), widen(b.running_var)},
                                {{"momentum", kept}, {"eps", eps}}, {{"training", training}});
  if (out.size() != 3) {
    b.y = Value(&call.graph(), kNoValue);
    return b;
  }
  b.y = convert::cast(out[0], b.n.dtype);
  if (training && b.running_mean) {
    call.note("batch_norm runs in training mode, as traced");
    // PyTorch updates them without autograd.
    b.running_mean = convert::cast(detach(out[1]), b.running_mean.dtype());
    b.running_var = convert::cast(detach(out[2]), b.running_var.dtype());
  }
  return b;
}

// The same, and writes running statistics that training updates to their buffers.
BatchNorm batch_norm_with_buffers(Call& call, bool training, const Real& momentum, const Real& eps,
                                  bool with_running = true) {
  BatchNorm b = batch_norm_of(call, training, momentum, eps, with_running);
  if (training && b.running_mean && b.y) {
    call.write(call.ref("running_mean"), b.running_mean);
    call.write(call.ref("running_var"), b.running_var);
  }
  return b;
}

void batch_norm(Call& call) {
  const bool training = call.flag("training");
  const Value x = call.tensor("input");
  if (x.rank() == 1 && x.dim(0) == Dim(0)) return call.returns(x);  // empty: nothing to normalize
  call.returns(batch_norm_with_buffers(call, training, scalar(call, "momentum", 0.1),
                                       scalar(call, "eps", 1e-5))
                   .y);
}

std::vector<Dim> all_but_channels(const Value& x) {
  std::vector<Dim> dims;
  for (int i = 0; i < x.rank(); ++i)
    if (i != 1) dims.emplace_back(i);
  return dims;
}

Value empty_tensor(Graph& g, DType dtype) {
  Result<TensorData> none = TensorData::allocate(dtype, {0});
  return none.ok() ? g.constant(*std::move(none)) : g.fail(none.status());
}

// Returns y, mean and 1 / sqrt(var + eps). The latter two are empty outside of training.
Values with_moments(Call& call, const BatchNorm& b, bool training, const Real& eps) {
  Graph& g = call.graph();
  if (!training) return {b.y, empty_tensor(g, b.n.x.dtype()), empty_tensor(g, b.n.x.dtype())};
  const Moments m = moments(b.n.x, all_but_channels(b.n.x), eps);
  const Shape channels = {b.n.x.dim(1)};
  return {b.y, reshaped(m.mean, channels), reshaped(m.rstd, channels)};
}
Values native_batch_norm_of(Call& call, bool training, const Real& momentum, const Real& eps,
                            bool with_running = true) {
  return with_moments(call, batch_norm_with_buffers(call, training, momentum, eps, with_running),
                      training, eps);
}

void native_batch_norm(Call& call) {
  call.returns(native_batch_norm_of(call, call.flag("training"), scalar(call, "momentum"),
                                    scalar(call, "eps")));
}
void native_batch_norm_no_stats(Call& call) {
  call.returns(native_batch_norm_of(call, call.flag("training"), scalar(call, "momentum"),
                                    scalar(call, "eps"), false));
}
void native_batch_norm_no_training(Call& call) {
  call.returns(native_batch_norm_of(call, false, scalar(call, "momentum"), scalar(call, "eps")));
}
// The fourth result, reserve, is for other devices and empty on the CPU.
Values with_reserve(Call& call, Values values) {
  values.push_back(empty_tensor(call.graph(), u8));
  return values;
}
void batch_norm_with_update(Call& call) {
  call.returns(with_reserve(
      call, native_batch_norm_of(call, true, scalar(call, "momentum"), scalar(call, "eps"))));
}
// Returns the statistics also: (y, mean, rstd, running_mean, running_var).
void native_batch_norm_functional(Call& call) {
  const bool training = call.flag("training");
  const Real eps = scalar(call, "eps");
  const BatchNorm b = batch_norm_of(call, training, scalar(call, "momentum"), eps);
  Values values = with_moments(call, b, training, eps);
  values.insert(values.end(), {b.running_mean, b.running_var});
  call.returns(std::move(values));
}
// Returns (y, mean, rstd, reserve, running_mean, running_var).
void batch_norm_with_update_functional(Call& call) {
  const Real eps = scalar(call, "eps");
  const BatchNorm b = batch_norm_of(call, true, scalar(call, "momentum"), eps);
  Values values = with_reserve(call, with_moments(call, b, true, eps));
  values.insert(values.end(), {b.running_mean, b.running_var});
  call.returns(std::move(values));
}
void batch_norm_no_update(Call& call) {
  call.returns(with_reserve(
      call, native_batch_norm_of(call, false, scalar(call, "momentum"), scalar(call, "eps"))));
}
// Returns (y, mean, rstd, reserve, number of the implementation).
void batch_norm_impl_index(Call& call) {
  const Values values =
      with_reserve(call, native_batch_norm_of(call, call.flag("training"), scalar(call, "momentum"),
                                              scalar(call, "eps")));
  std::vector<Item> items;
  for (const Value& value : values) items.push_back(Item(call.make_tensor(value)));
  items.push_back(Item(0));
  call.returns(std::move(items));
}

// Uses the running statistics. Not the batch_norm op, for which a trainer would use batch
// statistics.
void instance_norm_by_running(Call& call, const Real& eps) {
  Graph& g = call.graph();
  const Norm n = norm_arguments(call);
  const DType wide = promote(n.x.dtype(), call.tensor("running_mean").dtype());
  const auto channels = [&](const Value& v) {
    Shape shape(static_cast<size_t>(n.x.rank()), Dim(1));
    shape[1] = n.x.dim(1);
    return reshaped(convert::cast(v, wide), shape);
  };
  const Value var = channels(call.tensor("running_var"));
  Value scale = g.call("rsqrt", {var + eps});
  if (n.weight) scale = g.call("mul", {scale, channels(n.weight)});
  Value y = g.call("sub", {convert::cast(n.x, wide), channels(call.tensor("running_mean"))});
  y = g.call("mul", {y, scale});
  if (n.bias) y = g.call("add", {y, channels(n.bias)});
  call.note(
      "instance_norm uses its running statistics, as traced: training also uses them and does not "
      "move them");
  call.returns(convert::cast(y, n.dtype));
}

// Uses the statistics of each sample: group_norm with one channel per group. The running statistics
// are updated with the mean of the samples' statistics.
void instance_norm(Call& call) {
  Graph& g = call.graph();
  const Real eps = scalar(call, "eps", 1e-5);
  if (!call.flag("use_input_stats")) return instance_norm_by_running(call, eps);
  const Norm n = norm_arguments(call);
  const Value y =
      call_with(g, "group_norm", {n.x, n.weight, n.bias}, {{"eps", eps}}, {{"groups", n.x.dim(1)}});
  if (call.has("running_mean") && call.has("running_var")) {
    const Real momentum = scalar(call, "momentum", 0.1);
    std::vector<Dim> dims;
    for (int i = 2; i < n.x.rank(); ++i) dims.emplace_back(i);
    const Value mean = g.call("mean", {n.x}, {{"dim", dims}, {"keepdim", false}});
    const Value var =
        g.call("var", {n.x}, {{"dim", dims}, {"correction", 1.0}, {"keepdim", false}});
    auto move = [&](std::string_view name, const Value& samples) {
      const Value old = call.tensor(name);
      const Value now = convert::cast(
          g.call("mean", {detach(samples)}, {{"dim", std::vector<Dim>{0}}, {"keepdim", false}}),
          old.dtype());
      call.write(call.ref(name), now * momentum + old * (1 - momentum));
    };
    call.note("instance_norm moves its running statistics, as traced");
    move("running_mean", mean);
    move("running_var", var);
  }
  call.returns(convert::cast(y, n.dtype));
}

// Returns the p-norm of every slice of v along dim, with v's rank; for dim -1, of all of v.
Value norm_except(Call& call, const Value& v, double p, int64_t dim) {
  if (dim < -1 || dim >= v.rank()) call.refuse("dim", str_cat("is ", dim, ", v is ", v.shape()));
  std::vector<Dim> others;
  for (int64_t d = 0; d < v.rank(); ++d)
    if (d != dim) others.emplace_back(d);
  if (dim == -1) return call.graph().call("norm", {v}, {{"ord", p}});
  if (others.empty()) return call.graph().call("abs", {v});
  return call.graph().call("norm", {v}, {{"ord", p}, {"dim", others}, {"keepdim", true}});
}
// v g / |v|
void weight_norm(Call& call) {
  Graph& graph = call.graph();
  const Value v = call.tensor("v"), g = call.tensor("g");
  const Value length = norm_except(call, v, 2, call.number("dim", 0));
  const Value y = graph.call("mul", {v, graph.call("div", {g, length})});
  if (call.kind() == "aten::_weight_norm") return call.returns(y);
  call.returns(Values{y, length});
}
void norm_except_dim(Call& call) {
  call.returns(norm_except(call, call.tensor("v"), static_cast<double>(call.number("pow", 2)),
                           call.number("dim", 0)));
}

constexpr SharedTraits kShared = {.layout = ResultLayout::kept};
constexpr Row kRows[] = {
    {.op = "aten::softmax", .run = softmax, .layout = ResultLayout::row_major},
    {.op = "aten::log_softmax", .run = log_softmax, .layout = ResultLayout::row_major},
    {"aten::special_softmax", softmax},
    {"aten::special_log_softmax", log_softmax},
    {"aten::_softmax", inner_softmax},
    {"aten::_log_softmax", inner_log_softmax},
    {"aten::_softmax_backward_data", softmax_backward<false>},
    {"aten::_log_softmax_backward_data", softmax_backward<true>},
    {"aten::softmin", softmin},
    {"aten::_safe_softmax", safe_softmax_row},
    {.op = "aten::layer_norm", .run = layer_norm, .layout = ResultLayout::row_major},
    {"aten::native_layer_norm", native_layer_norm},
    {"aten::rms_norm", rms_norm},
    {"aten::_fused_rms_norm", fused_rms_norm},
    {"aten::group_norm", group_norm},
    {"aten::native_group_norm", native_group_norm},
    {"aten::batch_norm", batch_norm},
    {"aten::native_batch_norm", native_batch_norm},
    {"aten::_native_batch_norm_legit", native_batch_norm},
    {"aten::_native_batch_norm_legit.no_stats", native_batch_norm_no_stats},
    {"aten::_native_batch_norm_legit_no_training", native_batch_norm_no_training},
    {"aten::_native_batch_norm_legit_functional", native_batch_norm_functional},
    {"aten::_batch_norm_with_update", batch_norm_with_update},
    {"aten::_batch_norm_with_update_functional", batch_norm_with_update_functional},
    {"aten::_batch_norm_no_update", batch_norm_no_update},
    {"aten::_batch_norm_impl_index", batch_norm_impl_index},
    {"aten::instance_norm", instance_norm},
    {"aten::_weight_norm", weight_norm},
    {"aten::_weight_norm_interface", weight_norm},
    {"aten::norm_except_dim", norm_except_dim},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> norm() { return kTable; }

}  // namespace hg::convert::rows
