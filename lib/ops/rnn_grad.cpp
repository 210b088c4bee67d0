// SPDX-License-Identifier: Apache-2.0
// Gradients of the scans of rnn.cpp. Each walks back through the steps. Its gradient of the gates
// suffices to compute the gradients of the weights. Expansions unroll the loop.
#include "lib/graph/internal_op.h"
#include "lib/ops/rnn.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// x: [time, batch, count hidden], weight: [count hidden, hidden]. Inputs from `states` on, if
// given: dy [time, batch, hidden], then states [batch, hidden].
Status check_scan_grad(const InferContext& c, int count, int weight, int states, Dim& hidden) {
  const TensorType& x = c.in(0);
  if (!is_float(x.dtype) || x.rank() != 3 || c.in(weight).rank() != 2)
    return c.fail("expected floats [time, batch, ", count, " hidden] and a weight [", count,
                  " hidden, hidden], got ", x, " and ", c.in(weight));
  hidden = floordiv(x.shape[2], count);
  if (!c.require_equal(hidden * count, x.shape[2]) ||
      !c.require_equal(x.shape[2], c.in(weight).shape[0]) ||
      !c.require_equal(hidden, c.in(weight).shape[1]))
    return c.fail("sizes do not fit: ", x, " and the weight ", c.in(weight));
  if (c.in(weight).dtype != x.dtype)
    return c.fail("input 0 is ", x.dtype, ", the weight is ", c.in(weight).dtype);
  const TensorType each = {x.dtype, {x.shape[0], x.shape[1], hidden}};
  const TensorType once = {x.dtype, {x.shape[1], hidden}};
  for (int i = states; i < c.input_count(); ++i)
    if (given(c, i) && !c.require_equal(c.in(i), i == states ? each : once))
      return c.fail("input ", i, " is ", c.in(i), ", not ", i == states ? each : once);
  return {};
}

Status lstm_grad_infer(InferContext& c) {
  Dim hidden;
  HG_TRY(check_scan_grad(c, 4, 2, 3, hidden));
  const TensorType& gates = c.in(0);
  c.out(0) = gates;
  c.out(1) = c.out(2) = {gates.dtype, {gates.shape[1], hidden}};
  if (!c.require_equal(c.in(1), c.out(1))) return c.fail("c0 is ", c.in(1), ", not ", c.out(1));
  return {};
}
Status gru_grad_infer(InferContext& c) {
  Dim hidden;
  HG_TRY(check_scan_grad(c, 3, 3, 4, hidden));
  const TensorType& gates = c.in(0);
  c.out(0) = c.out(1) = gates;
  c.out(2) = {gates.dtype, {gates.shape[1], hidden}};
  const TensorType before = {gates.dtype, {gates.shape[0], gates.shape[1], hidden}};
  if (!c.require_equal(c.in(1), gates) || !c.require_equal(c.in(2), before))
    return c.fail("back and before are ", c.in(1), " and ", c.in(2), ", not ", gates, " and ",
                  before);
  return {};
}
Status rnn_grad_infer(InferContext& c) {
  Dim hidden;
  HG_TRY(check_scan_grad(c, 1, 1, 2, hidden));
  c.out(0) = c.in(0);
  c.out(1) = {c.in(0).dtype, {c.in(0).shape[1], hidden}};
  return {};
}

Value given_or_zero(const ExpandContext& c, int i, const Shape& shape) {
  return given(c, i) ? c.in(i) : term::expand(term::number(c.in(0), 0), shape);
}

// The gradient of the state after step t: from the later steps and from y.
Value arriving(const ExpandContext& c, int dy, const Value& dh, int64_t t) {
  return given(c, dy) ? dh + at_time(c.in(dy), t) : dh;
}

Value with_slope_of_sigmoid(const Value& d, const Value& s) { return d * (s - s * s); }
Value with_slope_of_tanh(const Value& d, const Value& y) { return d - d * (y * y); }

