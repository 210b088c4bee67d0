# SPDX-License-Identifier: Apache-2.0
"""Small random models of transformers' architectures, for decoders.py."""

WORDS = 211

# Sizes for configurations that have these fields.
SMALL = {
    "vocab_size": WORDS, "hidden_size": 32, "n_embd": 32, "d_model": 32, "num_hidden_layers": 3, "n_layer": 3, "n_layers": 3,
    "num_layers": 3, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
    "ffn_dim": 48, "ffn_hidden_size": 48, "n_inner": 48, "head_dim": 8, "max_position_embeddings": 160, "n_positions": 160,
    "n_ctx": 160, "max_seq_len": 160, "sliding_window": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
    "q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8,
    "num_kv_shared_layers": 1, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": WORDS, "laurel_rank": 8,
    "global_head_dim": 8, "num_global_key_value_heads": 2, "word_embed_proj_dim": 32, "lm_head_num_layers": 1, "initializer_range": 0.3, "init_std": 0.3,
}  # fmt: skip


# The same of the parts that read images and sounds.
TOWER = {
    "image_size": 16, "patch_size": 4, "spatial_patch_size": 4, "hidden_size": 32, "embed_dim": 32, "intermediate_size": 48, "mlp_dim": 48, "num_hidden_layers": 2,
    "depth": 2, "num_attention_heads": 4, "num_heads": 4, "num_key_value_heads": 4, "attention_heads": 4, "head_dim": 8, "projection_dim": 32, "out_hidden_size": 32,
    "vision_output_dim": 32, "output_channels": 16, "window_size": 2, "num_position_embeddings": 16, "num_patches": 16, "num_global_layers": 1, "projector_input_dim": 32,
    "projector_output_dim": 32, "deepstack_visual_indexes": [1], "fullatt_block_indexes": [1], "global_attn_indexes": [1], "intermediate_layers_indices": [0, 1],
    "encoder_hidden_size": 32, "cross_attention_hidden_size": 32, "position_embedding_size": 16, "pooling_kernel_size": 2, "max_position_embeddings": 160, "vocab_size": WORDS,
    "num_mel_bins": 8, "d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 48, "output_dim": 32, "hidden_dim": 32, "num_codebooks": 2,
    "codebook_size": 64, "pos_emb_height": 4, "pos_emb_width": 4, "d_kv": 8, "d_ff": 48, "n_layers": 2, "seq_len": 16, "max_num_patches": 16, "patch_embed_hidden_size": 32,
    "latent_channels": 16, "base_channels": 32, "initializer_range": 0.3,
}  # fmt: skip


def config_of(base, more, is_text=True):
    """A configuration like this one with small sizes. So are its parts."""
    from transformers import PreTrainedConfig

    kind, sizes = type(base), SMALL if is_text else TOWER
    aliases = getattr(kind, "attribute_map", {})
    parts = {name: part for name, part in vars(base).items() if isinstance(part, PreTrainedConfig)}
    if parts:  # and what they have in common
        sizes = {**sizes, "mm_tokens_per_image": 4, "projection_dim": 32}
    given = {key: value for key, value in sizes.items() if vars(base).get(aliases.get(key, key)) is not None and aliases.get(key, key) not in parts}
    for key, value in vars(base).items():  # a size per dim stays one
        if key in given and isinstance(value, (list, tuple)) and isinstance(given[key], int):
            per_layer = len(value) == vars(base).get("num_hidden_layers")
            given[key] = type(value)([given[key]] * (given["num_hidden_layers"] if per_layer else len(value)))
    if vars(base).get("layer_types") and is_text:
        kinds = list(dict.fromkeys(base.layer_types))
        count = max(3, len(kinds))
        given |= {"layer_types": (kinds * count)[:count], "num_hidden_layers": count}
    rope = getattr(base, "rope_parameters", None)
    if isinstance(rope, dict) and "mrope_section" in rope:  # half of a head
        given["rope_parameters"] = {**rope, "mrope_section": [2, 1, 1]}
    at = WORDS - 40
    for key, value in vars(base).items():
        if key.endswith(("token_id", "token_index")) and isinstance(value, int) and value >= WORDS and key not in given:
            at += 1
            given[key] = at
    for name, part in parts.items():
        given[name] = config_of(part, more.get(name, {}), is_text=name in ("text_config", "llm_config", "decoder", "language_config") or (name == "encoder" and is_text)).to_dict()
    return kind(**{**given, **{key: value for key, value in more.items() if key not in parts}})


def whole_config_of(transformers, kind, more):
    """The small configuration of a model with its parts that read images."""
    return config_of(transformers.AutoConfig.for_model(kind), more)


def text_config_of(transformers, kind, more):
    """The small configuration of the text decoder, or of an encoder-decoder."""
    text = transformers.AutoConfig.for_model(kind).get_text_config(decoder=True)
    aliases = getattr(type(text), "attribute_map", {})
    given = {key: value for key, value in SMALL.items() if vars(text).get(aliases.get(key, key)) is not None}
    if vars(text).get("layer_types"):
        kinds = list(dict.fromkeys(text.layer_types))
        count = max(3, len(kinds))
        given |= {"layer_types": (kinds * count)[:count], "num_hidden_layers": count}
    return type(text)(**{**given, **more})


# Encoder-decoders of two other models.
PAIRS = {"encoder-decoder": ("bert", "bert"), "vision-encoder-decoder": ("vit", "trocr"), "speech-encoder-decoder": ("wav2vec2", "bert")}


def pair_of(transformers, kind):
    encoder, decoder = map(transformers.AutoConfig.for_model, PAIRS[kind])
    parts = config_of(encoder, {}, is_text=encoder.model_type == "bert"), config_of(decoder, {"decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48})
    return type(transformers.AutoConfig.for_model(kind, encoder=encoder.to_dict(), decoder=decoder.to_dict())).from_encoder_decoder_configs(*parts)


def model_of(name, more, seed=0):
    """`name`: a model type; with ":images" or ":text", of the whole model."""
    import torch
    import transformers

    kind, _, form = name.partition(":")
    torch.manual_seed(seed)
    if form:
        config = whole_config_of(transformers, kind, more)
        autos = transformers.AutoModelForImageTextToText, transformers.AutoModelForMultimodalLM, transformers.AutoModelForSeq2SeqLM
    else:
        whole = pair_of(transformers, kind) if kind in PAIRS else transformers.AutoConfig.for_model(kind)
        is_whole = whole.is_encoder_decoder or whole.get_text_config(decoder=True) is whole
        has_parts = is_whole and any(isinstance(part, transformers.PreTrainedConfig) for part in vars(whole).values())
        config = whole if kind in PAIRS else config_of(whole, more, is_text=True) if has_parts else text_config_of(transformers, kind, more)
        autos = transformers.AutoModelForCausalLM, transformers.AutoModelForSeq2SeqLM, transformers.AutoModelForSpeechSeq2Seq, transformers.AutoModelForImageTextToText
        if not any(type(config) in auto._model_mapping for auto in autos):  # such as Mllama's, which makes its decoder of the whole configuration
            config = config_of(whole, more)
        autos = autos[1:] if config.is_encoder_decoder else autos
    auto = next(auto for auto in autos if type(config) in auto._model_mapping)
    model = auto.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():  # so that tokens differ from each other
        for parameter in model.parameters():
            if parameter.dim() > 1 and float(parameter.std()) < 0.1:
                parameter.normal_(0, 0.15)
    return model
