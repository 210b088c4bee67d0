// SPDX-License-Identifier: Apache-2.0
// The recurrent part of one direction of one layer; what the inputs contribute, x W_ih^T + b_ih, is
// a linear before it. Its gradient is an op of its own that walks back through the steps; what it
// gives for the gates is all that the weights' gradients need. Expansions are the loops unrolled.
#include "hg/op.h"
#include "lib/ops/terms.h"

namespace hg::ops {
namespace {

// gates: [time, batch, count * hidden], h0: [batch, out], weight_hh: [count * hidden, out],
// bias_hh: [count * hidden]
Status check_scan(const InferContext& c, int count, int weight, int bias, Dim& hidden) {
  const TensorType &gates = c.in(0), &h0 = c.in(1), &w = c.in(weight);
  if (!is_float(gates.dtype)) return c.fail("gates must be a float tensor, it is ", gates.dtype);
  for (int i = 1; i < c.input_count(); ++i)
    if (c.has(i) && c.in(i).dtype != gates.dtype)
      return c.fail("gates is ", gates.dtype, ", input ", i, " is ", c.in(i).dtype);
  if (gates.rank() != 3 || h0.rank() != 2 || w.rank() != 2)
    return c.fail("gates must be [time, batch, ", count,
                  " hidden], h0 [batch, out] and weight_hh [", count, " hidden, out]: they are ",
                  gates.shape, ", ", h0.shape, " and ", w.shape);
  if (differ(gates.shape[1], h0.shape[0]) || differ(gates.shape[2], w.shape[0]) ||
      differ(w.shape[1], h0.shape[1]))
    return c.fail("sizes do not fit: gates is ", gates.shape, ", h0 is ", h0.shape,
                  ", weight_hh is ", w.shape);
  hidden = floordiv(gates.shape[2], count);
  if (given(c, bias) && (c.in(bias).rank() != 1 || differ(c.in(bias).shape[0], gates.shape[2])))
    return c.fail("bias_hh must be [", gates.shape[2], "], it is ", c.in(bias).shape);
  return {};
}

void set_scan_types(InferContext& c) {
  const TensorType &gates = c.in(0), &h0 = c.in(1);
  c.out(0) = {gates.dtype, {gates.shape[0], gates.shape[1], h0.shape[1]}};
  c.out(1) = h0;
}

Status lstm_infer(InferContext& c) {
  Dim hidden;
  HG_TRY(check_scan(c, 4, 3, 4, hidden));
  const TensorType& c0 = c.in(2);
  if (c0.rank() != 2 || differ(c0.shape[1], hidden) || differ(c0.shape[0], c.in(1).shape[0]))
    return c.fail("c0 must be [batch, ", hidden, "], it is ", c0.shape);
  if (given(c, 5)) {
    const TensorType& p = c.in(5);
    if (p.rank() != 2 || differ(p.shape[0], c.in(1).shape[1]) || differ(p.shape[1], hidden))
      return c.fail("weight_hr must be [", c.in(1).shape[1], ", ", hidden, "], it is ", p.shape);
  } else if (differ(hidden, c.in(1).shape[1])) {
    return c.fail("h0 must be [batch, ", hidden, "], it is ", c.in(1).shape);
  }
  set_scan_types(c);
  c.out(2) = c0;
  return {};
}
Status gru_infer(InferContext& c) {
  Dim hidden;
  HG_TRY(check_scan(c, 3, 2, 3, hidden));
  if (differ(hidden, c.in(1).shape[1]))
    return c.fail("h0 must be [batch, ", hidden, "], it is ", c.in(1).shape);
  set_scan_types(c);
  return {};
}
Status rnn_infer(InferContext& c) {
  Dim hidden;
  HG_TRY(check_scan(c, 1, 2, 3, hidden));
  const std::string& f = c.attrs().string("nonlinearity");
  if (f != "tanh" && f != "relu")
    return c.fail("nonlinearity is '", f, "', known are tanh and relu");
  if (differ(hidden, c.in(1).shape[1]))
    return c.fail("h0 must be [batch, ", hidden, "], it is ", c.in(1).shape);
  set_scan_types(c);
  return {};
}

Value part_of(const Value& gates, int i, const Dim& hidden) {
  return term::slice(gates, 1, hidden * i, hidden * (i + 1));
}

Value linear(const Value& x, const Value& weight, const Value& bias) {
  return x.graph()->call("linear", {x, weight, bias});
}

Value at_time(const Value& x, int64_t t) {
  return term::reshape(term::slice(x, 0, t, t + 1), {x.dim(1), x.dim(2)});
}

// One value for each time step, [batch, width] each; `like` has their type.
Value stack(const std::vector<Value>& steps, const Value& like) {
  if (steps.empty()) return term::expand(term::number(like, 0), {Dim(0), like.dim(0), like.dim(1)});
  std::vector<Value> all;
  for (const Value& v : steps) all.push_back(term::reshape(v, {Dim(1), v.dim(0), v.dim(1)}));
  return all[0].graph()->call("concat", all, {{"dim", 0}});
}

// Time steps of the first input, which must be a number to unroll the loop.
Result<int64_t> steps_of(const ExpandContext& c) {
  if (!c.in(0).dim(0).is_constant())
    return unsupported(c.attrs().op().name(), ": the number of time steps, ", c.in(0).dim(0),
                       ", must be known to unroll the loop");
  return c.in(0).dim(0).constant();
}

// step(t) in the order of the direction, or against it.
template <class Step>
void for_steps(const ExpandContext& c, int64_t time, bool back, const Step& step) {
  const bool falling = c.attrs().flag("reverse") != back;
  for (int64_t k = 0; k < time; ++k) step(falling ? time - 1 - k : k);
}

// step(gates of t, h) -> the next h, for every t in the order of the direction.
template <class Step>
Status unroll(ExpandContext& c, const Step& step) {
  HG_TRY_ASSIGN(const int64_t time, steps_of(c));
  Value h = c.in(1);
  std::vector<Value> all(static_cast<size_t>(time));
  for_steps(c, time, false, [&](int64_t t) {
    h = step(at_time(c.in(0), t), h);
    all[static_cast<size_t>(t)] = h;
  });
  c.set_out(0, stack(all, h));
  c.set_out(1, h);
  return {};
}

// i, f, g, o = gates + W h + b; c = sigmoid(f) c + sigmoid(i) tanh(g); h = W_hr sigmoid(o) tanh(c)
Status lstm_expand(ExpandContext& c) {
  Value cell = c.in(2);
  const Dim hidden = floordiv(c.in(0).dim(2), 4);
  HG_TRY(unroll(c, [&](const Value& gates, const Value& h) {
    const Value all = gates + linear(h, c.in(3), input_or_none(c, 4));
    cell = sigmoid(part_of(all, 1, hidden)) * cell +
           sigmoid(part_of(all, 0, hidden)) * tanh(part_of(all, 2, hidden));
    const Value y = sigmoid(part_of(all, 3, hidden)) * tanh(cell);
    return given(c, 5) ? linear(y, c.in(5), Value()) : y;
  }));
  c.set_out(2, cell);
  return {};
}

// r, z = sigmoid(gates + W h + b); n = tanh(gates_n + r (W_n h + b_n)); h = (1 - z) n + z h
Status gru_expand(ExpandContext& c) {
  const Dim hidden = floordiv(c.in(0).dim(2), 3);
  return unroll(c, [&](const Value& gates, const Value& h) {
    const Value back = linear(h, c.in(2), input_or_none(c, 3));
    const Value r = sigmoid(part_of(gates, 0, hidden) + part_of(back, 0, hidden));
    const Value z = sigmoid(part_of(gates, 1, hidden) + part_of(back, 1, hidden));
    const Value n = tanh(part_of(gates, 2, hidden) + r * part_of(back, 2, hidden));
    return n + z * (h - n);
  });
}

// h = tanh(gates + W h + b), or relu
Status rnn_expand(ExpandContext& c) {
  const std::string& f = c.attrs().string("nonlinearity");
  return unroll(c, [&](const Value& gates, const Value& h) {
    return term::op(f, gates + linear(h, c.in(2), input_or_none(c, 3)));
  });
}

// The states before each step, [time, batch, out].
Value states_before(const GradContext& c) {
  const Value y = c.out(0), h0 = c.in(1);
  const Value first = term::reshape(h0, {Dim(1), h0.dim(0), h0.dim(1)});
  const Value all =
      c.attrs().flag("reverse")
          ? c.graph().call("concat", {term::slice(y, 0, 1, y.dim(0)), first}, {{"dim", 0}})
          : c.graph().call("concat", {first, term::slice(y, 0, 0, y.dim(0) - 1)}, {{"dim", 0}});
  return term::reshape(all, y.shape());
}

Value dout_or_none(GradContext& c, int i) { return c.has_dout(i) ? c.dout(i) : Value(); }

// d: the gradient of W h + b of every step, with the h of `before`.
void set_weight_grads(GradContext& c, const Value& d, const Value& before, int weight, int bias) {
  const auto rows = [](const Value& x) {
    return term::reshape(x, {x.dim(0) * x.dim(1), x.dim(2)});
  };
  if (c.needs(weight))
    c.set_grad(weight, term::op("matmul", term::transpose_last(rows(d)), rows(before)));
  if (bias < c.input_count() && c.has(bias) && c.needs(bias))
    c.set_grad(bias, term::sum(rows(d), {0}));
}

bool has_no_steps(const GradContext& c) {
  return c.in(0).dim(0).is_constant() && c.in(0).dim(0).constant() == 0;
}

// Projections, and no steps at all, are left to the expansion.
Status lstm_grad(GradContext& c) {
  if (given(c, 5) || has_no_steps(c)) return {};
  const Value before = states_before(c);
  const Value gates = c.in(0) + linear(before, c.in(3), input_or_none(c, 4));
  const std::vector<Value> d = c.graph().calls(
      "lstm_scan_grad",
      {gates, c.in(2), c.in(3), dout_or_none(c, 0), dout_or_none(c, 1), dout_or_none(c, 2)},
      {{"reverse", c.attrs().flag("reverse")}});
  for (size_t i = 0; i < d.size(); ++i) c.set_grad(static_cast<int>(i), d[i]);
  if (!d.empty()) set_weight_grads(c, d[0], before, 3, 4);
  return {};
}

Status gru_grad(GradContext& c) {
  if (has_no_steps(c)) return {};
  const Value before = states_before(c);
  const Value back = linear(before, c.in(2), input_or_none(c, 3));
  const std::vector<Value> d = c.graph().calls(
      "gru_scan_grad", {c.in(0), back, before, c.in(2), dout_or_none(c, 0), dout_or_none(c, 1)},
      {{"reverse", c.attrs().flag("reverse")}});
  if (d.empty()) return {};
  c.set_grad(0, d[0]);
  c.set_grad(1, d[2]);
  set_weight_grads(c, d[1], before, 2, 3);
  return {};
}

Status rnn_grad(GradContext& c) {
  if (has_no_steps(c)) return {};
  const std::vector<Value> d = c.graph().calls(
      "rnn_scan_grad", {c.out(0), c.in(2), dout_or_none(c, 0), dout_or_none(c, 1)},
      {{"nonlinearity", c.attrs().string("nonlinearity")}, {"reverse", c.attrs().flag("reverse")}});
  if (d.empty()) return {};
  c.set_grad(0, d[0]);
  c.set_grad(1, d[1]);
  set_weight_grads(c, d[0], states_before(c), 2, 3);
  return {};
}

// x: [time, batch, count hidden], weight: [count hidden, hidden]; inputs from `states` on, where
// they are given: dy [time, batch, hidden] and then states [batch, hidden].
Status check_scan_grad(const InferContext& c, int count, int weight, int states, Dim& hidden) {
  const TensorType& x = c.in(0);
  if (!is_float(x.dtype) || x.rank() != 3 || c.in(weight).rank() != 2)
    return c.fail("expected are floats [time, batch, ", count, " hidden] and a weight [", count,
                  " hidden, hidden]: they are ", x, " and ", c.in(weight));
  hidden = floordiv(x.shape[2], count);
  if (differ(x.shape[2], c.in(weight).shape[0]) || differ(hidden, c.in(weight).shape[1]))
    return c.fail("sizes do not fit: ", x, " and the weight ", c.in(weight));
  const TensorType each = {x.dtype, {x.shape[0], x.shape[1], hidden}};
  const TensorType once = {x.dtype, {x.shape[1], hidden}};
  for (int i = states; i < c.input_count(); ++i)
    if (given(c, i) && !may_equal(c.in(i), i == states ? each : once))
      return c.fail("input ", i, " is ", c.in(i), ", not ", i == states ? each : once);
  return {};
}

Status lstm_grad_infer(InferContext& c) {
  Dim hidden;
  HG_TRY(check_scan_grad(c, 4, 2, 3, hidden));
  const TensorType& gates = c.in(0);
  c.out(0) = gates;
  c.out(1) = c.out(2) = {gates.dtype, {gates.shape[1], hidden}};
  if (!may_equal(c.in(1), c.out(1))) return c.fail("c0 is ", c.in(1), ", not ", c.out(1));
  return {};
}
Status gru_grad_infer(InferContext& c) {
  Dim hidden;
  HG_TRY(check_scan_grad(c, 3, 3, 4, hidden));
  const TensorType& gates = c.in(0);
  c.out(0) = c.out(1) = gates;
  c.out(2) = {gates.dtype, {gates.shape[1], hidden}};
  const TensorType before = {gates.dtype, {gates.shape[0], gates.shape[1], hidden}};
  if (!may_equal(c.in(1), gates) || !may_equal(c.in(2), before))
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

// What arrives at the state after step t: from the later steps, and from y.
Value arriving(const ExpandContext& c, int dy, const Value& dh, int64_t t) {
  return given(c, dy) ? dh + at_time(c.in(dy), t) : dh;
}

Value with_slope_of_sigmoid(const Value& d, const Value& s) { return d * (s - s * s); }
Value with_slope_of_tanh(const Value& d, const Value& y) { return d - d * (y * y); }

// The gradients of f16 and bf16 are those of f32, rounded once at the end; false of other types.
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

// With a the gates: do = dh tanh(c), dc += dh o (1 - tanh(c)^2), di = dc g, df = dc c', dg = dc i,
// each by the slope of its function; then dc' = dc f and dh' = da W, where ' is the step before.
Status lstm_grad_expand(ExpandContext& c) {
  if (expand_widened(c, {"reverse"})) return {};
  HG_TRY_ASSIGN(const int64_t time, steps_of(c));
  const Dim hidden = floordiv(c.in(0).dim(2), 4);
  struct Step {
    Value in, forget, fresh, out, before, cell;
  };
  std::vector<Step> steps(static_cast<size_t>(time));
  Value cell = c.in(1);
  for_steps(c, time, false, [&](int64_t t) {
    const Value gates = at_time(c.in(0), t);
    Step& s = steps[static_cast<size_t>(t)];
    s = {sigmoid(part_of(gates, 0, hidden)),
         sigmoid(part_of(gates, 1, hidden)),
         tanh(part_of(gates, 2, hidden)),
         sigmoid(part_of(gates, 3, hidden)),
         cell,
         {}};
    s.cell = cell = s.forget * cell + s.in * s.fresh;
  });
  Value dh = given_or_zero(c, 4, c.in(1).shape()), dc = given_or_zero(c, 5, c.in(1).shape());
  std::vector<Value> dgates(static_cast<size_t>(time));
  for_steps(c, time, true, [&](int64_t t) {
    const Step& s = steps[static_cast<size_t>(t)];
    const Value d = arriving(c, 3, dh, t), squashed = tanh(s.cell);
    dc = dc + with_slope_of_tanh(d * s.out, squashed);
    const std::vector<Value> parts = {
        with_slope_of_sigmoid(dc * s.fresh, s.in), with_slope_of_sigmoid(dc * s.before, s.forget),
        with_slope_of_tanh(dc * s.in, s.fresh), with_slope_of_sigmoid(d * squashed, s.out)};
    const Value da = c.graph().call("concat", parts, {{"dim", 1}});
    dgates[static_cast<size_t>(t)] = da;
    dc = dc * s.forget;
    dh = term::op("matmul", da, c.in(2));
  });
  c.set_out(0, dgates.empty() ? c.in(0) : stack(dgates, dgates[0]));
  c.set_out(1, dh);
  c.set_out(2, dc);
  return {};
}

// With u = W h' + b: dz = dh (h' - n), dn = dh (1 - z), dr = dn u_n, each by the slope of its
// function; du is da with dn r for its last part, and dh' = dh z + du W.
Status gru_grad_expand(ExpandContext& c) {
  if (expand_widened(c, {"reverse"})) return {};
  HG_TRY_ASSIGN(const int64_t time, steps_of(c));
  const Dim hidden = floordiv(c.in(0).dim(2), 3);
  Value dh = given_or_zero(c, 5, {c.in(0).dim(1), hidden});
  std::vector<Value> dgates(static_cast<size_t>(time)), dbacks(static_cast<size_t>(time));
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
    dgates[static_cast<size_t>(t)] = joined(dn);
    dbacks[static_cast<size_t>(t)] = du;
    dh = d * z + term::op("matmul", du, c.in(3));
  });
  c.set_out(0, dgates.empty() ? c.in(0) : stack(dgates, dgates[0]));
  c.set_out(1, dbacks.empty() ? c.in(1) : stack(dbacks, dbacks[0]));
  c.set_out(2, dh);
  return {};
}

// da = dh (1 - y^2), or dh where y > 0 of relu; dh' = da W.
Status rnn_grad_expand(ExpandContext& c) {
  if (expand_widened(c, {"reverse", "nonlinearity"})) return {};
  HG_TRY_ASSIGN(const int64_t time, steps_of(c));
  Value dh = given_or_zero(c, 3, {c.in(0).dim(1), c.in(0).dim(2)});
  const bool relu = c.attrs().string("nonlinearity") == "relu";
  std::vector<Value> dgates(static_cast<size_t>(time));
  for_steps(c, time, true, [&](int64_t t) {
    const Value y = at_time(c.in(0), t), d = arriving(c, 2, dh, t);
    const Value da = relu ? where(term::op("gt", y, term::number(y, 0)), d, term::full_like(d, 0))
                          : with_slope_of_tanh(d, y);
    dgates[static_cast<size_t>(t)] = da;
    dh = term::op("matmul", da, c.in(1));
  });
  c.set_out(0, dgates.empty() ? c.in(0) : stack(dgates, dgates[0]));
  c.set_out(1, dh);
  return {};
}

// The gradients times the recurrent weights, for each step.
double scan_flops(std::span<const Sizes> in, size_t weight) {
  return 2 * static_cast<double>(in[0][0] * in[0][1]) * static_cast<double>(in[weight].count());
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
    // y: [time, batch, out], h and c: the state after the last step. With reverse the steps run
    // from
    // the last to the first. weight_hr: [out, hidden] projects h.
    {.name = "lstm_scan",
     .signature =
         "lstm_scan(gates, h0, c0, weight_hh, bias_hh?, weight_hr?, reverse: bool = false) "
         "-> y, h, c",
     .infer = lstm_infer,
     .grad = lstm_grad,
     .expand = lstm_expand},
    {.name = "gru_scan",
     .signature = "gru_scan(gates, h0, weight_hh, bias_hh?, reverse: bool = false) -> y, h",
     .infer = gru_infer,
     .grad = gru_grad,
     .expand = gru_expand},
    {.name = "rnn_scan",
     .signature = "rnn_scan(gates, h0, weight_hh, bias_hh?, nonlinearity: str = \"tanh\", reverse: "
                  "bool = false) -> y, h",
     .infer = rnn_infer,
     .grad = rnn_grad,
     .expand = rnn_expand},
    // Of a scan without projection. gates: [time, batch, 4 hidden], those of the input with
    // W h + b added; dy: [time, batch, hidden], dh and dc: [batch, hidden], zeros when not given.
    {.name = "lstm_scan_grad",
     .signature = "lstm_scan_grad(gates, c0, weight_hh, dy?, dh?, dc?, reverse: bool = false) -> "
                  "dgates, dh0, dc0",
     .infer = lstm_grad_infer,
     .expand = lstm_grad_expand,
     .alias = 0b1,
     .flops = lstm_grad_flops},
    // gates: those of the input; back: W h + b of each step; before: its h.
    {.name = "gru_scan_grad",
     .signature = "gru_scan_grad(gates, back, before, weight_hh, dy?, dh?, reverse: bool = false) "
                  "-> dgates, dback, dh0",
     .infer = gru_grad_infer,
     .expand = gru_grad_expand,
     .alias = 0b1,
     .flops = gru_grad_flops},
    {.name = "rnn_scan_grad",
     .signature = "rnn_scan_grad(y, weight_hh, dy?, dh?, nonlinearity: str = \"tanh\", reverse: "
                  "bool = false) -> dgates, dh0",
     .infer = rnn_grad_infer,
     .expand = rnn_grad_expand,
     .alias = 0b1,
     .flops = rnn_grad_flops},
};

}  // namespace

std::span<const OpDef> rnn() { return kOps; }

}  // namespace hg::ops