// Computes f16 and bf16 gradients in f32, rounded once at the end; returns false for other dtypes.
bool expand_widened(ExpandContext& c, std::initializer_list<std::string_view> names) {
  const DType dtype = c.in(0).dtype();
  if (dtype != f16 && dtype != bf16) return false;
  std::vector<Value> inputs;
  for (int i = 0; i < c.input_count(); ++i) inputs.push_back(term::widened(input_or_none(c, i)));
  NamedAttrs attrs;
  for (const std::string_view name : names) attrs.push_back({name, c.attrs().raw(name)});
  const std::vector<Value> d = c.graph().calls(c.attrs().op().name(), inputs, attrs);
  for (size_t i = 0; i < d.size(); ++i) c.set_out(static_cast<int>(i), hg::cast(d[i], dtype));
  return true;
}

// With gates a: do = dh tanh(c), dc += dh o (1 - tanh(c)^2), di = dc g, df = dc c', dg = dc i, each
// times the slope of its function; then dc' = dc f and dh' = da W. ' marks the preceding step.
Status lstm_grad_expand(ExpandContext& c) {
  if (expand_widened(c, {"reverse"})) return {};
  HG_TRY_ASSIGN(const int64_t time, steps_of(c));
  const Dim hidden = floordiv(c.in(0).dim(2), 4);
  struct Step {
    Value in, forget, fresh, out, before, cell;
  };
  std::vector<Step> steps(time);
  Value cell = c.in(1);
  for_steps(c, time, false, [&](int64_t t) {
    const Value gates = at_time(c.in(0), t);
    Step& s = steps[t];
    s = {sigmoid(part_of(gates, 0, hidden)),
         sigmoid(part_of(gates, 1, hidden)),
         tanh(part_of(gates, 2, hidden)),
         sigmoid(part_of(gates, 3, hidden)),
         cell,
         {}};
    s.cell = cell = s.forget * cell + s.in * s.fresh;
  });
  Value dh = given_or_zero(c, 4, c.in(1).shape()), dc = given_or_zero(c, 5, c.in(1).shape());
  std::vector<Value> dgates(time);
  for_steps(c, time, true, [&](int64_t t) {
    const Step& s = steps[t];
    const Value d = arriving(c, 3, dh, t), squashed = tanh(s.cell);
    dc = dc + with_slope_of_tanh(d * s.out, squashed);
    const std::vector<Value> parts = {
        with_slope_of_sigmoid(dc * s.fresh, s.in), with_slope_of_sigmoid(dc * s.before, s.forget),
        with_slope_of_tanh(dc * s.in, s.fresh), with_slope_of_sigmoid(d * squashed, s.out)};
    const Value da = c.graph().call("concat", parts, {{"dim", 1}});
    dgates[t] = da;
    dc = dc * s.forget;
    dh = term::op("matmul", da, c.in(2));
  });
  c.set_out(0, dgates.empty() ? c.in(0) : stack(dgates, dgates[0]));
  c.set_out(1, dh);
  c.set_out(2, dc);
  return {};
}

