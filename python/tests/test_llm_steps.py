# SPDX-License-Identifier: Apache-2.0
"""hologram.llm: modules that compute the steps of an answer otherwise than prompts."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import numpy as np  # noqa: E402

import hologram as hg  # noqa: E402
from hologram.llm._sizes import never_above  # noqa: E402
from nets import spread_weights  # noqa: E402
from test_llm import WORDS, changed, greedy, small  # noqa: E402


def limited(time_step_limit=(0.1, 0.5)):
    """A Mamba 2 whose prompts, but not its steps, limit the time steps of most tokens."""
    torch.manual_seed(0)
    config = transformers.Mamba2Config(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=1, num_heads=4, head_dim=16, n_groups=1, state_size=8, chunk_size=8,
        time_step_limit=time_step_limit, initializer_range=0.3, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return spread_weights(transformers.Mamba2ForCausalLM(config).eval())


def test_prompts_and_steps_have_their_own_arithmetic(tmp_path):
    module = limited()
    model = hg.llm.convert(module, tmp_path / "x.hgm")
    assert model.report.logits_error < 1e-4 and model.inputs[0].shape == ("batch", "time")
    draws = np.random.default_rng(0)
    prompts = [draws.integers(3, WORDS, length).tolist() for length in (1, 2, 7, 8, 40)]
    generator = hg.Generator(model)
    for group in [[prompt] for prompt in prompts] + [prompts]:
        assert [each.ids for each in generator.generate(group, max_tokens=24, stop_ids=[])] == greedy(module, group, 24)
    for length in 511, 512, 513, 514, 1025:  # generators read parts of 512 tokens
        prompt = draws.integers(3, WORDS, length).tolist()
        assert generator.generate(prompt, max_tokens=8, stop_ids=[]).ids == greedy(module, [prompt], 8)[0]


def test_steps_that_contradict_prompts_outside_of_layers_are_named(tmp_path):
    model = limited(time_step_limit=(0.0, float("inf")))
    own = type(model).forward

    def forward(self, input_ids=None, **given):
        result = own(self, input_ids=input_ids, **given)
        if input_ids.shape[1] == 1 and given.get("cache", given.get("cache_params")) is not None:
            # The ids of the steps that choose the form of the file have the remainder 3.
            result.logits = result.logits + (input_ids % 7 != 3).unsqueeze(2)
        return result

    with pytest.raises(hg.MismatchError, match=r"generate\(\) of the module contradicts its run on all tokens from token \d+ on, .*; the file reads prompts as generate\(\) reads answers, token by token"):
        hg.llm.convert(changed(model, forward), tmp_path / "x.hgm")
    assert list(tmp_path.iterdir()) == []


def test_only_sizes_that_never_exceed_others_are_dropped():
    sympy = pytest.importorskip("sympy")
    from torch.utils._sympy.functions import FloorDiv

    n, m = (sympy.Symbol(name, integer=True, positive=True) for name in "nm")
    for by in 3, 256:
        assert never_above(n - by * FloorDiv(n + by - 1, by)) and never_above(by * FloorDiv(-n, by) + n)
    nonlinear = n * n - n * FloorDiv(n, 1), (n - 2 * FloorDiv(n, 2)) * (n - 3), n - 6 * FloorDiv(n / 2, 3) - 3
    for value in n - 8 * FloorDiv(n + 6, 8), n - m, n - 8, n - 8 * FloorDiv(n + 7, m), FloorDiv(n, 9) - FloorDiv(n, 8), *nonlinear:
        assert not never_above(value)
