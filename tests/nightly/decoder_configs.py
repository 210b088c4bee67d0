# SPDX-License-Identifier: Apache-2.0
"""Random configurations of transformers' decoders, for decoders.py: unusual values of the fields that an architecture has."""

import random

from decoder_models import SMALL, WORDS

BOTH = (False, True)

ACTIVATIONS = ("silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2")

# Values of fields, by their names in any configuration. None: the architecture's own.
FIELDS = {
    "hidden_size": (32, 48), "num_attention_heads": (4, 2), "n_head": (4, 2), "n_heads": (4, 2), "num_key_value_heads": (1, 2, 4), "head_dim": (8, 16, 4, None),
    "vocab_size": (WORDS, 224), "num_hidden_layers": (1, 2, 3), "intermediate_size": (48, 33), "hidden_act": ACTIVATIONS, "hidden_activation": ACTIVATIONS,
    "activation_function": ACTIVATIONS, "sliding_window": (3, 16, 50, 200), "max_window_layers": (0, 1, 2, 5), "window_size": (3, 16), "attention_dropout": (0.0, 0.3),
    "final_logit_softcapping": (None, 2.0, 30.0), "attn_logit_softcapping": (None, 1.0, 50.0), "query_pre_attn_scalar": (4, 32), "clip_qkv": (None, 0.5),
    "logit_scale": (0.0625, 1.0), "residual_multiplier": (1.0, 0.5), "attention_multiplier": (1.0, 0.2), "embedding_multiplier": (1.0, 3.0), "logits_scaling": (1.0, 4.0),
    "layer_norm_eps": (1e-5, 1e-2), "rms_norm_eps": (1e-6, 1e-2), "layer_norm_epsilon": (1e-5, 1e-2), "word_embed_proj_dim": (32, 16), "rotary_dim": (4, 8),
    "num_experts_per_tok": (1, 2, 3), "feed_forward_proj": ("relu", "gated-gelu", "gated-silu"), "no_rope_layer_interval": (2, 3), "use_sliding_window": BOTH,
    "relative_attention_num_buckets": (8, 32), "relative_attention_max_distance": (12, 128), "routed_scaling_factor": (1.0, 2.5), "state_size": (4, 16), "conv_kernel": (2, 4), "time_step_limit": ((0.0, float("inf")), (0.1, 0.5)),
    **dict.fromkeys(
        ("attention_bias", "mlp_bias", "use_bias", "bias", "use_qkv_bias", "qkv_bias", "enable_bias", "attention_out_bias", "tie_word_embeddings", "qk_layernorm", "use_qk_norm",
         "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "reorder_and_upcast_attn", "multi_query", "parallel_attn", "new_decoder_architecture", "alibi",
         "use_parallel_residual", "apply_residual_connection_post_layernorm", "do_layer_norm_before", "layer_norm_elementwise_affine", "norm_topk_prob", "scale_embedding",
         "use_conv_bias", "rope_interleave", "use_bidirectional_attention", "add_cross_attention_bias", "no_bias", "residual_in_fp32"), BOTH),
}  # fmt: skip

UNLIKELY = {"use_bidirectional_attention", "add_cross_attention_bias"}


ROPES = ("default", "default", "linear", "dynamic", "yarn", "longrope", "llama3")


def rope_of(draws, width, own, kinds=ROPES):
    """Parameters of rotary positions of a random type. `width`: of a head."""
    kind = draws.choice(kinds)
    made = {"rope_type": kind, "rope_theta": draws.choice((100.0, 10000.0))}
    rotated = width
    if "partial_rotary_factor" in own:
        made["partial_rotary_factor"] = draws.choice((0.5, 1.0, own["partial_rotary_factor"]))
        rotated = int(width * made["partial_rotary_factor"])
    if kind != "default":
        made["factor"] = draws.choice((2.0, 8.0))
    if kind in ("yarn", "longrope", "llama3"):
        made["original_max_position_embeddings"] = draws.choice((20, 64))
    if kind == "yarn":
        made |= draws.choice(({}, {"beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}, {"mscale": 1.0, "mscale_all_dim": 0.7}, {"attention_factor": 1.3}))
    if kind == "longrope":
        made |= {f"{name}_factor": [round(draws.uniform(1, most), 2) for _ in range(rotated // 2)] for name, most in (("short", 1.5), ("long", 8.0))}
    if kind == "llama3":
        made |= {"low_freq_factor": 1.0, "high_freq_factor": draws.choice((2.0, 4.0))}
    return made


def drawn_of(kind, seed):
    """Fields of a random configuration of this model type, in addition to the small sizes."""
    import transformers

    base = transformers.AutoConfig.for_model(kind).get_text_config(decoder=True)
    draws = random.Random(f"{kind} {seed}")
    aliases, fields, made = getattr(type(base), "attribute_map", {}), vars(base), {}
    for name, values in FIELDS.items():
        own = aliases.get(name, name)
        if own not in fields or draws.random() < (0.9 if name in UNLIKELY else 0.4):
            continue
        value = draws.choice(values)
        if value is not None:
            made[own] = value
    heads = made.get(aliases.get("num_attention_heads", "num_attention_heads"), SMALL["num_attention_heads"])
    if made.get("num_key_value_heads", SMALL["num_key_value_heads"]) > heads:
        made["num_key_value_heads"] = heads
    layers = made.get("num_hidden_layers")
    if fields.get("layer_types"):
        kinds = list(dict.fromkeys(base.layer_types))
        count = max(layers or 3, len(kinds))
        made |= {"num_hidden_layers": count, "layer_types": [draws.choice(kinds) for _ in range(count)]}
    rope = fields.get("rope_parameters")
    if isinstance(rope, dict) and "mrope_section" not in rope:
        width = made.get("head_dim") or (SMALL["head_dim"] if fields.get("head_dim") is not None else made.get("hidden_size", SMALL["hidden_size"]) // heads)
        width = SMALL["qk_rope_head_dim"] if fields.get("qk_rope_head_dim") is not None else width
        nested = all(isinstance(each, dict) for each in rope.values()) and bool(rope)
        made["rope_parameters"] = {name: rope_of(draws, width, each) for name, each in rope.items()} if nested else rope_of(draws, width, rope)
        if "original_max_position_embeddings" in fields:  # such as Phi-3, which has no other types
            made["rope_parameters"] = rope_of(draws, width, rope, ("default", "longrope"))
            made["original_max_position_embeddings"] = made["rope_parameters"].get("original_max_position_embeddings", 64)
    return made
