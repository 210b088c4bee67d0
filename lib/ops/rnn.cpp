// SPDX-License-Identifier: Apache-2.0
// The recurrent part of one direction of one layer. The input part, x W_ih^T + b_ih, is a preceding
// linear. Expansions unroll the loop; gradients are the ops of rnn_grad.cpp.
#include "lib/ops/rnn.h"

#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// gates: [time, batch, count * hidden], h0: [batch, out], weight_hh: [count * hidden, out],
// bias_hh: [count * hidden]
Status check_scan(const InferContext& c, int count, int weight, int bias, Dim& hidden) {
  const TensorType &gates = c.in(0), &h0 = c.in(1), &w = c.in(weight);
  if (!is_float(gates.dtype)) return c.fail("gates must be a float tensor, but is ", gates.dtype);
  for (int i = 1; i < c.input_count(); ++i)
    if (c.has(i) && c.in(i).dtype != gates.dtype)
      return c.fail("gates is ", gates.dtype, ", input ", i, " is ", c.in(i).dtype);
  if (gates.rank() != 3 || h0.rank() != 2 || w.rank() != 2)
    return c.fail("gates must be [time, batch, ", count,
                  " hidden], h0 [batch, out] and weight_hh [", count, " hidden, out]: they are ",
                  gates.shape, ", ", h0.shape, " and ", w.shape);
  if (!c.require_equal(gates.shape[1], h0.shape[0]) ||
      !c.require_equal(gates.shape[2], w.shape[0]) || !c.require_equal(w.shape[1], h0.shape[1]))
    return c.fail("sizes do not fit: gates is ", gates.shape, ", h0 is ", h0.shape,
                  ", weight_hh is ", w.shape);
  hidden = floordiv(gates.shape[2], count);
  if (!c.require_equal(hidden * count, gates.shape[2]))
    return c.fail("gates is ", gates.shape, ", but must be [time, batch, ", count, " hidden]");
  if (given(c, bias) &&
      (c.in(bias).rank() != 1 || !c.require_equal(c.in(bias).shape[0], gates.shape[2])))
    return c.fail("bias_hh must be [", gates.shape[2], "], but is ", c.in(bias).shape);
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
  if (c0.rank() != 2 || !c.require_equal(c0.shape[1], hidden) ||
      !c.require_equal(c0.shape[0], c.in(1).shape[0]))
    return c.fail("c0 must be [batch, ", hidden, "], but is ", c0.shape);
  if (given(c, 5)) {
    const TensorType& p = c.in(5);
    if (p.rank() != 2 || !c.require_equal(p.shape[0], c.in(1).shape[1]) ||
        !c.require_equal(p.shape[1], hidden))
      return c.fail("weight_hr must be [", c.in(1).shape[1], ", ", hidden, "], but is ", p.shape);
  } else if (!c.require_equal(hidden, c.in(1).shape[1])) {
    return c.fail("h0 must be [batch, ", hidden, "], but is ", c.in(1).shape);
  }
  set_scan_types(c);
  c.out(2) = c0;
  return {};
}
Status gru_infer(InferContext& c) {
  Dim hidden;
  HG_TRY(check_scan(c, 3, 2, 3, hidden));
  if (!c.require_equal(hidden, c.in(1).shape[1]))
    return c.fail("h0 must be [batch, ", hidden, "], but is ", c.in(1).shape);
  set_scan_types(c);
  return {};
}
Status rnn_infer(InferContext& c) {
  Dim hidden;
  HG_TRY(check_scan(c, 1, 2, 3, hidden));
  const std::string& f = c.attrs().string("nonlinearity");
  if (f != "tanh" && f != "relu") return c.fail("nonlinearity is '", f, "', expected tanh or relu");
  if (!c.require_equal(hidden, c.in(1).shape[1]))
    return c.fail("h0 must be [batch, ", hidden, "], but is ", c.in(1).shape);
  set_scan_types(c);
  return {};
}

