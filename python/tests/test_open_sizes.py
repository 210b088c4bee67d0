# SPDX-License-Identifier: Apache-2.0
"""Open sizes of converted modules: how to specify them, their names, and what is rejected. Skipped without the converter."""

import numpy as np
import pytest

import hologram as hg

torch = pytest.importorskip("torch", "2.5")
from hologram import _core
from nets import Net

if not hasattr(_core, "convert_file"):
    pytest.skip("this build has no converter", allow_module_level=True)


@pytest.mark.parametrize("dynamic", ["n", {"x": {0: "n"}}, {"x": ["n", None]}, [{0: "n"}], {0: "n"}, True])
def test_ways_to_say_dynamic(dynamic):
    if dynamic == {0: "n"}:
        dynamic = {0: {0: "n"}}
    model = hg.convert(Net().eval(), (torch.randn(1, 8),), dynamic=dynamic)
    assert model(torch.randn(5, 8)).shape == (5, 3)


def test_torchs_own_way():
    shapes = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}
    model = hg.convert(Net().eval(), (torch.randn(4, 8),), dynamic=shapes)
    assert model.inputs[0].shape == ("batch", 8) and model.graph.symbols == ["batch"]
    assert [check["sizes"] for check in model.report.checks] == [{"batch": 4}, {"batch": 7}]
    assert model(torch.randn(5, 8)).shape == (5, 3)
    with pytest.raises(ValueError, match="batch is 65.*at most 64"):
        model(torch.randn(65, 8))
    full = hg.convert(Net().eval(), (torch.randn(64, 8),), dynamic=shapes)
    assert [check["sizes"] for check in full.report.checks] == [{"batch": 64}, {"batch": 63}]


class Two(torch.nn.Module):
    def forward(self, x, pair=None, *rest, **named):
        y = x.sum(0)
        for each in [*(pair or ()), *rest, *named.values()]:
            y = y + each.sum(0)
        return y


def _dim(name):
    return torch.export.Dim(name)


NAMED = {
    "a word": ("n", [("n", 3), ("n", 3), ("n", 3)]),
    "True": (True, [("n", 3), ("n", 3), ("n", 3)]),
    "words by place": ({0: {0: "n"}}, [("n", 3), (4, 3), (4, 3)]),
    "words in a structure": ({"x": ["n", None], "pair": ({0: "m"}, {0: "n"})}, [("n", 3), ("m", 3), ("n", 3)]),
    "Dim": (lambda: {"x": {0: _dim("n")}, "pair": ({0: _dim("m")}, None)}, [("n", 3), ("m", 3), (4, 3)]),
    "in order": (lambda: ({0: _dim("m")}, ({0: _dim("n")}, {0: _dim("m")})), [("m", 3), ("n", 3), ("m", 3)]),
    "named as another is by torch": (lambda: {"x": {0: torch.export.Dim.DYNAMIC}, "pair": ({0: _dim("s0")}, {0: _dim("s40")})}, None),
    "hints": (lambda: {"x": {0: torch.export.Dim.AUTO}, "pair": ({0: _dim("n")}, {0: torch.export.Dim.AUTO})}, [None, ("n", 3), None]),
}  # fmt: skip


@pytest.mark.parametrize("form", NAMED)
def test_sizes_have_the_users_names(form):
    dynamic, want = NAMED[form]
    dynamic = dynamic() if callable(dynamic) else dynamic
    x, pair = torch.randn(4, 3), (torch.randn(4, 3), torch.randn(4, 3))
    model = hg.convert(Two(), (x, pair), dynamic=dynamic)
    shapes = [spec.shape for spec in model.inputs]
    if want is None:
        assert [shape[0] for shape in shapes[1:]] == ["s0", "s40"] and len({shape[0] for shape in shapes}) == 3
    else:
        assert all(shape == each for shape, each in zip(shapes, want) if each is not None)
    symbols = model.graph.symbols
    assert len(model.report.checks) == 2 and set(model.report.checks[1]["sizes"]) == set(symbols)
    sizes = {name: 5 + i for i, name in enumerate(symbols)}
    assert model.memory(**sizes).peak_bytes > 0
    model.session(dims=sizes)
    given = [torch.randn(sizes.get(shape[0], 4), 3) for shape in shapes]
    torch.testing.assert_close(model(*given), Two()(given[0], given[1:]), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="zz"):
        model.memory(zz=3)


