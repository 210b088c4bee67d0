# SPDX-License-Identifier: Apache-2.0
"""Texts of single layer calls on images x, y: f32[2,4,n,m], whose results may have any shape."""
from __future__ import annotations

import re

from scope import Scope

# F: torch.nn.functional; w(4, 2): weights of these sizes; names in braces: one of CHOICES.
TEXTS = """F.interpolate(x, scale_factor={scale}, mode="nearest"); F.interpolate(x, scale_factor={scale}, mode="bilinear", align_corners={b})
F.interpolate(x, scale_factor={scale}, mode="bicubic", align_corners={b}); F.interpolate(x, scale_factor={scale}, mode="area"); F.interpolate(x, scale_factor={scale}, mode="nearest-exact")
F.interpolate(x, size=[5, 7], mode={mode}); F.interpolate(x, size=[x.size(2) * 2, x.size(3) + 1], mode={mode}); F.interpolate(x, size=[1, x.size(3)], mode={mode})
F.interpolate(x, scale_factor=[2.0, 0.5], mode="bilinear"); F.interpolate(x, scale_factor={scale}, mode="bilinear", recompute_scale_factor=True); F.interpolate(x, size=[5, 4], mode="bilinear", antialias=True)
F.interpolate(x.flatten(2), scale_factor={scale}, mode="linear", align_corners={b}); F.interpolate(x.flatten(2), size=x.size(2) + 3); F.interpolate(x.unsqueeze(2), scale_factor={scale}, mode="trilinear")
F.conv2d(x, w(4, 4, 3, 3), None, {s}, {i}, {s}); F.conv2d(x, w(8, 2, 3, 2), w(8), [1, {s}], [{i}, 0], 1, 2); F.conv2d(x, w(4, 1, 3, 3), None, {s}, {i}, {s}, 4); F.conv2d(x, w(3, 4, 1, 1), w(3), {s})
F.conv2d(x, w(4, 4, 2, 3), padding="same"); F.conv2d(x, w(4, 4, 3, 3), padding="same", dilation=2); F.conv2d(x, w(4, 4, 2, 2), padding="valid", stride={s}); F.conv1d(x.flatten(2), w(6, 2, 3), w(6), {s}, {i}, {s}, 2)
F.conv_transpose2d(x, w(4, 3, 3, 3), None, 2, {i}, {j}); F.conv_transpose2d(x, w(4, 2, 2, 3), w(4), {s}, 0, 0, 2); F.conv_transpose2d(x, w(4, 4, 3, 3), None, 2, 1, 1, 1, 2); F.conv_transpose1d(x.flatten(2), w(4, 2, 4), None, 2, 1)
F.conv3d(x.unsqueeze(1), w(2, 1, 2, 2, 2), None, 1, {i}); F.avg_pool2d(x, 2, ceil_mode={b}); F.avg_pool2d(x, 3, 2, 1, {b}, {c}); F.avg_pool2d(x, [2, 3], [1, 2], [1, 0], {b}, {c}); F.avg_pool2d(x, 2, 1, 0, {b}, True, 3)
F.avg_pool1d(x.flatten(2), 3, 2, 1, {b}, {c}); F.max_pool2d(x, 2, ceil_mode={b}); F.max_pool2d(x, 3, 2, 1, 1, {b}); F.max_pool2d(x, 2, 1, 1, 2, {b}); F.max_pool2d(x, 2, {s}, 0, 1, {b}, True); F.max_pool1d(x.flatten(2), 2, 3, 1, 1, {b})
F.adaptive_avg_pool2d(x, [3, 2]); F.adaptive_avg_pool2d(x, 1); F.adaptive_max_pool2d(x, [2, 3]); F.adaptive_max_pool2d(x, 2, True); F.adaptive_avg_pool1d(x.flatten(2), 5); F.lp_pool2d(x.abs(), 2.0, 2, {s}, {b}); F.lp_pool1d(x.flatten(2).abs(), 1.0, 3, 2, {b})
F.unfold(x, 2, 1, {i}, {s}); F.unfold(x, [2, 1], 2, 0, 1); F.fold(F.unfold(x, 2, 1, 1), [x.size(2), x.size(3)], 2, 1, 1); F.pixel_shuffle(x, 2); F.pixel_unshuffle(F.pad(x, [0, x.size(3), 0, x.size(2)]), 2); F.channel_shuffle(x, 2)
F.pad(x, [{i}, 1, 0, {j}], "reflect"); F.pad(x, [1, {i}, {j}, 1], "replicate"); F.pad(x, [1, {i}, {j}, 0], "circular"); F.pad(x, [-1, {i}, 1, -1]); F.pad(x, [1, -1], value=2.5); F.pad(x, [0, 0, 0, 0, {i}, 1], value=-1.0); F.pad(x.flatten(2), [1, 1], "reflect")
F.grid_sample(x, (y[:, :2].permute(0, 2, 3, 1) / 4), {grid}, {padding}, {b}); F.affine_grid(torch.ones(2, 2, 3), [2, 4, x.size(2), x.size(3)], {b}); F.local_response_norm(x, 3); F.group_norm(x, 2); F.instance_norm(x)
F.scaled_dot_product_attention(x, y, x); F.scaled_dot_product_attention(x, y, y, is_causal=True); F.scaled_dot_product_attention(x, torch.cat([y, x], 2), torch.cat([x, y], 2), is_causal=True); F.scaled_dot_product_attention(x, y, x, scale=0.3)
F.scaled_dot_product_attention(x, y, y, (x @ y.mT) > -3); F.scaled_dot_product_attention(x, y, y, (x @ y.mT) * 0.1); F.scaled_dot_product_attention(x, y, y, ((x @ y.mT) > 0)[:, :1]); F.scaled_dot_product_attention(x[:, :, :1], y, y)
torch.view_as_real(torch.fft.rfft(x, norm={norm})); torch.view_as_real(torch.fft.fft2(x, norm={norm})); torch.fft.irfft(torch.fft.rfft(x)); torch.fft.irfft(torch.fft.rfft(x), n=5, norm={norm}); torch.view_as_real(torch.fft.rfft(x, n={n}, dim=2)); torch.fft.irfft2(torch.fft.rfft2(x), s=[x.size(2), x.size(3)])
torch.fft.hfft(torch.complex(x, y), norm={norm}); torch.fft.ihfft(x, norm={norm}).abs(); torch.view_as_real(torch.fft.fftn(x, dim=[1, 2])); torch.view_as_real(torch.fft.ifft(torch.complex(x, y), n={n})); torch.fft.fftshift(x); torch.fft.ifftshift(x, [2, 3])
torch.view_as_real(torch.stft(x.flatten(1), 4, 2, center={b}, return_complex=True)); torch.view_as_real(torch.stft(x.flatten(1), 8, 3, 4, torch.ones(4), {b}, "reflect", True, {c}, True)); torch.istft(torch.stft(x.flatten(1), 4, 1, return_complex=True), 4, 1)
torch.einsum("bchw,bkhw->bck", x, y); torch.einsum("bchw,bchv->bwv", x, y); torch.einsum("bchw->wb", x); torch.einsum("...hw,...vw->...hv", x, y); torch.einsum("bchw,ck->bkhw", x, w(4, 3)); torch.einsum("bchw,bchw->", x, y); torch.einsum("bchw,w->hb", x, y[0, 0, 0])
torch.cdist(x, y, {p}); torch.cdist(x, torch.cat([y, y], 2)); x.norm({p}, [1, 2]); x.norm({p}, [-1], True); torch.linalg.norm(x, {p}, dim=1); torch.linalg.vector_norm(x, {p}); torch.linalg.matrix_norm(x); torch.linalg.vector_norm(x, {p}, [0, 2], True); F.pairwise_distance(x, y, {p}); F.cosine_similarity(x, y, 1)
F.embedding((y.long().abs() % 7), w(7, 3)); F.embedding((y.long().abs() % 7), w(7, 3), 2); F.one_hot(y.long().abs() % 5, 6); F.one_hot(y.long().abs() % 5); F.embedding_bag((y.long().abs() % 7).flatten(1), w(7, 3), mode={bag}); torch.bincount((y.long().abs() % 7).flatten(), minlength=9)
F.cross_entropy(x, y[:, 0].long().abs() % 4, reduction={r}); F.cross_entropy(x, y[:, 0].long().abs() % 4, w(4).abs(), ignore_index=1, reduction={r}, label_smoothing=0.1); F.cross_entropy(x, y.softmax(1), reduction={r}); F.nll_loss(x.log_softmax(1), y[:, 0].long().abs() % 4, ignore_index=2, reduction={r})
F.kl_div(x.log_softmax(1), y.softmax(1), reduction={r}); F.kl_div(x.log_softmax(1), y.log_softmax(1), reduction="batchmean", log_target=True); F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction={r}); F.binary_cross_entropy_with_logits(x, y.sigmoid(), w(1), pos_weight=w(1).abs(), reduction={r})
F.huber_loss(x, y, {r}, 0.5); F.smooth_l1_loss(x, y, reduction={r}, beta=0.0); F.smooth_l1_loss(x, y, reduction={r}, beta=2.0); F.soft_margin_loss(x, y.sign(), reduction={r}); F.hinge_embedding_loss(x, y.sign() + (y == 0), reduction={r}); F.poisson_nll_loss(x, y.abs(), reduction={r})
F.margin_ranking_loss(x, y, y.sign(), 0.5, reduction={r}); F.triplet_margin_loss(x, y, x * 0.5, reduction={r}); F.multilabel_soft_margin_loss(x.flatten(1), (y.flatten(1) > 0).float(), reduction={r}); F.multi_margin_loss(x.flatten(2).sum(2), y.flatten(1).sum(1).long().abs() % 4, reduction={r}); F.cosine_embedding_loss(x.flatten(1), y.flatten(1), torch.ones(2), reduction={r})
torch.baddbmm(x[0], x[1], y[0].mT @ y[0], beta=0.5, alpha=2.0); torch.addmm(x[0, 0], x[0, 1], y[0, 0].t() @ y[0, 1]); torch.addmv(x[0, 0, :, 0], x[0, 0], y[0, 0, 0]); torch.outer(x[0, 0, 0], y[0, 0, :, 0]); torch.tensordot(x, y, [[1, 2], [1, 2]]); torch.kron(x[0, 0], y[0, 0]); torch.cross(x[:, :3], y[:, :3], 1); torch.trace(x[0, 0])
x.unfold(3, {n}, 1); x.unfold(2, 1, {s}); x.diagonal(0, 2, 3); x.diagonal(-1, 1, 3); torch.diag_embed(x[0, 0], 1); x.tril(-1); x.triu({i}); x.movedim(1, -1).flatten(1, 2); x.swapaxes(1, 3).contiguous(); torch.rot90(x, 1, [2, 3]); x.roll([1, -1], [2, 3]); x.flip([1, 3]); torch.tensor_split(x, 3, 2)[1]; x.chunk(2, 1)[1]
torch.cartesian_prod(x[0, 0, 0], y[0, 0, 0]); torch.combinations(x[0, 0, 0]); torch.meshgrid(x[0, 0, 0], y[0, 0, :, 0], indexing="xy")[0]; torch.block_diag(x[0, 0], y[0, 1]); torch.vander(x[0, 0, 0], 3); torch.nonzero(x > 1); torch.unique(x); torch.unique_consecutive(x.sign().flatten()); x.sort(3)[0].searchsorted(y)
torch.histc(x, 5, -4.0, 4.0); torch.quantile(x.flatten(1), torch.tensor([0.1, 0.5]), 1); x.nanmedian(2)[0]; x.mode(3)[0]; torch.cov(x[0, 0]); torch.corrcoef(x[0, 0] + torch.eye(1).sum() * y[0, 0]); torch.cumulative_trapezoid(x, dim=2); torch.trapezoid(x, dx=0.5, dim=3); torch.gradient(x, dim=2)[0]; torch.logit(x.sigmoid(), 0.1); torch.std_mean(x, [2, 3])[0]
F.normalize(x, {p}, 1); F.softmax(x, 2, dtype=torch.float64); F.gumbel_softmax(x, 1.0).sum(-1).round(); F.layer_norm(x, [x.size(3)]); F.rms_norm(x, [x.size(3)]); F.glu(x, 1); F.celu(x, 0.5); F.prelu(x, w(4)); F.rrelu(x, 0.2, 0.2); F.logsigmoid(x); F.softplus(x, 2.0, 3.0); F.hardshrink(x, 1.0); F.alpha_dropout(x, 0.5, False); F.batch_norm(x, w(4), w(4).abs() + 1); F.batch_norm(x, None, None, training=True)"""
# Expressions that share memory with x, at least for some sizes, or appear to do so.
SHARED = """torch.einsum("bchw->wbch", x); torch.einsum("bchw->bchw", x); torch.einsum("...ij->...ji", x); F.channel_shuffle(x, 1); F.pixel_shuffle(x, 1); F.pixel_unshuffle(x, 1); x.sum_to_size([2, 4, x.size(2), x.size(3)]); torch.atleast_3d(x)
x.tensor_split(2, 1)[1]; x.hsplit(2)[0]; x.vsplit(1)[0]; torch.dsplit(x, [1])[0]; x.expand_as(x); x.expand(2, 2, 4, -1, -1)[0]; x.reshape([2, 4, x.size(2), x.size(3)]); x.reshape(-1); x.flatten(2); x.mT.flatten(2); x.to(torch.float32); x.float(); x.type_as(y); x.double().float()
F.dropout(x, 0.5, False); F.alpha_dropout(x, 0.5, False); x.detach(); torch.real(x); x.rot90({i}, [2, 3]); torch.rot90(x, 4, [2, 3]); x.contiguous(); x.mT.contiguous(); x.to(memory_format=torch.channels_last)
x.contiguous(memory_format=torch.channels_last); x.clone(memory_format=torch.channels_last).flatten(1); x.contiguous(memory_format=torch.channels_last).view(2, 4, -1); x.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2]); x.permute([0, 1, 2, 3]); x.movedim(1, 1); x.squeeze(); x.squeeze(2)
F.pad(x, [0, 0]); F.pad(x, [0, -1]); x.repeat(1, 1, 1, 1); x.tile([1]); torch.cat([x]); torch.cat([x, x[:, :0]], 1); x.narrow(1, 0, 4); x.narrow(3, 0, 1); x.chunk(1)[0]; x.chunk(3, 3)[-1]; x.split(4, 1)[0]; x.split(2, 2)[-1]; torch.split(x, [1, 3], 1)[1]; x.unbind(1)[2]; torch.broadcast_to(x, [2, 4, x.size(2), x.size(3)])
torch.conj(x); torch.positive(x); x.round(decimals=0); x.unflatten(1, [2, 2]); F.interpolate(x, size=[x.size(2), x.size(3)]); x.unfold(3, 1, 1); x.unfold(2, x.size(2), 1); x.diagonal(0, 2, 3); torch.diag(x[0, 0]); torch.linalg.diagonal(x); x[:, :, :, :]; x[..., 0]; x[None]; x[:, [0, 1]]; x[:, 1:3]; x[0]; x[1:, 2]
x.transpose(2, 3).reshape(2, 4, -1); (x.mT + 1).flatten(2); x.mT.clone().flatten(2); x.swapaxes(0, 1).reshape(8, -1); x.ravel(); x.mT.ravel(); x.view(2, 4, -1); x.view(8, x.size(2), x.size(3)); x.view(-1)[1:]; x.view([2, 2, 2, -1]); x.select(1, 1).mT; torch.ravel(x[:, 0]); x.as_strided([2, 2], [1, 2])
torch.meshgrid(x[0, 0, 0], y[0, 0, 0], indexing="ij")[0]; torch.broadcast_tensors(x, y)[0]; torch.atleast_1d(x); x.nan_to_num(); x.clamp(); torch.view_as_complex(x.unflatten(1, [2, 2]).movedim(2, -1).contiguous()).real; x.index_select(1, torch.arange(4)); x.view_as(y); x.reshape_as(y); x.masked_fill(x > 99, 0.0); x.triu(-9)"""
CHOICES = {"scale": ["2.0", "0.5", "1.5", "1.3", "3.0", "0.7"], "b": ["True", "False"], "c": ["True", "False"], "i": ["0", "1", "2"], "j": ["0", "1"], "s": ["1", "2", "3"],
           "mode": ['"nearest"', '"bilinear"', '"bicubic"', '"area"', '"nearest-exact"'], "grid": ['"bilinear"', '"nearest"', '"bicubic"'], "padding": ['"zeros"', '"border"', '"reflection"'],
           "norm": ['"ortho"', '"forward"', '"backward"'], "n": ["1", "2", "3", "5"], "p": ["1.0", "2.0", "3.0", "0.0", 'float("inf")'], "bag": ['"sum"', '"mean"', '"max"'],
           "r": ['"none"', '"mean"', '"sum"']}
INPUTS = (("f32", ("2", "4", "n", "m")), ("f32", ("2", "4", "n", "m")))


def layer(s: Scope) -> str:
    """The lines of a function's body."""
    shared = s.chance(0.3)
    text = s.pick([text for line in (SHARED if shared else TEXTS).splitlines() for text in line.split("; ")])
    for key, values in CHOICES.items():
        while "{" + key + "}" in text:
            text = text.replace("{" + key + "}", s.pick(values), 1)
    text = text.replace("F.", "torch.nn.functional.")
    text = re.sub(r"\bw\(([\d, ]+)\)", lambda at: f"((torch.arange({at[1].replace(', ', ' * ')}) * 5 % 7 - 3) / 4.0).view({at[1]})", text)
    if not shared and s.chance(0.8):
        return f"    return {text}\n"
    write = s.pick(["x.add_(1)", "z.mul_(2)", "z[0] = 5", "x[:, 1] = 7", "z.view(-1).sub_(1)", "z.flatten().sub_(1)", "z = z.reshape(-1)\n    z.neg_()"])
    return f"    x = x.clone()\n    z = {text}\n    {write}\n    return x, z\n"
