// SPDX-License-Identifier: Apache-2.0
// Every op has a builder that matches its signature. A row calls the builder with all inputs and
// attributes of a sample, and then with only the required ones. The nodes equal those of
// Graph::calls.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "hg/hg.h"
#include "lib/graph/internal_op.h"
#include "tests/sample_case.h"

namespace hg::test {
namespace {

using Xs = std::vector<Value>;  // the op's inputs; Values beyond them are empty

// The attributes of a call, in the types that builders accept.
struct Args : AttrReader {
  explicit Args(const Node& node) : AttrReader(node.op, node.attrs) {}
  int n(std::string_view name) const { return static_cast<int>(integer(name).constant()); }
  std::vector<Dim> list(std::string_view name) const {
    return {integers(name).begin(), integers(name).end()};
  }
  std::vector<double> numbers(std::string_view name) const {
    return {reals(name).begin(), reals(name).end()};
  }
  std::optional<Dim> maybe_dim(std::string_view name) const {
    return has(name) ? std::optional(integer(name)) : std::nullopt;
  }
  std::optional<double> maybe_real(std::string_view name) const {
    return has(name) ? std::optional(real(name)) : std::nullopt;
  }
  Reduction reduction() const { return *parse_reduction(string("reduction")); }
  Activation activation(std::string_view name) const { return *parse_activation(string(name)); }
  Interpolation interpolation() const { return *parse_interpolation(string("mode")); }
  ScatterReduce scatter() const { return *parse_scatter_reduce(string("reduce")); }
  ConvOptions conv() const {
    return {list("stride"),         list("padding"),          list("dilation"), integer("groups"),
            list("output_padding"), activation("activation"), flag("exact")};
  }
  PoolOptions pool() const {
    PoolOptions o = {list("stride"), list("padding"), flag("ceil_mode")};
    if (op().signature.find_attribute("dilation") >= 0) o.dilation = list("dilation");
    if (op().signature.find_attribute("count_include_pad") >= 0) {
      o.count_include_pad = flag("count_include_pad");
      o.divisor_override = maybe_dim("divisor_override");
    }
    return o;
  }
  PatchOptions patches() const { return {list("dilation"), list("padding"), list("stride")}; }
  StepOptions step(const Value& accumulated, const Value& scale, const Value& go) const {
    return {accumulated,
            scale,
            go,
            n("group"),
            integer("first"),
            real("weight_decay"),
            maybe_real("clip_value"),
            flag("maximize")};
  }
};

// The inputs from `first` to the last one given.
Xs from(const Xs& x, size_t first) {
  Xs rest;
  for (size_t i = first; i < x.size() && x[i]; ++i) rest.push_back(x[i]);
  return rest;
}

using Call = void (*)(Graph& g, const Xs& x, const Args& a);
struct Row {
  std::string_view op;
  Call all;    // with every input and attribute
  Call least;  // with only the required ones
};

#define HG_CALL(...)                         \
  [](Graph& g, const Xs& x, const Args& a) { \
    (void)g, (void)x, (void)a;               \
    (void)(__VA_ARGS__);                     \
  }
#define UNARY(op) \
  { #op, HG_CALL(op(x[0])), HG_CALL(op(x[0])) }
#define BINARY(op) \
  { #op, HG_CALL(op(x[0], x[1])), HG_CALL(op(x[0], x[1])) }
#define REDUCTION(op) \
  { #op, HG_CALL(op(x[0], a.list("dim"), a.flag("keepdim"))), HG_CALL(op(x[0])) }
#define LOSS(op) \
  { #op, HG_CALL(op(x[0], x[1], a.reduction())), HG_CALL(op(x[0], x[1])) }
#define SCAN(op) \
  { #op, HG_CALL(op(x[0], a.integer("dim"))), HG_CALL(op(x[0], a.integer("dim"))) }
#define CHOICE(op) \
  { #op, HG_CALL(op(x[0], a.maybe_dim("dim"), a.flag("keepdim"))), HG_CALL(op(x[0])) }

const Row kRows[] = {
    UNARY(abs),
    UNARY(acos),
    UNARY(acosh),
    UNARY(asin),
    UNARY(asinh),
    UNARY(atan),
    UNARY(atanh),
    UNARY(bessel_i0),
    UNARY(bessel_i0e),
    UNARY(bessel_i1),
    UNARY(bessel_i1e),
    UNARY(bessel_j0),
    UNARY(bessel_j1),
    UNARY(bessel_k0),
    UNARY(bessel_k0e),
    UNARY(bessel_k1),
    UNARY(bessel_k1e),
    UNARY(bessel_y0),
    UNARY(bessel_y1),
    UNARY(bitwise_not),
    UNARY(ceil),
    UNARY(contiguous),
    UNARY(cos),
    UNARY(cosh),
    UNARY(det),
    UNARY(detach),
    UNARY(digamma),
    UNARY(erf),
    UNARY(erfc),
    UNARY(erfcx),
    UNARY(erfinv),
    UNARY(exp),
    UNARY(exp2),
    UNARY(expm1),
    UNARY(extent),
    UNARY(floor),
    UNARY(frac),
    UNARY(geqrf),
    UNARY(hardsigmoid),
    UNARY(hardswish),
    UNARY(isfinite),
    UNARY(isinf),
    UNARY(isnan),
    UNARY(ldl_factor),
    UNARY(lgamma),
    UNARY(log),
    UNARY(log10),
    UNARY(log1p),
    UNARY(log2),
    UNARY(log_sigmoid),
    UNARY(logical_not),
    UNARY(lu),
    UNARY(matrix_exp),
    UNARY(mish),
    UNARY(neg),
    UNARY(nonzero),
    UNARY(qr),
    UNARY(reciprocal),
    UNARY(relu),
    UNARY(repeat_interleave),
    UNARY(rsqrt),
    UNARY(sigmoid),
    UNARY(sign),
    UNARY(signbit),
    UNARY(silu),
    UNARY(sin),
    UNARY(sinc),
    UNARY(sinh),
    UNARY(slogdet),
    UNARY(sqrt),
    UNARY(square),
    UNARY(svd),
    UNARY(tan),
    UNARY(tanh),
    UNARY(to_integer),
    UNARY(trunc),

    BINARY(add),
    BINARY(atan2),
    BINARY(bitwise_and),
    BINARY(bitwise_left_shift),
    BINARY(bitwise_or),
    BINARY(bitwise_right_shift),
    BINARY(bitwise_xor),
    BINARY(copysign),
    BINARY(div),
    BINARY(eq),
    BINARY(floor_divide),
    BINARY(fmax),
    BINARY(fmin),
    BINARY(fmod),
    BINARY(gcd),
    BINARY(ge),
    BINARY(gt),
    BINARY(hypot),
    BINARY(igamma),
    BINARY(igammac),
    BINARY(isin),
    BINARY(lcm),
    BINARY(le),
    BINARY(logaddexp),
    BINARY(logical_and),
    BINARY(logical_or),
    BINARY(logical_xor),
    BINARY(lt),
    BINARY(matmul),
    BINARY(maximum),
    BINARY(minimum),
    BINARY(mul),
    BINARY(ne),
    BINARY(nextafter),
    BINARY(pow),
    BINARY(prelu),
    BINARY(remainder),
    BINARY(solve),
    BINARY(sub),
    BINARY(trunc_divide),
    BINARY(xlogy),
    BINARY(zeta),

    REDUCTION(all),
    REDUCTION(amax),
    REDUCTION(amin),
    REDUCTION(any),
    REDUCTION(logsumexp),
    REDUCTION(mean),
    REDUCTION(prod),
    REDUCTION(sum),
    LOSS(l1_loss),
    LOSS(mse_loss),
    LOSS(multilabel_margin_loss),
    LOSS(soft_margin_loss),
    SCAN(cummax),
    SCAN(cummin),
    SCAN(cumprod),
    SCAN(cumsum),
    SCAN(logcumsumexp),
    CHOICE(argmax),
    CHOICE(argmin),
    CHOICE(max),
    CHOICE(median),
    CHOICE(min),
    CHOICE(nanmedian),

    {"adam_step",
     HG_CALL(adam_step(x[0], x[1], x[2], x[5], x[6], x[7],
                       {x[3], a.real("beta1"), a.real("beta2"), a.real("eps"), a.flag("decoupled")},
                       a.step(x[4], x[8], x[9]))),
     HG_CALL(adam_step(x[0], x[1], x[2], x[5], x[6], x[7]))},
    {"adaptive_avg_pool", HG_CALL(adaptive_avg_pool(x[0], a.list("output_size"))),
     HG_CALL(adaptive_avg_pool(x[0], a.list("output_size")))},
    {"adaptive_max_pool", HG_CALL(adaptive_max_pool(x[0], a.list("output_size"))),
     HG_CALL(adaptive_max_pool(x[0], a.list("output_size")))},
    {"arange",
     HG_CALL(arange(g, a.integer("start"), a.integer("end"), a.integer("step"), a.dtype("dtype"))),
     HG_CALL(arange(g, a.integer("end")))},
    {"as_strided",
     HG_CALL(as_strided(x[0], a.list("size"), a.list("stride"), a.integer("storage_offset"))),
     HG_CALL(as_strided(x[0], a.list("size"), a.list("stride")))},
    {"as_strided_scatter",
     HG_CALL(as_strided_scatter(x[0], x[1], a.list("size"), a.list("stride"),
                                a.integer("storage_offset"))),
     HG_CALL(as_strided_scatter(x[0], x[1], a.list("size"), a.list("stride")))},
    {"assert_true", HG_CALL(assert_true(x[0], a.string("message"))),
     HG_CALL(assert_true(x[0], a.string("message")))},
    {"attention",
     HG_CALL(attention(x[0], x[1], x[2], x[3], a.flag("causal"), a.maybe_real("scale"))),
     HG_CALL(attention(x[0], x[1], x[2]))},
    {"avg_pool", HG_CALL(avg_pool(x[0], a.list("kernel_size"), a.pool())),
     HG_CALL(avg_pool(x[0], a.list("kernel_size")))},
    {"batch_norm",
     HG_CALL(batch_norm(x[0], x[1], x[2], x[3], x[4], a.flag("training"), a.real("momentum"),
                        a.real("eps"))),
     HG_CALL(batch_norm(x[0], x[1], x[2], x[3], x[4]))},
    {"binary_cross_entropy", HG_CALL(binary_cross_entropy(x[0], x[1], x[2], a.reduction())),
     HG_CALL(binary_cross_entropy(x[0], x[1]))},
    {"binary_cross_entropy_with_logits",
     HG_CALL(binary_cross_entropy_with_logits(x[0], x[1], x[2], x[3], a.reduction())),
     HG_CALL(binary_cross_entropy_with_logits(x[0], x[1]))},
    {"bincount", HG_CALL(bincount(x[0], x[1], a.integer("minlength"))), HG_CALL(bincount(x[0]))},
    {"cast", HG_CALL(cast(x[0], a.dtype("dtype"))), HG_CALL(cast(x[0], a.dtype("dtype")))},
    {"cdist", HG_CALL(cdist(x[0], x[1], a.real("p"))), HG_CALL(cdist(x[0], x[1]))},
    {"cholesky", HG_CALL(cholesky(x[0], a.flag("upper"))), HG_CALL(cholesky(x[0]))},
    {"clamp", HG_CALL(clamp(x[0], x[1], x[2])), HG_CALL(clamp(x[0], x[1], x[2]))},
    {"col2im", HG_CALL(col2im(x[0], a.list("output_size"), a.list("kernel_size"), a.patches())),
     HG_CALL(col2im(x[0], a.list("output_size"), a.list("kernel_size")))},
    {"concat", HG_CALL(concat(from(x, 0), a.n("dim"))), HG_CALL(concat(from(x, 0)))},
    {"conv",
     HG_CALL(a.flag("transposed") ? conv_transposed(x[0], x[1], x[2], a.conv(), x[3])
                                  : conv(x[0], x[1], x[2], a.conv(), x[3])),
     HG_CALL(conv(x[0], x[1]))},
    {"cosine_embedding_loss",
     HG_CALL(cosine_embedding_loss(x[0], x[1], x[2], a.real("margin"), a.reduction())),
     HG_CALL(cosine_embedding_loss(x[0], x[1], x[2]))},
    {"cosine_similarity", HG_CALL(cosine_similarity(x[0], x[1], a.n("dim"), a.real("eps"))),
     HG_CALL(cosine_similarity(x[0], x[1]))},
    {"cross_entropy",
     HG_CALL(cross_entropy(
         x[0], x[1],
         {x[2], a.integer("ignore_index").constant(), a.real("label_smoothing"), a.reduction()})),
     HG_CALL(cross_entropy(x[0], x[1]))},
    {"ctc_loss",
     HG_CALL(ctc_loss(x[0], x[1], x[2], x[3], a.integer("blank"), a.flag("zero_infinity"))),
     HG_CALL(ctc_loss(x[0], x[1], x[2], x[3]))},
    {"deform_conv2d",
     HG_CALL(deform_conv2d(x[0], x[1], x[2], x[3], x[4],
                           {a.list("stride"), a.list("padding"), a.list("dilation"),
                            a.integer("groups")})),
     HG_CALL(deform_conv2d(x[0], x[1], x[2]))},
    {"diagonal", HG_CALL(diagonal(x[0], a.integer("offset"), a.n("dim1"), a.n("dim2"))),
     HG_CALL(diagonal(x[0]))},
    {"diagonal_scatter",
     HG_CALL(diagonal_scatter(x[0], x[1], a.integer("offset"), a.n("dim1"), a.n("dim2"))),
     HG_CALL(diagonal_scatter(x[0], x[1]))},
    {"dims", HG_CALL(dims(g, a.list("values"))), HG_CALL(dims(g, a.list("values")))},
    {"dropout",
     HG_CALL(dropout(x[0], a.real("p"), a.flag("training"), a.flag("channels"), a.n("stream"))),
     HG_CALL(dropout(x[0]))},
    {"eig", HG_CALL(eig(x[0], a.flag("complex"))), HG_CALL(eig(x[0]))},
    {"eigvals", HG_CALL(eigvals(x[0], a.flag("complex"))), HG_CALL(eigvals(x[0]))},
    {"eigh", HG_CALL(eigh(x[0], a.flag("upper"))), HG_CALL(eigh(x[0]))},
    {"elu", HG_CALL(elu(x[0], a.real("alpha"), a.real("scale"), a.real("input_scale"))),
     HG_CALL(elu(x[0]))},
    {"embedding",
     HG_CALL(embedding(x[0], x[1], a.integer("padding_idx"), a.flag("scale_grad_by_freq"))),
     HG_CALL(embedding(x[0], x[1]))},
    {"expand", HG_CALL(expand(x[0], a.list("shape"))), HG_CALL(expand(x[0], a.list("shape")))},
    {"eye", HG_CALL(eye(g, a.integer("n"), a.integer("m"), a.dtype("dtype"))),
     HG_CALL(eye(g, a.integer("n"), a.integer("m")))},
    {"fft", HG_CALL(fft(x[0], a.n("dim"), a.flag("inverse"), *parse_fft_norm(a.string("norm")))),
     HG_CALL(fft(x[0], a.n("dim")))},
    {"flip", HG_CALL(flip(x[0], a.list("dims"))), HG_CALL(flip(x[0], a.list("dims")))},
    {"full", HG_CALL(full(g, a.list("shape"), a.real("value"), a.dtype("dtype"))),
     HG_CALL(full(g, a.list("shape"), a.real("value")))},
    {"gather", HG_CALL(gather(x[0], x[1], a.n("dim"))), HG_CALL(gather(x[0], x[1], a.n("dim")))},
    {"gelu", HG_CALL(gelu(x[0], *parse_gelu_approximation(a.string("approximate")))),
     HG_CALL(gelu(x[0]))},
    {"glu", HG_CALL(glu(x[0], a.n("dim"))), HG_CALL(glu(x[0]))},
    {"grid_sample",
     HG_CALL(grid_sample(x[0], x[1], a.interpolation(),
                         *parse_grid_padding(a.string("padding_mode")), a.flag("align_corners"))),
     HG_CALL(grid_sample(x[0], x[1]))},
    {"group_norm", HG_CALL(group_norm(x[0], a.integer("groups"), x[1], x[2], a.real("eps"))),
     HG_CALL(group_norm(x[0], a.integer("groups")))},
    {"matmul_integer", HG_CALL(matmul_integer(x[0], x[1], {x[2], x[3], x[4], x[5], x[6]})),
     HG_CALL(matmul_integer(x[0], x[1]))},
    {"conv_integer",
     HG_CALL(conv_integer(
         x[0], x[1], {x[2], x[3], x[4], x[5], x[6]},
         {a.list("stride"), a.list("padding"), a.list("dilation"), a.integer("groups")})),
     HG_CALL(conv_integer(x[0], x[1]))},
    {"grouped_mm", HG_CALL(grouped_mm(x[0], x[1], x[2])), HG_CALL(grouped_mm(x[0], x[1], x[2]))},
    {"gru_scan", HG_CALL(gru_scan(x[0], x[1], x[2], x[3], a.flag("reverse"))),
     HG_CALL(gru_scan(x[0], x[1], x[2]))},
    {"hardshrink", HG_CALL(hardshrink(x[0], a.real("lambd"))), HG_CALL(hardshrink(x[0]))},
    {"hardtanh", HG_CALL(hardtanh(x[0], a.real("min_val"), a.real("max_val"))),
     HG_CALL(hardtanh(x[0]))},
    {"hinge_embedding_loss",
     HG_CALL(hinge_embedding_loss(x[0], x[1], a.real("margin"), a.reduction())),
     HG_CALL(hinge_embedding_loss(x[0], x[1]))},
    {"histc", HG_CALL(histc(x[0], a.integer("bins"), a.real("min"), a.real("max"))),
     HG_CALL(histc(x[0]))},
    {"huber_loss", HG_CALL(huber_loss(x[0], x[1], a.real("delta"), a.reduction())),
     HG_CALL(huber_loss(x[0], x[1]))},
    {"im2col", HG_CALL(im2col(x[0], a.list("kernel_size"), a.patches())),
     HG_CALL(im2col(x[0], a.list("kernel_size")))},
    {"index", HG_CALL(index(x[0], from(x, 1))), HG_CALL(index(x[0], from(x, 1)))},
    {"index_put", HG_CALL(index_put(x[0], x[1], from(x, 2), a.flag("accumulate"))),
     HG_CALL(index_put(x[0], x[1], from(x, 2)))},
    {"index_reduce",
     HG_CALL(index_reduce(x[0], x[1], x[2], a.n("dim"), a.scatter(), a.flag("include_self"))),
     HG_CALL(index_reduce(x[0], x[1], x[2], a.n("dim")))},
    {"index_select", HG_CALL(index_select(x[0], x[1], a.n("dim"))),
     HG_CALL(index_select(x[0], x[1], a.n("dim")))},
    {"interpolate",
     HG_CALL(interpolate(x[0], a.list("size"), a.interpolation(), a.flag("align_corners"),
                         a.flag("antialias"), a.numbers("scales"))),
     HG_CALL(interpolate(x[0], a.list("size")))},
    {"kl_div", HG_CALL(kl_div(x[0], x[1], a.flag("log_target"), a.reduction())),
     HG_CALL(kl_div(x[0], x[1]))},
    {"kthvalue", HG_CALL(kthvalue(x[0], a.integer("k"), a.integer("dim"), a.flag("keepdim"))),
     HG_CALL(kthvalue(x[0], a.integer("k")))},
    {"layer_norm", HG_CALL(layer_norm(x[0], a.list("normalized_shape"), x[1], x[2], a.real("eps"))),
     HG_CALL(layer_norm(x[0], a.list("normalized_shape")))},
    {"leaky_relu", HG_CALL(leaky_relu(x[0], a.real("negative_slope"))), HG_CALL(leaky_relu(x[0]))},
    {"lerp", HG_CALL(lerp(x[0], x[1], x[2])), HG_CALL(lerp(x[0], x[1], x[2]))},
    {"linear", HG_CALL(linear(x[0], x[1], x[2], x[3], a.activation("activation"))),
     HG_CALL(linear(x[0], x[1]))},
    {"ldl_solve", HG_CALL(ldl_solve(x[0], x[1], x[2])), HG_CALL(ldl_solve(x[0], x[1], x[2]))},
    {"linspace",
     HG_CALL(linspace(g, a.real("start"), a.real("end"), a.integer("steps"), a.dtype("dtype"))),
     HG_CALL(linspace(g, a.real("start"), a.real("end"), a.integer("steps")))},
    {"log_softmax", HG_CALL(log_softmax(x[0], a.n("dim"))), HG_CALL(log_softmax(x[0]))},
    {"logit", HG_CALL(logit(x[0], a.maybe_real("eps"))), HG_CALL(logit(x[0]))},
    {"lstm_scan", HG_CALL(lstm_scan(x[0], x[1], x[2], x[3], x[4], x[5], a.flag("reverse"))),
     HG_CALL(lstm_scan(x[0], x[1], x[2], x[3]))},
    {"lu_rows", HG_CALL(lu_rows(x[0], a.integer("n"))), HG_CALL(lu_rows(x[0], a.integer("n")))},
    {"margin_ranking_loss",
     HG_CALL(margin_ranking_loss(x[0], x[1], x[2], a.real("margin"), a.reduction())),
     HG_CALL(margin_ranking_loss(x[0], x[1], x[2]))},
    {"masked_scatter", HG_CALL(masked_scatter(x[0], x[1], x[2])),
     HG_CALL(masked_scatter(x[0], x[1], x[2]))},
    {"max_pool", HG_CALL(max_pool(x[0], a.list("kernel_size"), a.pool())),
     HG_CALL(max_pool(x[0], a.list("kernel_size")))},
    {"max_pool_with_indices", HG_CALL(max_pool_with_indices(x[0], a.list("kernel_size"), a.pool())),
     HG_CALL(max_pool_with_indices(x[0], a.list("kernel_size")))},
    {"mode", HG_CALL(mode(x[0], a.integer("dim"), a.flag("keepdim"))), HG_CALL(mode(x[0]))},
    {"multi_margin_loss",
     HG_CALL(multi_margin_loss(x[0], x[1], x[2], a.real("p"), a.real("margin"), a.reduction())),
     HG_CALL(multi_margin_loss(x[0], x[1]))},
    {"nan_to_num",
     HG_CALL(nan_to_num(x[0], a.real("nan"), a.maybe_real("posinf"), a.maybe_real("neginf"))),
     HG_CALL(nan_to_num(x[0]))},
    {"nll_loss",
     HG_CALL(nll_loss(x[0], x[1], x[2], a.integer("ignore_index").constant(), a.reduction())),
     HG_CALL(nll_loss(x[0], x[1]))},
    {"nms", HG_CALL(nms(x[0], x[1], a.real("iou_threshold"), x[2], x[3])),
     HG_CALL(nms(x[0], x[1]))},
    {"norm", HG_CALL(norm(x[0], a.real("ord"), a.list("dim"), a.flag("keepdim"))),
     HG_CALL(norm(x[0]))},
    {"one_hot", HG_CALL(one_hot(x[0], a.integer("num_classes"))), HG_CALL(one_hot(x[0]))},
    {"pad", HG_CALL(pad(x[0], a.list("pads"), *parse_pad_mode(a.string("mode")), a.real("value"))),
     HG_CALL(pad(x[0], a.list("pads")))},
    {"pairwise_distance",
     HG_CALL(pairwise_distance(x[0], x[1], a.real("p"), a.real("eps"), a.flag("keepdim"))),
     HG_CALL(pairwise_distance(x[0], x[1]))},
    {"permute", HG_CALL(permute(x[0], a.list("dims"))), HG_CALL(permute(x[0], a.list("dims")))},
    {"pinv", HG_CALL(pinv(x[0], x[1], a.flag("hermitian"))), HG_CALL(pinv(x[0], x[1]))},
    {"poisson_nll_loss",
     HG_CALL(poisson_nll_loss(x[0], x[1], a.flag("log_input"), a.flag("full"), a.real("eps"),
                              a.reduction())),
     HG_CALL(poisson_nll_loss(x[0], x[1]))},
    {"polygamma", HG_CALL(polygamma(x[0], a.integer("n"))),
     HG_CALL(polygamma(x[0], a.integer("n")))},
    {"polynomial", HG_CALL(polynomial(x[0], x[1], *parse_polynomial_kind(a.string("kind")))),
     HG_CALL(polynomial(x[0], x[1], *parse_polynomial_kind(a.string("kind"))))},
    {"rand", HG_CALL(rand(g, a.list("shape"), a.dtype("dtype"), a.n("stream"))),
     HG_CALL(rand(g, a.list("shape")))},
    {"randn", HG_CALL(randn(g, a.list("shape"), a.dtype("dtype"), a.n("stream"))),
     HG_CALL(randn(g, a.list("shape")))},
    {"repeat", HG_CALL(repeat(x[0], a.list("repeats"))), HG_CALL(repeat(x[0], a.list("repeats")))},
    {"reshape", HG_CALL(reshape(x[0], a.list("shape"))), HG_CALL(reshape(x[0], a.list("shape")))},
    {"rms_norm", HG_CALL(rms_norm(x[0], a.list("normalized_shape"), x[1], a.real("eps"))),
     HG_CALL(rms_norm(x[0], a.list("normalized_shape")))},
    {"rmsprop_step",
     HG_CALL(rmsprop_step(x[0], x[1], x[5], x[6], x[7],
                          {x[2], x[3], a.real("alpha"), a.real("eps"), a.real("momentum")},
                          a.step(x[4], x[8], x[9]))),
     HG_CALL(rmsprop_step(x[0], x[1], x[5], x[6], x[7]))},
    {"rnn_scan",
     HG_CALL(rnn_scan(x[0], x[1], x[2], x[3], a.activation("nonlinearity"), a.flag("reverse"))),
     HG_CALL(rnn_scan(x[0], x[1], x[2]))},
    {"roi_align",
     HG_CALL(roi_align(x[0], x[1], a.list("output_size"), a.real("spatial_scale"),
                       a.n("sampling_ratio"), a.flag("aligned"), a.string("mode"))),
     HG_CALL(roi_align(x[0], x[1], a.list("output_size")))},
    {"roi_pool", HG_CALL(roi_pool(x[0], x[1], a.list("output_size"), a.real("spatial_scale"))),
     HG_CALL(roi_pool(x[0], x[1], a.list("output_size")))},
    {"roll", HG_CALL(roll(x[0], a.list("shifts"), a.list("dims"))),
     HG_CALL(roll(x[0], a.list("shifts"), a.list("dims")))},
    {"rope", HG_CALL(rope(x[0], x[1], x[2])), HG_CALL(rope(x[0], x[1], x[2]))},
    {"round", HG_CALL(round(x[0], a.integer("decimals").constant())), HG_CALL(round(x[0]))},
    {"scatter", HG_CALL(scatter(x[0], x[1], x[2], a.n("dim"), a.scatter(), a.flag("include_self"))),
     HG_CALL(scatter(x[0], x[1], x[2], a.n("dim")))},
    {"searchsorted", HG_CALL(searchsorted(x[0], x[1], a.flag("right"))),
     HG_CALL(searchsorted(x[0], x[1]))},
    {"sgd_step",
     HG_CALL(sgd_step(x[0], x[3], x[4], x[5],
                      {x[1], a.real("momentum"), a.real("dampening"), a.flag("nesterov")},
                      a.step(x[2], x[6], x[7]))),
     HG_CALL(sgd_step(x[0], x[3], x[4], x[5]))},
    {"slice",
     HG_CALL(slice(x[0], a.n("dim"), a.integer("start"), a.integer("end"), a.integer("step"))),
     HG_CALL(slice(x[0], a.n("dim"), a.integer("start"), a.integer("end")))},
    {"slice_scatter",
     HG_CALL(slice_scatter(x[0], x[1], a.n("dim"), a.integer("start"), a.integer("end"),
                           a.integer("step"))),
     HG_CALL(slice_scatter(x[0], x[1], a.n("dim"), a.integer("start"), a.integer("end")))},
    {"smooth_l1_loss", HG_CALL(smooth_l1_loss(x[0], x[1], a.real("beta"), a.reduction())),
     HG_CALL(smooth_l1_loss(x[0], x[1]))},
    {"softmax", HG_CALL(softmax(x[0], a.n("dim"))), HG_CALL(softmax(x[0]))},
    {"softplus", HG_CALL(softplus(x[0], a.real("beta"), a.real("threshold"))),
     HG_CALL(softplus(x[0]))},
    {"softshrink", HG_CALL(softshrink(x[0], a.real("lambd"))), HG_CALL(softshrink(x[0]))},
    {"solve_triangular",
     HG_CALL(solve_triangular(x[0], x[1], a.flag("upper"), a.flag("unitriangular"))),
     HG_CALL(solve_triangular(x[0], x[1], a.flag("upper")))},
    {"sort", HG_CALL(sort(x[0], a.integer("dim"), a.flag("descending"))), HG_CALL(sort(x[0]))},
    {"std", HG_CALL(stddev(x[0], a.list("dim"), a.real("correction"), a.flag("keepdim"))),
     HG_CALL(stddev(x[0]))},
    {"threshold", HG_CALL(threshold(x[0], a.real("threshold"), a.real("value"))),
     HG_CALL(threshold(x[0], a.real("threshold"), a.real("value")))},
    {"topk", HG_CALL(topk(x[0], a.integer("k"), a.integer("dim"), a.flag("largest"))),
     HG_CALL(topk(x[0], a.integer("k")))},
    {"tree_leaves", HG_CALL(tree_leaves(x[0], x[1], x[2], x[3])),
     HG_CALL(tree_leaves(x[0], x[1], x[2], x[3]))},
    {"tril", HG_CALL(tril(x[0], a.integer("diagonal"))), HG_CALL(tril(x[0]))},
    {"triplet_margin_loss",
     HG_CALL(triplet_margin_loss(
         x[0], x[1], x[2],
         {a.real("margin"), a.real("p"), a.real("eps"), a.flag("swap"), a.reduction()})),
     HG_CALL(triplet_margin_loss(x[0], x[1], x[2]))},
    {"triu", HG_CALL(triu(x[0], a.integer("diagonal"))), HG_CALL(triu(x[0]))},
    {"unfold", HG_CALL(unfold(x[0], a.n("dim"), a.integer("size"), a.integer("step"))),
     HG_CALL(unfold(x[0], a.n("dim"), a.integer("size"), a.integer("step")))},
    {"unique", HG_CALL(unique(x[0], a.maybe_dim("dim"), a.flag("consecutive"))),
     HG_CALL(unique(x[0]))},
    {"var", HG_CALL(var(x[0], a.list("dim"), a.real("correction"), a.flag("keepdim"))),
     HG_CALL(var(x[0]))},
    {"view_dtype", HG_CALL(view_dtype(x[0], a.dtype("dtype"))),
     HG_CALL(view_dtype(x[0], a.dtype("dtype")))},
    {"where", HG_CALL(where(x[0], x[1], x[2])), HG_CALL(where(x[0], x[1], x[2]))},
};

const Row* row_of(std::string_view op) {
  for (const Row& row : kRows)
    if (row.op == op) return &row;
  return nullptr;
}

// How a node made by a builder differs from the expected one.
std::string difference(const Node& made, const Node& expected) {
  if (made.op != expected.op) return str_cat("it is ", made.op->name());
  if (made.inputs != expected.inputs) return "its inputs are others";
  const auto& attributes = expected.op->signature.attributes;
  for (size_t i = 0; i < attributes.size(); ++i)
    if (!(made.attrs[i] == expected.attrs[i]))
      return str_cat(attributes[i].name, " is ", made.attrs[i], ", not ", expected.attrs[i]);
  return "";
}

// Compares the call of a builder, made in a copy of the graph, with the graph's last node.
std::string held_against(const Graph& with_node, const Graph& before, Call build) {
  const Node& expected = with_node.nodes().back();
  Graph g = before;
  Xs x;
  for (const ValueId id : expected.inputs) x.push_back(id == kNoValue ? Value() : Value(&g, id));
  x.resize(std::max<size_t>(x.size(), 12));
  const size_t nodes = g.nodes().size();
  build(g, x, Args(expected));
  if (!g.status().ok()) return std::string(g.status().message());
  if (g.nodes().size() != nodes + 1) return "it makes more than one node";
  return difference(g.nodes().back(), expected);
}

Attr default_of(const Signature::Attribute& attribute) { return attribute.fallback; }

// The attribute with another value.
Attr changed(const Attr& attr) {
  if (const bool* flag = std::get_if<bool>(&attr.value)) return Attr(!*flag);
  if (const Dim* dim = std::get_if<Dim>(&attr.value)) return Attr(*dim + 1);
  if (const double* real = std::get_if<double>(&attr.value)) return Attr(*real + 0.25);
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value)) {
    std::vector<Dim> more = *dims;
    for (Dim& dim : more) dim = dim + 1;
    return Attr(more);
  }
  return attr;
}

// What has been compared for one op.
struct Held {
  bool least = false;
  std::set<std::string> attributes;  // attributes that differed from their defaults
};

class Holder {
 public:
  void hold(const Sample& sample, DType floats) {
    const Result<std::unique_ptr<Case>> c = build(sample, floats);
    if (!c.ok()) return;
    const Row* const row = row_of(sample.op);
    if (row == nullptr) return;
    Held& held = held_[std::string(sample.op)];
    Graph before;
    for (const Input& input : (*c)->inputs)
      before.input(input.name, input.data.tensor.dtype, to_shape(input.data.tensor.shape));
    std::vector<Value> arguments;
    for (const int at : (*c)->input_of)
      arguments.push_back(at < 0 ? Value() : before.value(before.inputs()[at]));
    NamedAttrs attrs;
    const Node& node = (*c)->graph.nodes()[(*c)->node];
    const auto& attributes = node.op->signature.attributes;
    for (size_t i = 0; i < attributes.size(); ++i)
      attrs.push_back({attributes[i].name, node.attrs[i]});
    hold_all(*row, before, arguments, attrs, held);
    for (NamedAttr& attr : attrs) {
      const Attr kept = attr.value;
      attr.value = changed(kept);
      if (!(attr.value == kept)) hold_all(*row, before, arguments, attrs, held);
      attr.value = kept;
    }
    hold_least(*row, before, arguments, attrs, held);
  }
  const std::map<std::string, Held>& held() const { return held_; }

 private:
  // A call that the op rejects is not compared.
  void hold_all(const Row& row, const Graph& before, const std::vector<Value>& arguments,
                const NamedAttrs& attrs, Held& held) {
    Graph g = before;
    const Op& op = *g.registry().find(row.op);
    g.calls(row.op, moved(g, arguments), attrs);
    if (!g.status().ok()) return;
    const std::string wrong = held_against(g, before, row.all);
    EXPECT_EQ(wrong, "") << row.op;
    for (size_t i = 0; i < attrs.size(); ++i)
      if (op.signature.attributes[i].required ||
          !(g.nodes().back().attrs[i] == default_of(op.signature.attributes[i])))
        held.attributes.insert(op.signature.attributes[i].name);
  }
  // Adds one of the optional inputs for ops that need it.
  void hold_least(const Row& row, const Graph& before, const std::vector<Value>& arguments,
                  const NamedAttrs& attrs, Held& held) {
    const Signature& signature = before.registry().find(row.op)->signature;
    NamedAttrs required;
    for (size_t i = 0; i < attrs.size(); ++i)
      if (signature.attributes[i].required) required.push_back(attrs[i]);
    std::vector<Value> few = arguments;
    for (size_t i = 0; i < few.size() && i < signature.inputs.size(); ++i)
      if (signature.inputs[i].optional) few[i] = {};
    Graph g = before;
    g.calls(row.op, moved(g, few), required);
    if (g.status().ok()) {
      held.least = true;
      EXPECT_EQ(held_against(g, before, row.least), "") << row.op << " with what must be given";
      return;
    }
    g = before;
    g.calls(row.op, moved(g, arguments), required);
    held.least |= g.status().ok() && held_against(g, before, row.least).empty();
  }
  static std::vector<Value> moved(Graph& g, const std::vector<Value>& values) {
    std::vector<Value> there;
    for (const Value& value : values) there.push_back(value ? Value(&g, value.id()) : Value());
    return there;
  }
  std::map<std::string, Held> held_;
};

TEST(Builders, SayWhatTheSignaturesSay) {
  Holder holder;
  std::map<std::string_view, int> seen;
  for (const Sample& sample : all_samples()) {
    holder.hold(sample, f32);
    if (sample.has_floats() && ++seen[sample.op] < 3) holder.hold(sample, f64);
  }
  std::string without_builder, never_short, never_varied;
  for (const Op* op : Registry::built_in().ops()) {
    if (op->def.traits & (kInternal | kControl | kComplex)) continue;  // the last two: below
    const auto found = holder.held().find(std::string(op->name()));
    if (row_of(op->name()) == nullptr || found == holder.held().end()) {
      without_builder += str_cat(" ", op->name());
      continue;
    }
    if (!found->second.least) never_short += str_cat(" ", op->name());
    for (const Signature::Attribute& attribute : op->signature.attributes)
      if (!found->second.attributes.contains(attribute.name))
        never_varied += str_cat(" ", op->name(), ".", attribute.name);
  }
  EXPECT_EQ(without_builder, "")
      << "add a builder to hg/ops/ and a row here, or the trait kInternal";
  EXPECT_EQ(never_short, "") << "no sample does with what must be given";
  EXPECT_EQ(never_varied, "") << "no sample gives anything but the default";
}

TEST(Builders, RowsAreOfOpsThatPeopleUse) {
  for (const Row& row : kRows) {
    const Op* const op = Registry::built_in().find(row.op);
    ASSERT_NE(op, nullptr) << row.op;
    EXPECT_EQ(op->def.traits & kInternal, 0u) << row.op;
  }
}

// Builders without a sample: complex tensors and control flow bodies.
TEST(Builders, OfComplexTensorsAndControlFlow) {
  std::set<std::string_view> built;
  Graph g;
  const auto last = [&] { built.insert(g.nodes().back().op->name()); };
  view_as_real(g.input("c", c64, {2}));
  last();
  view_as_complex(g.input("r", f32, {2, 2}));
  last();
  const auto same = [](Graph&, std::span<const Value> xs) { return Xs(xs.begin(), xs.end()); };
  cond(g.input("p", boolean, {}), {g.input("x", f32, {"n"})}, same, same);
  last();
  while_loop(
      {g.input("i", i64, {})}, {},
      [](Graph&, std::span<const Value> xs) { return Xs{lt(xs[0], number_like(xs[0], 3))}; },
      [](Graph&, std::span<const Value> xs) { return Xs{xs[0] + 1}; });
  last();
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  for (const Op* op : Registry::built_in().ops())
    if (op->def.traits & (kControl | kComplex)) {
      EXPECT_TRUE(built.contains(op->name())) << op->name();
    }
}

}  // namespace
}  // namespace hg::test