// With u = W h' + b: dz = dh (h' - n), dn = dh (1 - z), dr = dn u_n, each times the slope of its
// function. du is da with dn r as its last part, and dh' = dh z + du W.
Status gru_grad_expand(ExpandContext& c) {
  if (expand_widened(c, {"reverse"})) return {};
  HG_TRY_ASSIGN(const int64_t time, steps_of(c));
  const Dim hidden = floordiv(c.in(0).dim(2), 3);
  Value dh = given_or_zero(c, 5, {c.in(0).dim(1), hidden});
  std::vector<Value> dgates(time), dbacks(static_cast<size_t>(time));
  for_steps(c, time, true, [&](int64_t t) {
    const Value gates = at_time(c.in(0), t), back = at_time(c.in(1), t), h = at_time(c.in(2), t);
    const Value r = sigmoid(part_of(gates, 0, hidden) + part_of(back, 0, hidden));
    const Value z = sigmoid(part_of(gates, 1, hidden) + part_of(back, 1, hidden));
    const Value n = tanh(part_of(gates, 2, hidden) + r * part_of(back, 2, hidden));
    const Value d = arriving(c, 4, dh, t);
    const Value dn = with_slope_of_tanh(d - d * z, n);
    const Value dr = with_slope_of_sigmoid(dn * part_of(back, 2, hidden), r);
    const Value dz = with_slope_of_sigmoid(d * (h - n), z);
    const auto joined = [&](const Value& last) {
      return c.graph().call("concat", {dr, dz, last}, {{"dim", 1}});
    };
    const Value du = joined(dn * r);
    dgates[t] = joined(dn);
    dbacks[t] = du;
    dh = d * z + term::op("matmul", du, c.in(3));
  });
  c.set_out(0, dgates.empty() ? c.in(0) : stack(dgates, dgates[0]));
  c.set_out(1, dbacks.empty() ? c.in(1) : stack(dbacks, dbacks[0]));
  c.set_out(2, dh);
  return {};
}

// da = dh (1 - y^2), or for relu dh where y > 0; dh' = da W.
Status rnn_grad_expand(ExpandContext& c) {
  if (expand_widened(c, {"reverse", "nonlinearity"})) return {};
  HG_TRY_ASSIGN(const int64_t time, steps_of(c));
  Value dh = given_or_zero(c, 3, {c.in(0).dim(1), c.in(0).dim(2)});
  const bool relu = c.attrs().string("nonlinearity") == "relu";
  std::vector<Value> dgates(time);
  for_steps(c, time, true, [&](int64_t t) {
    const Value y = at_time(c.in(0), t), d = arriving(c, 2, dh, t);
    const Value da = relu ? where(term::op("gt", y, term::number(y, 0)), d, term::full_like(d, 0))
                          : with_slope_of_tanh(d, y);
    dgates[t] = da;
    dh = term::op("matmul", da, c.in(1));
  });
  c.set_out(0, dgates.empty() ? c.in(0) : stack(dgates, dgates[0]));
  c.set_out(1, dh);
  return {};
}

double lstm_grad_flops(std::span<const Sizes> in, std::span<const Sizes>, const AttrReader&) {
  return scan_flops(in, 2);
}
double gru_grad_flops(std::span<const Sizes> in, std::span<const Sizes>, const AttrReader&) {
  return scan_flops(in, 3);
}
double rnn_grad_flops(std::span<const Sizes> in, std::span<const Sizes>, const AttrReader&) {
  return scan_flops(in, 1);
}

constexpr OpDef kOps[] = {
    // For a scan with the projection in its weight. gates: [time, batch, 4 hidden], of the input
    // plus W h + b; dy: [time, batch, hidden]; dh and dc: [batch, hidden], zeros if not given.
    {.signature = "lstm_scan_grad(gates, c0, weight_hh, dy?, dh?, dc?, reverse: bool = false) -> "
                  "dgates, dh0, dc0",
     .infer = lstm_grad_infer,
     .expand = lstm_grad_expand,
     .alias = 0b1,
     .traits = kScan | kInternal,
     .flops = lstm_grad_flops},
    // gates: of the input; back: W h + b of each step; before: its h.
    {.signature = "gru_scan_grad(gates, back, before, weight_hh, dy?, dh?, reverse: bool = false) "
                  "-> dgates, dback, dh0",
     .infer = gru_grad_infer,
     .expand = gru_grad_expand,
     .alias = 0b1,
     .traits = kScan | kInternal,
     .flops = gru_grad_flops},
    {.signature = "rnn_scan_grad(y, weight_hh, dy?, dh?, nonlinearity: str = \"tanh\", reverse: "
                  "bool = false) -> dgates, dh0",
     .infer = rnn_grad_infer,
     .expand = rnn_grad_expand,
     .alias = 0b1,
     .traits = kScan | kInternal,
     .flops = rnn_grad_flops},
};

}  // namespace

std::span<const OpDef> rnn_grad() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
