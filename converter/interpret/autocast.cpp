// SPDX-License-Identifier: Apache-2.0
// Follows PyTorch 2.13: the ops registered for autocast, and unregistered ops that consist of
// registered ones.
#include "converter/interpret/autocast.h"

#include <algorithm>

#include "converter/core/words.h"
#include "converter/interpret/interpreter.h"

namespace hg::convert {
namespace {

enum class Casts : uint8_t {
  lower,     // to the dtype of the region
  full,      // to f32
  widest,    // to f32 if one argument is f32, otherwise to the dtype of the region
  products,  // einsum: to the dtype of the region, if two operands are multiplied and summed
  padding,   // pad: to f32, if the op for the mode is registered
  gates,     // recurrent cell: gates in the dtype of the region, states in their own
  layer,     // LSTM: to the dtype of the region, unless it has projections
  refused,   // PyTorch casts only parts of the op's computation
};

struct Rule {
  Casts casts;
  std::string_view ops;  // names in aten, with the overload if any
};

constexpr Rule kRules[] = {
    {Casts::lower,
     "_addmm_activation _convolution.deprecated _native_multi_head_attention addbmm addmm "
     "baddbmm bmm chain_matmul conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding "
     "conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input linalg_multi_dot "
     "linalg_vecdot linear matmul mkldnn_rnn_layer mm prelu rnn_relu.input rnn_relu_cell "
     "rnn_tanh.input rnn_tanh_cell scaled_dot_product_attention tensordot"},
    {Casts::full,
     "_grid_sampler_2d_cpu_fallback _lu_with_info adaptive_avg_pool3d adaptive_max_pool3d "
     "avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits cdist cholesky "
     "cholesky_inverse cholesky_solve cosine_embedding_loss cross_entropy_loss ctc_loss.IntList "
     "ctc_loss.Tensor fake_quantize_per_tensor_affine fft_fft fft_fft2 fft_fftn fft_hfft "
     "fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 "
     "fft_rfftn fractional_max_pool2d fractional_max_pool3d geqrf grid_sampler grid_sampler_2d "
     "grid_sampler_3d hinge_embedding_loss huber_loss inverse kl_div l1_loss linalg_cholesky "
     "linalg_cholesky_ex linalg_cond linalg_cond.p_str linalg_eig linalg_eigh linalg_eigvals "
     "linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq "
     "linalg_matrix_rank linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor "
     "linalg_matrix_rank.tol_tensor linalg_qr linalg_solve linalg_svd linalg_svdvals "
     "linalg_tensorinv linalg_tensorsolve lu_solve margin_ranking_loss max_pool3d max_unpool2d "
     "max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss "
     "multilabel_margin_loss_forward nanquantile nanquantile.scalar nll_loss nll_loss2d "
     "nll_loss_nd orgqr ormqr pinverse poisson_nll_loss polar prod prod.dim_int qr quantile "
     "quantile.scalar reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d "
     "replication_pad3d smooth_l1_loss soft_margin_loss stft stft.center svd trace "
     "triangular_solve triplet_margin_loss view_as_complex"},
    {Casts::widest, "cat index_copy stack"},
    {Casts::products, "einsum"},
    {Casts::padding, "pad"},
    {Casts::gates, "gru.input gru_cell lstm_cell"},
    {Casts::layer, "lstm.input"},
    {Casts::refused,
     "corrcoef cov gru.data linalg_matrix_power lstm.data rnn_relu.data rnn_tanh.data"},
};

const Rule* rule_of(const ScriptNode& node) {
  constexpr std::string_view kAten = "aten::";
  if (!node.kind.starts_with(kAten)) return nullptr;
  std::string op = node.kind.substr(kAten.size());
  if (!node.overload.empty()) op += "." + node.overload;
  const auto at = std::find_if(std::begin(kRules), std::end(kRules),
                               [&](const Rule& rule) { return has_word(rule.ops, op); });
  return at != std::end(kRules) ? at : nullptr;
}

// Returns the tensor's dtype if autocast may change it.
std::optional<DType> castable(Memory& memory, const Item& item) {
  const auto* tensor = std::get_if<TensorRef>(&item.value);
  if (!tensor || (*tensor)->is_poisoned() || (*tensor)->is_number() || (*tensor)->is_complex())
    return std::nullopt;
  const DType dtype = memory.type(*tensor).dtype;
  return dtype == f32 || dtype == f16 || dtype == bf16 ? std::optional(dtype) : std::nullopt;
}

// Visits all arguments, and the elements of lists.
template <class Visit>
void each_item(const NodeCall& call, const Visit& visit) {
  for (int i = 0; i < call.argument_count(); ++i) {
    const Item& item = call.argument(i);
    if (!item.is_list()) {
      visit(item);
      continue;
    }
    for (const Item& element : std::get<std::shared_ptr<List>>(item.value)->items) visit(element);
  }
}

DType widest(const NodeCall& call, DType lower) {
  DType dtype = lower;
  each_item(call, [&](const Item& item) {
    const auto own = castable(call.memory(), item);
    if (own && *own != f32 && *own != lower)
      throw Refusal{
          str_cat("a region of autocast to ", lower, " has no dtype for this op on ", *own), ""};
    if (own == f32) dtype = f32;
  });
  return dtype;
}

// Returns the size of the dim that a letter denotes in one operand; nothing if the operand lacks
// it.
std::optional<Dim> size_of(std::string_view letters, char letter, const Shape& shape) {
  const size_t at = letters.find(letter), dots = letters.find("...");
  if (at == letters.npos) return std::nullopt;
  const size_t dim = at < dots ? at : shape.size() - (letters.size() - at);
  return dim < shape.size() ? std::optional(shape[dim]) : std::nullopt;
}

// PyTorch multiplies two operands with bmm if it sums a letter that both have, and with mul if
// there is no such letter or its size is 1.
bool is_summed_product(NodeCall& call) {
  const Item* tensors = call.find("tensors");
  if (!tensors || !tensors->is_list()) return false;
  const std::vector<Item>& operands = std::get<std::shared_ptr<List>>(tensors->value)->items;
  if (operands.size() < 2) return false;
  if (operands.size() > 2)
    throw Refusal{"einsum of three operands or more in a region of autocast is not supported",
                  "write it as einsums of two operands"};
  std::string equation = call.string("equation");
  std::erase(equation, ' ');
  const std::string_view all = equation, left = all.substr(0, all.find(','));
  const size_t arrow = all.find("->");
  const std::string_view right = all.substr(left.size() + 1, arrow - (left.size() + 1));
  const std::string_view result = arrow == all.npos ? "" : all.substr(arrow + 2);
  const auto shape = [&](size_t i) {
    return call.memory().type(std::get<TensorRef>(operands[i].value)).shape;
  };
  bool any = false;
  for (const char letter : left) {
    if (letter == '.' || result.find(letter) != result.npos) continue;
    const std::optional<Dim> a = size_of(left, letter, shape(0));
    const std::optional<Dim> b = size_of(right, letter, shape(1));
    const auto is_one = [&](const Dim& size) {
      return call.is_one(size, "a product of size 1 is not cast in a region of autocast", false);
    };
    any = any || (a && b && !is_one(*a) && !is_one(*b));
  }
  return any;
}

// The ops for replicate, and for reflect in one and two dims, are registered.
bool is_padded_in_full(const NodeCall& call) {
  const std::string mode = call.string("mode", "constant");
  return mode == "replicate" || (mode == "reflect" && call.integers("pad").size() <= 4);
}

// Returns the dtype in which the states of a recurrent cell stay; the results have it also.
DType dtype_of_states(NodeCall& call, DType lower) {
  const Item* states = call.find("hx");
  if (states != nullptr && states->is_list()) {
    const std::vector<Item>& items = std::get<std::shared_ptr<List>>(states->value)->items;
    states = items.empty() ? nullptr : items.data();
  }
  const auto own = states ? castable(call.memory(), *states) : std::nullopt;
  if (own != f32 && own != lower)
    throw Refusal{str_cat("a region of autocast to ", lower, " has no dtype for these states"), ""};
  return *own;
}

bool has_projections(NodeCall& call) {
  const Item* params = call.find("params");
  if (params == nullptr || !params->is_list()) return false;
  const int64_t count = std::get<std::shared_ptr<List>>(params->value)->items.size();
  const int64_t directions = call.flag("bidirectional") ? 2 : 1;
  return count > call.number("num_layers") * directions * (call.flag("has_biases") ? 4 : 2);
}

// Casts a tensor to this dtype if autocast may change it; returns other items unchanged.
Item cast_to(NodeCall& call, const Item& item, DType dtype) {
  if (item.is_list()) {
    auto list = std::make_shared<List>();
    for (const Item& element : std::get<std::shared_ptr<List>>(item.value)->items)
      list->items.push_back(cast_to(call, element, dtype));
    return Item(std::move(list));
  }
  const auto own = castable(call.memory(), item);
  if (!own || *own == dtype) return item;
  return call.environment().run_op("aten::_to_copy",
                                   {{"self", item}, {"dtype", Item(torch_of_dtype(dtype))}}, 1,
                                   call.node().origin)[0];
}

// Returns nothing if the arguments are not cast.
std::optional<Autocast> target(NodeCall& call, Casts casts, DType lower) {
  const auto to = [](DType dtype) { return std::optional(Autocast{dtype, dtype}); };
  switch (casts) {
    case Casts::lower:
      return to(lower);
    case Casts::full:
      return to(f32);
    case Casts::widest:
      return to(widest(call, lower));
    case Casts::products:
      return is_summed_product(call) ? to(lower) : std::nullopt;
    case Casts::padding:
      return is_padded_in_full(call) ? to(f32) : std::nullopt;
    case Casts::gates:
      return Autocast{lower, dtype_of_states(call, lower)};
    case Casts::layer:
      if (!has_projections(call)) return to(lower);
      break;
    case Casts::refused:
      break;
  }
  throw Refusal{"the op is cast in parts in a region of autocast, which is not supported",
                "leave it out of the region"};
}

}  // namespace

void set_autocast(ScriptNode& node, DType dtype) {
  if (!node.kind.starts_with("prim::")) node.attribute = dtype == f16 ? "f16" : "bf16";
}

std::optional<DType> autocast_of(const ScriptNode& node) {
  if (node.attribute.empty() || node.kind.starts_with("prim::")) return std::nullopt;
  return node.attribute == "f16" ? f16 : bf16;
}

std::optional<Autocast> autocast_target(NodeCall& call) {
  const std::optional<DType> lower = autocast_of(call.node());
  const Rule* rule = lower ? rule_of(call.node()) : nullptr;
  return rule ? target(call, rule->casts, *lower) : std::nullopt;
}

Item autocast(NodeCall& call, std::string_view argument, const Item& item, const Autocast& to) {
  if (to.dtype == to.computed) return cast_to(call, item, to.dtype);
  return cast_to(call, argument == "hx" ? item : cast_to(call, item, to.dtype), to.computed);
}

}  // namespace hg::convert
