# SPDX-License-Identifier: Apache-2.0
"""Masks of decoders in which tokens of a prompt see later ones: those of an image, or all."""

from contextlib import ExitStack
from unittest import mock


def broadcast_masks(torch):
    """A context in which transformers makes masks by broadcasting, not by vmap, which torch.export cannot write."""

    def expanded(function):
        def mask(*places):
            made = function(*(each.view([-1 if d == i else 1 for d in range(4)]) for i, each in enumerate(places)))
            return made.expand([each.shape[0] for each in places])

        return mask

    stack = ExitStack()
    stack.enter_context(mock.patch("torch._dynamo._trace_wrapped_higher_order_op.mod_index", torch.ops.aten.index))
    stack.enter_context(mock.patch("transformers.masking_utils._vmap_expansion_sdpa", expanded))
    return stack


def seen_keys(torch, mask, is_image, is_prompt, is_prefix):
    """(whether each token sees each key [batch, time, past + time], how far the key is behind). A prompt's tokens see each other with
    ``is_prefix``, else those of an image."""
    keys, past = torch.arange(mask.shape[1]), mask.shape[1] - is_image.shape[1]
    queries = keys[past:].unsqueeze(1)
    seen = (keys <= queries).unsqueeze(0)
    if is_prefix:
        seen = seen | is_prompt
    else:
        is_first = is_image & ~torch.nn.functional.pad(is_image, (1, 0))[:, :-1]
        block = torch.where(is_image, is_first.long().cumsum(1), 0)
        of_keys = block.index_select(1, (keys - past).clamp(min=0))
        seen = seen | ((block.unsqueeze(2) == of_keys.unsqueeze(1)) & is_image.unsqueeze(2) & (keys >= past))
    return seen & (mask != 0).unsqueeze(1) | (keys == queries), queries - keys


def scores(torch, seen):
    """A mask that is added to scores."""
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min).unsqueeze(1)


def sliding_window(model):
    """The window of a decoder some of whose layers see only the last tokens, or None."""
    text = model.config.get_text_config(decoder=True)
    slides = "sliding_attention" in (getattr(text, "layer_types", None) or ())
    return getattr(text, "sliding_window", None) if slides else None
