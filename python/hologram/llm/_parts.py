# SPDX-License-Identifier: Apache-2.0
"""Parts of models of transformers: some wholes only make features of images, and another model with a cache of its own generates the text.

The whole says so itself: it has a `generate()` that calls the part's.
"""

import copy
import inspect
from unittest import mock

from .._errors import UnsupportedError


def part_with_text(torch, module):
    """The part that generates the text of a whole, or None."""
    from transformers import GenerationMixin

    if getattr(type(module), "generate", None) is GenerationMixin.generate or getattr(module.config, "is_encoder_decoder", False):
        return None
    parts = [each for each in module.children() if isinstance(each, GenerationMixin)]
    if type(module).forward is torch.nn.Module.forward:  # such as Qwen2.5-Omni, whose first part reads and the second speaks
        return parts[0] if parts else None
    return next((each for each in parts if each.get_input_embeddings() is module.get_input_embeddings()), None)


def captioner_of(torch, module):
    """A model whose text attends to an image, as in BLIP, as an encoder-decoder over the same weights. Or None."""
    from transformers import PreTrainedModel, VisionEncoderDecoderConfig, VisionEncoderDecoderModel

    decoder = part_with_text(torch, module)
    encoders = [each for each in module.children() if each is not decoder]
    if decoder is None or hasattr(module, "get_image_features") or "encoder_hidden_states" not in inspect.signature(decoder.forward).parameters:
        return None
    if len(encoders) != 1 or not isinstance(encoders[0], PreTrainedModel) or encoders[0].main_input_name != "pixel_values":
        return None
    if next(module.parameters(recurse=False), None) is not None:
        return None
    encoder, decoder = copy.copy(encoders[0]), copy.copy(decoder)  # whose configurations are set
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder.config, decoder.config)
    config.decoder.cross_attention_hidden_size = encoder.config.hidden_size
    encoder.config, decoder.config = config.encoder, config.decoder
    with mock.patch.object(VisionEncoderDecoderModel, "post_init", lambda self: None):  # which may initialize weights
        made = VisionEncoderDecoderModel(config=config, encoder=encoder, decoder=decoder)
    return made.eval()


def prepared_of(torch, module):
    """A model over the same weights that reads ids alone, for a module whose generate() passes more than the ids to forward, such as a
    masked token at the end. Or None."""
    from transformers import GenerationConfig, GenerationMixin
    from transformers.modeling_outputs import CausalLMOutput

    kind = type(module)
    is_decoder = isinstance(module, GenerationMixin) and not getattr(module.config, "is_encoder_decoder", False)
    if not is_decoder or kind.prepare_inputs_for_generation is GenerationMixin.prepare_inputs_for_generation:
        return None

    class Prepared(kind):
        one_row = True  # it also reads padding

        def forward(self, input_ids, return_dict=True):
            given = kind.prepare_inputs_for_generation(self, input_ids, is_first_iteration=True)
            return CausalLMOutput(logits=kind.forward(self, **given, return_dict=True).logits[:, -1:])

        def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **unused):
            return {"input_ids": input_ids}

    made = copy.copy(module)
    made.__class__ = Prepared
    try:
        ids = (torch.arange(6).view(1, 6) * 7 + 3) % int(module.get_input_embeddings().num_embeddings)
        with torch.no_grad():
            given = kind.prepare_inputs_for_generation(module, ids, is_first_iteration=True)
            if given["input_ids"].shape[1] == ids.shape[1]:
                return None
            config = GenerationConfig(do_sample=False, max_new_tokens=8, eos_token_id=None, pad_token_id=0)
            own, prepared = (GenerationMixin.generate(each, ids, generation_config=config).tolist() for each in (module, made))
    except Exception:  # the module may need other inputs, which later stages name
        return None
    if own != prepared:
        raise UnsupportedError("its generate() keeps what forward made of tokens that are no part of the text, so that its tokens differ from those of a "
                               "run on all tokens")  # fmt: skip
    return made