class AboveThree(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] > 3 else x


def test_a_refused_size_has_a_name(tmp_path):
    x = torch.randn(8, 2)
    program = torch.export.export(AboveThree(), (x,), dynamic_shapes={"x": {0: torch.export.Dim.AUTO}}, strict=False)
    torch.export.save(program, tmp_path / "m.pt2")
    own = hg.convert(AboveThree(), x, dynamic={"x": {0: torch.export.Dim("batch", min=4)}})
    for model, name in ((own, "batch"), (hg.convert(tmp_path / "m.pt2"), None)):
        name = name or model.inputs[0].shape[0]
        with pytest.raises(ValueError) as caught:
            model(torch.zeros(3, 2))
        said = str(caught.value)
        assert said.startswith(f"{name} is 3, but the model was converted for {name} at least 4, because of ")
        assert said.endswith(f" at torch.export's range of x.shape[0]; {name} is dim 0 of 'x'")


def test_limits_in_the_module_are_those_of_the_model():
    class Positions(torch.nn.Module):  # as in nanoGPT
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(16, 3)

        def forward(self, ids):
            count = ids.shape[1]
            assert count <= 16, f"cannot read {count} tokens"
            return self.table(torch.arange(count)) + ids.unsqueeze(2)

    module, ids = Positions(), torch.ones(2, 9, dtype=torch.long)
    model = hg.convert(module, ids, dynamic={"ids": ["batch", "time"]})
    assert model.inputs[0].shape == ("batch", "time")
    assert any("Dim('time', max=16)" in each for each in model.report.warnings)
    for count in (1, 7, 16):
        given = torch.arange(3 * count).view(3, count)
        torch.testing.assert_close(model(given), module(given).detach())
    with pytest.raises(ValueError, match="time is 17.*at most 16"):
        model(torch.ones(2, 17, dtype=torch.long))
    above = hg.convert(AboveThree(), torch.ones(8, 2), dynamic={"x": ["n", None]})
    assert any("Dim('n', min=4)" in each for each in above.report.warnings)
    with pytest.raises(ValueError, match="n is 3, but the model was converted for n at least 4"):
        above(torch.ones(3, 2))
    with pytest.raises(hg.UnsupportedError, match="Suggested fixes"):  # a limit of the user's own stays
        hg.convert(module, ids, dynamic={"ids": {1: torch.export.Dim("time", max=20)}})


def test_sizes_that_depend_on_others_have_names():
    class Halves(torch.nn.Module):
        def forward(self, x, y):
            return x + y[::2] + y[1::2]

    n = torch.export.Dim("n", min=2, max=50)
    model = hg.convert(Halves(), (torch.randn(4, 3), torch.randn(8, 3)), dynamic={"x": {0: n}, "y": {0: 2 * n}})
    assert [spec.shape for spec in model.inputs] == [("n", 3), ("2*n", 3)]
    assert [check["sizes"] for check in model.report.checks] == [{"n": 4}, {"n": 7}]
    x, y = torch.randn(5, 3), torch.randn(10, 3)
    torch.testing.assert_close(model(x, y), Halves()(x, y))
    with pytest.raises(ValueError):
        model(x, torch.randn(9, 3))


def test_names_of_sizes_that_no_input_has_alone():
    class Pairs(torch.nn.Module):
        def forward(self, x, y):
            return x[::2] + x[1::2], y * 2

    n, m = torch.export.Dim("n", min=2, max=50), torch.export.Dim("m", min=2, max=50)
    model = hg.convert(Pairs(), (torch.randn(8, 3), torch.randn(5)), dynamic={"x": {0: 2 * n}, "y": {0: m}})
    assert [spec.shape for spec in model.inputs] == [("2*n", 3), ("m",)]
    assert [check["sizes"] for check in model.report.checks] == [{"n": 4, "m": 5}, {"n": 7, "m": 8}]


