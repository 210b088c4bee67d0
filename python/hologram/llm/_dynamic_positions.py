# SPDX-License-Identifier: Apache-2.0
"""Rotary positions of type `dynamic`, whose frequencies depend on the length of the text. The modules of transformers change
their own frequencies when a text is longer than all before; here each run makes those of its length, as a new module does."""

import copy
from contextlib import ExitStack, contextmanager
from unittest import mock


@contextmanager
def without_memory(model):
    """A context in which such modules keep no frequencies from one run to the next."""
    with ExitStack() as stack:
        for module in model.modules():
            forward = getattr(type(module).forward, "__wrapped__", None)
            kinds = getattr(module, "rope_type", None)
            kinds = {None: kinds} if isinstance(kinds, str) else kinds
            if forward is not None and isinstance(kinds, dict) and any("dynamic" in kind for kind in kinds.values()):
                stack.enter_context(mock.patch.object(module, "forward", _forward_of(module, forward, type(module).forward, kinds)))
        yield


def _forward_of(module, forward, other, kinds):
    import torch
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    def run(x, position_ids, layer_type=None):
        named = {} if layer_type is None else {"layer_type": layer_type}
        if "dynamic" not in kinds[layer_type]:
            return other(module, x, position_ids, **named)
        length = torch.max(position_ids) + 1
        frequencies, factor = ROPE_INIT_FUNCTIONS[kinds[layer_type]](module.config, x.device, seq_len=length, layer_type=layer_type)
        begin = "" if layer_type is None else f"{layer_type}_"
        given = copy.copy(module)
        given._buffers = {**module._buffers, f"{begin}inv_freq": frequencies}
        setattr(given, f"{begin}attention_scaling", factor)
        return forward(given, x, position_ids, **named)

    return run
