// SPDX-License-Identifier: Apache-2.0
// The defaults of aten's schemas in PyTorch 2.13. An in-place op and the `_copy` of a view have the
// defaults of the op that they are named after. For dtype, layout, device, pin_memory,
// memory_format and generator the default None is not listed, because rows treat None as not given.
// tests/converter/exported/defaults.py compares the table with libtorch.
#include "converter/load/exported/aten_defaults.h"

#include <algorithm>
#include <charconv>
#include <memory>

#include "converter/core/words.h"
#include "hg/status.h"

namespace hg::convert {
namespace {

struct Defaults {
  std::string_view arguments, ops;  // names in aten, with the overload if any
};

// clang-format off
constexpr Defaults kDefaults[] = {
    {"alpha=1", "add.Scalar add.Tensor index_add rsub.Scalar rsub.Tensor sub.Scalar sub.Tensor subtract.Scalar subtract.Tensor"},
    {"beta=1, alpha=1", "addbmm addmm addmm.dtype addmv addr baddbmm baddbmm.dtype"},
    {"value=1", "addcdiv addcmul"},
    {"beta=1, alpha=1, use_gelu=False", "_addmm_activation"},
    {"keepdim=False",
     "all.dim any.dim frobenius_norm.dim logsumexp max.dim mean.dim median.dim min.dim nanmedian.dim norm.ScalarOpt_dim prod.dim_int "
     "special_logsumexp sum.dim_IntList"},
    {"dim=None, keepdim=False", "all.dims aminmax any.dims argmax argmin linalg_norm.ord_str nanmean nansum"},
    {"dim=[], keepdim=False", "amax amin"},
    {"step=1", "arange.start_step"},
    {"dim=-1, descending=False", "argsort argsort.stable sort sort.stable"},
    {"storage_offset=None", "as_strided as_strided_scatter"},
    {"size=None, stride=None", "_assert_tensor_metadata"},
    {"stride=[], padding=[0], ceil_mode=False, count_include_pad=True", "avg_pool1d"},
    {"stride=[], padding=[0, 0], ceil_mode=False, count_include_pad=True, divisor_override=None", "avg_pool2d"},
    {"stride=[], padding=[0, 0, 0], ceil_mode=False, count_include_pad=True, divisor_override=None", "avg_pool3d"},
    {"p=0.5", "bernoulli_.float"},
    {"bias=None", "bilinear linear"},
    {"weight=None, reduction=1", "binary_cross_entropy"},
    {"weight=None, pos_weight=None, reduction=1", "binary_cross_entropy_with_logits"},
    {"weights=None, minlength=0", "bincount"},
    {"out_int32=False, right=False", "bucketize.Scalar bucketize.Tensor"},
    {"non_blocking=False", "_cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _to_copy copy"},
    {"median=0.0, sigma=1.0", "cauchy"},
    {"p=2.0, compute_mode=None", "cdist"},
    {"alpha=1.0", "celu"},
    {"upper=False", "cholesky cholesky_inverse cholesky_solve linalg_cholesky"},
    {"min=None, max=None", "clamp clamp.Tensor clip clip.Tensor"},
    {"r=2, with_replacement=False", "combinations"},
    {"value=0", "constant_pad_nd"},
    {"memory_format=0", "contiguous"},
    {"bias=None, stride=[1], padding=[0], dilation=[1], groups=1", "conv1d"},
    {"bias=None, stride=[1], padding='valid', dilation=[1], groups=1", "conv1d.padding"},
    {"bias=None, stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1", "conv2d"},
    {"bias=None, stride=[1, 1], padding='valid', dilation=[1, 1], groups=1", "conv2d.padding"},
    {"bias=None, stride=[1, 1, 1], padding=[0, 0, 0], dilation=[1, 1, 1], groups=1", "conv3d"},
    {"bias=None, stride=[1, 1, 1], padding='valid', dilation=[1, 1, 1], groups=1", "conv3d.padding"},
    {"pad=0", "conv_tbc"},
    {"bias=None, stride=[1], padding=[0], output_padding=[0], groups=1, dilation=[1]", "conv_transpose1d"},
    {"bias=None, stride=[1, 1], padding=[0, 0], output_padding=[0, 0], groups=1, dilation=[1, 1]", "conv_transpose2d.input"},
    {"bias=None, stride=[1, 1, 1], padding=[0, 0, 0], output_padding=[0, 0, 0], groups=1, dilation=[1, 1, 1]", "conv_transpose3d.input"},
    {"margin=0.0, reduction=1", "cosine_embedding_loss margin_ranking_loss"},
    {"dim=1, eps=1e-08", "cosine_similarity"},
    {"dim=None", "count_nonzero cross fft_fftshift fft_ifftshift take_along_dim"},
    {"correction=1, fweights=None, aweights=None", "cov"},
    {"weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0", "cross_entropy_loss"},
    {"blank=0, reduction=1, zero_infinity=False", "ctc_loss.IntList ctc_loss.Tensor"},
    {"dx=1, dim=-1", "cumulative_trapezoid.dx trapezoid.dx"},
    {"dim=-1", "cumulative_trapezoid.x glu linalg_cross linalg_vecdot trapezoid.x trapz.x"},
    {"diagonal=0", "diag tril triu"},
    {"offset=0, dim1=-2, dim2=-1", "diag_embed linalg_diagonal"},
    {"offset=0", "diagflat"},
    {"offset=0, dim1=0, dim2=1", "diagonal diagonal_scatter"},
    {"n=1, dim=-1, prepend=None, append=None", "diff"},
    {"p=2", "dist norm.Scalar"},
    {"path=None", "einsum"},
    {"alpha=1, scale=1, input_scale=1", "elu"},
    {"padding_idx=-1, scale_grad_by_freq=False, sparse=False", "embedding"},
    {"scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=-1",
     "_embedding_bag _embedding_bag_forward_only"},
    {"scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, include_last_offset=False", "embedding_bag"},
    {"implicit=False", "expand"},
    {"wrap=False", "fill_diagonal_"},
    {"lambd=1.0", "exponential"},
    {"n=None, dim=-1, norm=None", "fft_fft fft_hfft fft_ifft fft_ihfft fft_irfft fft_rfft"},
    {"s=None, dim=[-2, -1], norm=None", "fft_fft2 fft_hfft2 fft_ifft2 fft_ihfft2 fft_irfft2 fft_rfft2"},
    {"d=1.0", "fft_fftfreq fft_rfftfreq"},
    {"s=None, dim=None, norm=None", "fft_fftn fft_hfftn fft_ifftn fft_ihfftn fft_irfftn fft_rfftn"},
    {"start_dim=0, end_dim=-1", "flatten.using_ints"},
    {"sparse_grad=False", "gather"},
    {"approximate='none'", "gelu"},
    {"edge_order=1", "gradient.array gradient.scalararray gradient.scalarrayarray gradient.tensorarray"},
    {"spacing=None, dim=None, edge_order=1", "gradient.scalarint"},
    {"dim=None, edge_order=1", "gradient.scalarrayint gradient.tensorarrayint"},
    {"weight=None, bias=None, eps=1e-05, cudnn_enabled=True", "group_norm"},
    {"offs=None, bias=None, out_dtype=None", "_grouped_mm"},
    {"b_ih=None, b_hh=None", "gru_cell lstm_cell rnn_relu_cell rnn_tanh_cell"},
    {"lambd=0.5", "hardshrink softshrink"},
    {"min_val=-1, max_val=1", "hardtanh"},
    {"margin=1.0, reduction=1", "hinge_embedding_loss"},
    {"bins=100, min=0, max=0", "histc"},
    {"range=None, weight=None, density=False", "histogramdd histogramdd.int_bins histogramdd.TensorList_bins"},
    {"bins=100, range=None, weight=None, density=False", "histogram.bin_ct"},
    {"weight=None, density=False", "histogram.bins_tensor"},
    {"reduction=1, delta=1.0", "huber_loss"},
    {"accumulate=False, unsafe=False", "_index_put_impl"},
    {"include_self=True", "index_reduce scatter_reduce.two"},
    {"rtol=1e-05, atol=1e-08, equal_nan=False", "isclose"},
    {"assume_unique=False, invert=False", "isin.Scalar_Tensor isin.Tensor_Scalar isin.Tensor_Tensor"},
    {"hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None, length=None, return_complex=False",
     "istft"},
    {"reduction=1, log_target=False", "kl_div"},
    {"dim=-1, keepdim=False", "kthvalue mode"},
    {"reduction=1", "l1_loss mse_loss multilabel_margin_loss soft_margin_loss"},
    {"weight=None, bias=None, eps=1e-05, cudnn_enable=True", "layer_norm"},
    {"negative_slope=0.01", "leaky_relu"},
    {"upper=False, check_errors=False", "linalg_cholesky_ex"},
    {"p=None", "linalg_cond"},
    {"UPLO='L', compute_v=True", "_linalg_eigh"},
    {"UPLO='L'", "linalg_eigh linalg_eigvalsh"},
    {"check_errors=False", "linalg_inv_ex"},
    {"hermitian=False",
     "linalg_ldl_factor linalg_ldl_solve linalg_matrix_rank linalg_matrix_rank.tol_tensor linalg_pinv linalg_pinv.rcond_tensor"},
    {"hermitian=False, check_errors=False", "linalg_ldl_factor_ex"},
    {"rcond=None, driver=None", "linalg_lstsq"},
    {"pivot=True", "linalg_lu linalg_lu_factor"},
    {"pivot=True, check_errors=False", "linalg_lu_factor_ex"},
    {"left=True, adjoint=False", "linalg_lu_solve"},
    {"dim=[-2, -1], keepdim=False", "linalg_matrix_norm"},
    {"ord='fro', dim=[-2, -1], keepdim=False", "linalg_matrix_norm.str_ord"},
    {"atol=None, rtol=None, hermitian=False",
     "linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor linalg_pinv.atol_rtol_float linalg_pinv.atol_rtol_tensor"},
    {"ord=None, dim=None, keepdim=False", "linalg_norm"},
    {"mode='reduced'", "linalg_qr"},
    {"left=True", "linalg_solve"},
    {"left=True, check_errors=False", "_linalg_solve_ex linalg_solve_ex"},
    {"left=True, unitriangular=False", "linalg_solve_triangular"},
    {"full_matrices=False, compute_uv=True, driver=None", "_linalg_svd"},
    {"full_matrices=True, driver=None", "linalg_svd"},
    {"driver=None", "linalg_svdvals"},
    {"ind=2", "linalg_tensorinv"},
    {"dims=None", "linalg_tensorsolve"},
    {"N=None", "linalg_vander"},
    {"N=None, increasing=False", "vander"},
    {"ord=2, dim=None, keepdim=False", "linalg_vector_norm"},
    {"mean=1.0, std=2.0", "log_normal"},
    {"eps=None", "logit special_logit"},
    {"base=10.0", "logspace logspace.Scalar_Tensor logspace.Tensor_Scalar logspace.Tensor_Tensor"},
    {"unpack_data=True, unpack_pivots=True", "lu_unpack"},
    {"pivot=True, check_errors=True", "_lu_with_info"},
    {"stride=[], padding=[0], dilation=[1], ceil_mode=False", "max_pool1d max_pool1d_with_indices"},
    {"stride=[], padding=[0, 0], dilation=[1, 1], ceil_mode=False", "max_pool2d max_pool2d_with_indices mkldnn_max_pool2d"},
    {"stride=[], padding=[0, 0, 0], dilation=[1, 1, 1], ceil_mode=False", "max_pool3d max_pool3d_with_indices"},
    {"p=1, margin=1, weight=None, reduction=1", "multi_margin_loss"},
    {"replacement=False", "multinomial"},
    {"nan=None, posinf=None, neginf=None", "nan_to_num"},
    {"dim=None, keepdim=False, interpolation='linear'", "nanquantile nanquantile.scalar quantile quantile.scalar"},
    {"mask=None, need_weights=True, average_attn_weights=True, mask_type=None", "_native_multi_head_attention"},
    {"mask_check=True", "_nested_tensor_from_mask"},
    {"output_size=None", "nested_to_padded_tensor repeat_interleave.Tensor to_padded_tensor"},
    {"weight=None, reduction=1, ignore_index=-100", "nll_loss nll_loss2d nll_loss_nd"},
    {"batch_first=False, padding_value=0.0, padding_side='right'", "pad_sequence"},
    {"fill_value=-1", "nonzero_static"},
    {"pow=2, dim=0", "norm_except_dim"},
    {"std=1.0", "normal.Tensor_float"},
    {"mean=0.0, std=1.0", "normal_ normal_functional"},
    {"num_classes=-1", "one_hot"},
    {"left=True, transpose=False", "ormqr"},
    {"mode='constant', value=None", "pad"},
    {"value=None", "_pad_enum"},
    {"p=2.0, eps=1e-06, keepdim=False", "pairwise_distance"},
    {"p=2.0", "_pdist_forward pdist"},
    {"rcond=1e-15", "pinverse"},
    {"some=True", "qr"},
    {"dtype=4", "randint randint.generator randint.low randint.low_generator randperm randperm.generator"},
    {"dim=None, output_size=None", "repeat_interleave.self_Tensor repeat_interleave.self_int"},
    {"requires_grad=True", "requires_grad_"},
    {"weight=None, eps=None", "rms_norm"},
    {"dims=[]", "roll"},
    {"k=1, dims=[0, 1]", "rot90"},
    {"lower=0.125, upper=0.3333333333333333, training=False", "rrelu rrelu_with_noise_functional"},
    {"attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False", "scaled_dot_product_attention"},
    {"attn_mask=None, dropout_p=0.0, is_causal=False, dropout_mask=None, scale=None, enable_gqa=False",
     "_scaled_dot_product_attention_math"},
    {"dropout_p=0.0, is_causal=False, attn_mask=None, scale=None", "_scaled_dot_product_flash_attention_for_cpu"},
    {"out_int32=False, right=False, side=None, sorter=None", "searchsorted.Scalar searchsorted.Tensor"},
    {"lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None", "segment_reduce"},
    {"dim=0, start=None, end=None, step=1", "slice.Tensor slice_scatter"},
    {"bias=None, stride=[1, 1, 1], padding=[0, 0, 0]", "slow_conv3d"},
    {"bias=None, stride=[1, 1], padding=[0, 0], dilation=[1, 1]", "slow_conv_dilated2d"},
    {"bias=None, stride=[1, 1, 1], padding=[0, 0, 0], dilation=[1, 1, 1]", "slow_conv_dilated3d"},
    {"bias=None, stride=[1, 1], padding=[0, 0], output_padding=[0, 0], dilation=[1, 1]", "slow_conv_transpose2d"},
    {"bias=None, stride=[1, 1, 1], padding=[0, 0, 0], output_padding=[0, 0, 0], dilation=[1, 1, 1]", "slow_conv_transpose3d"},
    {"reduction=1, beta=1.0", "smooth_l1_loss"},
    {"beta=1, threshold=20", "softplus"},
    {"reverse=False", "sort.Tensor"},
    {"decimals=0", "special_round"},
    {"dim=0",
     "_stack _weight_norm _weight_norm_interface cat chunk concat concatenate split split.Tensor split.sizes split_with_sizes stack "
     "tensor_split.indices tensor_split.sections tensor_split.tensor_indices_or_sections unbind.int unsafe_chunk unsafe_split.Tensor "
     "unsafe_split_with_sizes"},
    {"unbiased=True", "std std_mean var var_mean"},
    {"dim=None, correction=None, keepdim=False", "std.correction std_mean.correction var.correction var_mean.correction"},
    {"unbiased=True, keepdim=False", "std.dim std_mean.dim var.dim var_mean.dim"},
    {"hop_length=None, win_length=None, window=None, normalized=False, onesided=None, return_complex=None, align_to_window=None", "stft"},
    {"hop_length=None, win_length=None, window=None, center=True, pad_mode='reflect', normalized=False, onesided=None, return_complex=None, align_to_window=None",
     "stft.center"},
    {"some=True, compute_uv=True", "svd"},
    {"requires_grad=False", "tensor"},
    {"bias=None, stride=[1, 1], padding=[0, 0]", "thnn_conv2d"},
    {"non_blocking=False, copy=False", "to.device to.dtype to.dtype_layout to.other to.prim_Device to.prim_dtype to.prim_other"},
    {"masked_grad=None", "to_dense"},
    {"dim=-1, largest=True, sorted=True", "topk"},
    {"mask=None, mask_type=None", "_transformer_encoder_layer_fwd"},
    {"dx=1.0, dim=-1", "trapz.dx"},
    {"upper=True, transpose=False, unitriangular=False", "triangular_solve"},
    {"offset=0, dtype=4", "tril_indices triu_indices"},
    {"margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=1", "triplet_margin_loss"},
    {"from=0.0, to=1.0", "uniform"},
    {"sorted=True, return_inverse=False", "_unique"},
    {"sorted=True, return_inverse=False, return_counts=False", "_unique2 unique_dim"},
    {"return_inverse=False, return_counts=False, dim=None", "unique_consecutive"},
    {"accumulate=False", "_unsafe_index_put index_put put"},
    {"scales_h=None, scales_w=None",
     "_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact2d upsample_bicubic2d upsample_bilinear2d upsample_nearest2d"},
    {"scales=None", "_upsample_nearest_exact1d upsample_linear1d upsample_nearest1d"},
    {"scales_d=None, scales_h=None, scales_w=None", "_upsample_nearest_exact3d upsample_nearest3d upsample_trilinear3d"},
};
// clang-format on

// Parses one value of the table: None, True, 1, 1e-05, 'none', [1, 1].
Item value_of(std::string_view word) {
  if (word == "None") return Item();
  if (word == "True" || word == "False") return word == "True";
  if (word.starts_with('\'')) return std::string(word.substr(1, word.size() - 2));
  if (word.starts_with('[')) {
    auto list = std::make_shared<List>();
    word = word.substr(1, word.size() - 2);
    while (!word.empty()) {
      const size_t comma = std::min(word.find(", "), word.size());
      list->items.push_back(value_of(word.substr(0, comma)));
      word.remove_prefix(std::min(comma + 2, word.size()));
    }
    return list;
  }
  if (word.find_first_of(".en") == word.npos) {
    int64_t number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number);
    return number;
  }
  double number = 0;
  std::from_chars(word.data(), word.data() + word.size(), number);
  return number;
}

std::vector<std::pair<std::string, Item>> parsed(std::string_view arguments) {
  std::vector<std::pair<std::string, Item>> result;
  while (!arguments.empty()) {
    const size_t equals = arguments.find('=');
    const bool list = arguments[equals + 1] == '[';
    size_t end = arguments.find(list ? "]" : ",", equals);
    end = std::min(end == arguments.npos ? end : end + (list ? 1 : 0), arguments.size());
    result.emplace_back(std::string(arguments.substr(0, equals)),
                        value_of(arguments.substr(equals + 1, end - equals - 1)));
    arguments.remove_prefix(std::min(end + 2, arguments.size()));
  }
  return result;
}

}  // namespace

std::vector<std::pair<std::string, Item>> aten_defaults(std::string_view kind,
                                                        std::string_view overload) {
  constexpr std::string_view kAten = "aten::";
  if (!kind.starts_with(kAten)) return {};
  kind.remove_prefix(kAten.size());
  for (const std::string_view ending : {"", "_", "_copy"}) {
    if (!kind.ends_with(ending)) continue;
    std::string op(kind.substr(0, kind.size() - ending.size()));
    if (!overload.empty()) op += str_cat(".", overload);
    for (const Defaults& row : kDefaults)
      if (has_word(row.ops, op)) return parsed(row.arguments);
  }
  return {};
}

}  // namespace hg::convert
