# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters: trained, saved, stacked, switched and merged; gradients are PyTorch's over the dequantized base."""

import hologram as hg
import numpy as np
import pytest

RANDOM = np.random.default_rng(1)


def network():
    g = hg.Graph()
    x = g.input("x", ("n", 24))
    w1, w2 = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((40, 24), (5, 40)))
    h = hg.ops.tanh(hg.ops.linear(x, g.parameter("net.0.fc.weight", w1)))
    g.output("y", hg.ops.linear(h, g.parameter("net.1.fc.weight", w2)))
    return g.model()


X = RANDOM.standard_normal((9, 24)).astype(np.float32)
Y = RANDOM.standard_normal((9, 5)).astype(np.float32)


def trained(base, layers="fc", steps=20, **options):
    trainer = hg.Trainer(hg.add_adapter(base, layers, **options), "mse", lr=0.02)
    losses = [trainer.step(X, Y) for _ in range(steps)]
    return trainer, losses


@pytest.mark.parametrize("bits", [None, 8, 4])
def test_an_adapter_is_a_file_beside_its_base(bits, tmp_path):
    base = network() if bits is None else hg.quantize(network(), bits=bits, group=8, least=1)
    trainer, losses = trained(base, rank=3, alpha=6)
    assert losses[-1] < 0.8 * losses[0]
    trainer.adapter().save(tmp_path / "adapter.hgm")
    adapter = hg.load(tmp_path / "adapter.hgm")
    whole = trainer.model()
    np.testing.assert_array_equal(hg.apply_adapters(base, adapter)(X), whole(X))
    np.testing.assert_array_equal(hg.apply_adapters(base, hg.take_adapter(whole))(X), whole(X))
    merged = hg.merge_adapters(whole)
    np.testing.assert_allclose(merged(X), whole(X), atol=2e-5)
    assert not merged.info["quantized"]


def test_adapters_add_up_and_are_switched_in_a_session():
    base = network()
    one, two = (trained(base, layers, rank=rank)[0].adapter() for layers, rank in (("fc", 2), ("net.1.*", 3)))
    session = hg.apply_adapters(base, one, rank=5).session()
    np.testing.assert_array_equal(session(X), hg.apply_adapters(base, one)(X))
    session.set_adapters([one, two])
    np.testing.assert_allclose(session(X), hg.apply_adapters(base, [one, two])(X), atol=1e-6)
    session.set_adapters([])
    np.testing.assert_allclose(session(X), base(X), atol=1e-6)
    with pytest.raises(ValueError, match="has room for rank 5, the ranks add up to 7"):
        session.set_adapters([one, two, one])
    session.set_adapters(two)
    np.testing.assert_allclose(session(X), hg.apply_adapters(base, two)(X), atol=1e-6)


@pytest.mark.parametrize("bits", [None, 8, 4])
def test_gradients_are_torchs_over_the_dequantized_base(bits):
    torch = pytest.importorskip("torch")
    base = network() if bits is None else hg.quantize(network(), bits=bits, group=8, least=1)
    adapted = hg.add_adapter(base, "*", rank=3, alpha=6, seed=2)
    plain = hg.merge_adapters(adapted).state_dict()  # B is 0
    trainer = hg.Trainer(adapted, "mse", optimizer=None)
    parameters = dict(zip(trainer.trained, trainer.torch_parameters()))
    for name, value in parameters.items():
        if name.endswith("lora_B.weight"):  # with 0, A has no gradient
            value.data.copy_(torch.from_numpy(RANDOM.standard_normal(value.shape).astype(np.float32)))
    trainer.backward(X, Y)
    own = {name: value.detach().clone().requires_grad_() for name, value in parameters.items()}

    def layer(x, name):
        low = x @ own[f"{name}.lora_A.weight"].T @ own[f"{name}.lora_B.weight"].T
        return x @ plain[f"{name}.weight"].T + 2 * low

    y = layer(torch.tanh(layer(torch.from_numpy(X), "net.0.fc")), "net.1.fc")
    torch.nn.functional.mse_loss(y, torch.from_numpy(Y)).backward()
    gradients = trainer.gradients()
    assert set(gradients) == set(own)
    for name, value in own.items():
        np.testing.assert_allclose(gradients[name], value.grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


def test_training_for_low_bits_evaluates_the_quantized_model():
    base = network()
    bits = {"bits": 4, "group": 8, "least": 1}
    trainer = hg.Trainer(base, "mse", lr=0.01, quantize=bits)
    losses = [trainer.step(X, Y) for _ in range(30)]
    assert losses[-1] < losses[0]
    y = hg.quantize(trainer.model(), **bits)(X)
    assert trainer.evaluate(X, Y)["loss"] == pytest.approx(float(np.mean((y - Y) ** 2)), rel=1e-5)


def test_what_does_not_fit_is_named():
    base = network()
    with pytest.raises(ValueError, match="no layer matches 'nothing'"):
        hg.add_adapter(base, "nothing")
    with pytest.raises(hg.NotFoundError, match="the model has no adapter"):
        hg.take_adapter(base)