// Calls step(gates of t, h), which returns the next h, for every t in the order of the direction.
template <class Step>
Status unroll(ExpandContext& c, const Step& step) {
  HG_TRY_ASSIGN(const int64_t time, steps_of(c));
  Value h = c.in(1);
  std::vector<Value> all(time);
  for_steps(c, time, false, [&](int64_t t) {
    h = step(at_time(c.in(0), t), h);
    all[t] = h;
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

Value rows_of_steps(const Value& x) { return term::reshape(x, {x.dim(0) * x.dim(1), x.dim(2)}); }

// d: the gradient of W h + b at every step; `before` holds the h of each step.
void set_weight_grads(GradContext& c, const Value& d, const Value& before, int weight, int bias) {
  if (c.needs(weight))
    c.set_grad(weight,
               term::op("matmul", term::transpose_last(rows_of_steps(d)), rows_of_steps(before)));
  if (bias < c.input_count() && c.has(bias) && c.needs(bias))
    c.set_grad(bias, hg::sum(rows_of_steps(d), {0}));
}

bool has_no_steps(const GradContext& c) {
  return c.in(0).dim(0).is_constant() && c.in(0).dim(0).constant() == 0;
}

// The expansion handles sequences without steps. A projection, h = W_hr u, becomes part of the
// weight: u reaches the gates of the next step by W_hh W_hr, and the gradient of h reaches u by
// W_hr.
Status lstm_grad(GradContext& c) {
  if (has_no_steps(c)) return {};
  const bool projects = given(c, 5), reverse = c.attrs().flag("reverse");
  const Value before = states_before(c), cell = c.in(2), weight = c.in(3);
  const Value gates = c.in(0) + linear(before, weight, input_or_none(c, 4));
  const auto at_u = [&](const Value& v) {
    return v && projects ? term::op("matmul", v, c.in(5)) : v;
  };
  const Value dy = dout_or_none(c, 0), dh = dout_or_none(c, 1);
  const std::vector<Value> d = c.graph().calls(
      "lstm_scan_grad", {gates, cell, at_u(weight), at_u(dy), at_u(dh), dout_or_none(c, 2)},
      {{"reverse", reverse}});
  if (d.empty()) return {};
  c.set_grad(0, d[0]);
  c.set_grad(1, d[1]);
  c.set_grad(2, d[2]);
  set_weight_grads(c, d[0], before, 3, 4);
  if (!projects) return {};
  // The gradient of h at each step: dy plus the gates of the next step times W_hh.
  const Value back = term::op("matmul", d[0], weight);  // [time, batch, out]
  const Dim time = back.dim(0), first = reverse ? time - 1 : Dim(0);
  c.set_grad(1, term::reshape(term::slice(back, 0, first, first + 1), {back.dim(1), back.dim(2)}));
  if (!c.needs(5)) return {};
  const Value last = dh ? dh : term::full_like(c.in(1), 0);
  const std::vector<Value> later = {
      term::slice(back, 0, reverse ? Dim(0) : Dim(1), reverse ? time - 1 : time),
      term::reshape(last, {Dim(1), last.dim(0), last.dim(1)})};
  const Value shifted =
      c.graph().call("concat", reverse ? std::vector{later[1], later[0]} : later, {{"dim", 0}});
  const Value at_h = dy ? dy + term::reshape(shifted, dy.shape()) : shifted;
  // u is recomputed by a scan without a weight, whose gates are complete.
  const Value none = term::full_like(at_u(weight), 0);
  const std::vector<Value> again = c.graph().calls(
      "lstm_scan", {gates, term::full_like(cell, 0), cell, none}, {{"reverse", reverse}});
  if (!again.empty())
    c.set_grad(
        5, term::op("matmul", term::transpose_last(rows_of_steps(at_h)), rows_of_steps(again[0])));
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

double lstm_flops(std::span<const Sizes> in, std::span<const Sizes>, const AttrReader&) {
  return scan_flops(in, 3);
}
double gru_or_rnn_flops(std::span<const Sizes> in, std::span<const Sizes>, const AttrReader&) {
  return scan_flops(in, 2);
}

// One direction of one recurrent layer.
constexpr OpDef kOps[] = {
    // The layer without the input projection: gates = x W_ih^T + b_ih, [time, batch, gates *
    // hidden], in torch's order: input, forget, cell, output.
    //
    // - h0, c0: [batch, hidden]; weight_hh: [gates * hidden, hidden]; bias_hh: [gates * hidden].
    // - y: [time, batch, hidden]; h, c: [batch, hidden] after the last step.
    // - reverse: runs from the last step to the first.
    // - weight_hr: [out, hidden] projects h from `hidden` to `out` elements, which h0 and weight_hh
    //   then have.
    // C++: RnnOutput lstm_scan
    {.signature =
         "lstm_scan(gates, h0, c0, weight_hh, bias_hh?, weight_hr?, reverse: bool = false) "
         "-> y, h, c",
     .infer = lstm_infer,
     .grad = lstm_grad,
     .expand = lstm_expand,
     .traits = kScan,
     .flops = lstm_flops},
    // lstm_scan for gates in torch's order: reset, update, new.
    // C++: RnnOutput gru_scan
    {.signature = "gru_scan(gates, h0, weight_hh, bias_hh?, reverse: bool = false) -> y, h",
     .infer = gru_infer,
     .grad = gru_grad,
     .expand = gru_expand,
     .traits = kScan,
     .flops = gru_or_rnn_flops},
    // lstm_scan for one gate. nonlinearity: tanh or relu.
    // C++: RnnOutput rnn_scan
    {.signature = "rnn_scan(gates, h0, weight_hh, bias_hh?, nonlinearity: str = \"tanh\", reverse: "
                  "bool = false) -> y, h",
     .infer = rnn_infer,
     .grad = rnn_grad,
     .expand = rnn_expand,
     .traits = kScan,
     .flops = gru_or_rnn_flops},
};

}  // namespace

std::span<const OpDef> rnn() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