def test_names_in_args_and_kwargs():
    a, b, c = torch.randn(3, 2), torch.randn(4, 2), torch.randn(5, 2)
    for dynamic in (
        [["n", None], [{0: "k"}], ["m", None]],
        {"x": {0: _dim("n")}, "pair": [{0: _dim("k")}], "rest": ({0: _dim("m")},)},
    ):
        model = hg.convert(Two(), (a, [c], b), dynamic=dynamic)
        assert [spec.shape[0] for spec in model.inputs] == ["n", "k", "m"]
        given = torch.randn(6, 2), torch.randn(9, 2), torch.randn(2, 2)
        torch.testing.assert_close(model(*given), Two()(given[0], [given[1]], given[2]), rtol=1e-4, atol=1e-5)
    model = hg.convert(Two(), (), example_kwargs={"pair": [b, c], "x": a}, dynamic={"pair": [{0: "m"}, None], "x": {0: "n"}})
    assert {spec.name: spec.shape[0] for spec in model.inputs} == {"pair_0": "m", "pair_1": 5, "x": "n"}


@pytest.mark.parametrize(
    "dynamic, message",
    [
        ({"x": {0: "n"}, 1: {0: "n"}}, "'n' to sizes that differ: 4.*and 6"),
        ({"x": {0: "n", 1: "n"}}, "'n' to sizes that differ: 4.*and 3"),
        (lambda: {"x": {0: _dim("n")}, "y": {0: _dim("n")}}, "'n' to sizes that differ: 4 and 6"),
        ({"x": {2: "n"}}, "dim 2 of input x, which has 2"),
        ({"x": {-3: "n"}}, "dim -3 of input x, which has 2"),
        ({"x": ["n", None, "m"]}, "dim 2 of input x, which has 2"),
        ({"z": {0: "n"}}, "'z', the inputs are x, y"),
        ([["n"], ["m"], ["k"]], "3 entries for 2 inputs"),
        ({"x": {0: "n 1"}}, "'n 1'"),
    ],
)
def test_names_that_do_not_fit_are_refused(dynamic, message, tmp_path):
    class Both(torch.nn.Module):
        def forward(self, x, y):
            return x.sum() + y

    x, y = torch.randn(4, 3), torch.randn(6, 3)
    dynamic = dynamic() if callable(dynamic) else dynamic
    with pytest.raises(ValueError, match=message):
        hg.convert(Both(), (x, y), dynamic=dynamic)
    torch.export.save(torch.export.export(Both(), (x, y)), tmp_path / "both.pt2")
    with pytest.raises(ValueError):
        hg.convert(tmp_path / "both.pt2", (x, y), names=["x", "y"], dynamic=dynamic)
    with pytest.raises(ValueError, match="example_inputs"):
        hg.convert(tmp_path / "both.pt2", dynamic="n")


def test_the_check_takes_sizes_that_the_module_takes():
    class Places(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(8, 4)

        def forward(self, x):
            return self.table.weight[: x.shape[0]] + x

    model = hg.convert(Places(), torch.randn(7, 4), dynamic={"x": {0: torch.export.Dim("n", max=8)}})
    assert [check["sizes"] for check in model.report.checks] == [{"n": 7}, {"n": 6}]
    x = torch.randn(8, 4)
    module = Places()
    model = hg.convert(module, torch.randn(4, 4), dynamic={"x": {0: torch.export.Dim("n", max=8)}})
    torch.testing.assert_close(model(x), module(x).detach())


def test_a_range_of_sizes_shares_one_plan():
    graph = hg.Graph()
    x = graph.input("x", ["n", 3], "float32")
    graph.output("y", hg.ops.relu(x))
    model = graph.model()
    session = model.session(ranges={"n": (0, 64)})
    for n in (1, 64, 0, 33):
        given = np.linspace(-1, 1, n * 3, dtype=np.float32).reshape(n, 3)
        np.testing.assert_array_equal(session(given), np.maximum(given, 0))
    with pytest.raises(ValueError, match="'m'"):
        model.session(ranges={"m": (0, 64)})
    for wrong in ((1,), 3, (1, 2, 3)):
        with pytest.raises(ValueError, match="lowest, highest"):
            model.session(ranges={"n": wrong})
