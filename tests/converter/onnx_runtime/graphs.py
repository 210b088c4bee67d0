# SPDX-License-Identifier: Apache-2.0
"""Random models of many nodes, in all opset versions: If, Loop and Scan that read outer values, functions of the file,
computed sizes, and initializers and inputs that are outputs. ONNX Runtime runs each node when it is added, so the whole
model is valid at all sizes used."""
import json

import numpy as np
import onnx
from onnx import helper

from batch import batch
from graph_nodes import FLOATS, PLAIN, Builder, Unfit, V, model_of, session_of, size


# Control flow.
def condition(g):
    kind = g.whole(0, 5)
    if kind == 0:
        return g.constant(np.array(g.chance()))
    if kind == 1:
        return g.pick(lambda v: v.dtype == bool and all(a.size == 1 for a in v.arrays))
    if kind == 2:
        return g.add("Greater", [size(g), g.ints(g.one([1, 2, 4]))]) if g.opset >= 9 else g.constant(np.array(True))
    x = g.add("ReduceMax" if g.chance() else "ReduceMean", [g.floats(0, True)], keepdims=0)
    return g.add("Less", [x, g.constant(np.array(g.one([-0.2, 0.1, 0.5]), x.dtype))])


def body_of(g, prefix):
    return Builder(g.rng, g.opset, g.dtype, g, g.tries, prefix)


def results(b, count, fits=lambda v: True):
    return [b.pick(fits) for _ in range(count)]


def branch(g):
    where_to = condition(g)
    sides, prefix = [], f"{g.prefix}b{len(g.nodes)}_"
    kinds = None
    for side in range(2):
        b = body_of(g, prefix if g.chance(0.5) else prefix + f"{side}_")
        b.grow(g.whole(0, 6), PLAIN + ([branch, loop] if g.depth < 2 else []))
        if kinds is None:
            outs = results(b, g.whole(1, 3))
            kinds = [(v.dtype, v.rank, v.dims) for v in outs]
        else:
            outs = [b.pick(lambda v, k=k: (v.dtype, v.rank) == k[:2] and (v.dims == k[2] or g.chance(0.1))) for k in kinds]
        # ONNX Runtime requires values of the branch itself, and merges duplicate outputs.
        outs = [v if v in b.values and not v.fixed and v not in outs[:k] else b.add("Identity", [v]) for k, v in enumerate(outs)]
        sides.append(b.graph("side", [], [v.info() for v in outs]))
    names = [f"{g.name()}_{i}" for i in range(len(kinds))]
    g.try_node(helper.make_node("If", [where_to.name], names, then_branch=sides[0], else_branch=sides[1]))


def loop(g):
    count = g.one([g.constant(np.array(g.one([0, 1, 2, 3]), np.int64)), None, "size"])
    if count == "size":
        count = size(g)
        if count.dims != [(1,) * g.tries]:
            raise Unfit("no count")
    start = g.one([None, g.constant(np.array(True)), condition(g)])
    if count is None and start is None:
        start = g.constant(np.array(True))
    carried = [g.pick(lambda v: v.rank <= 3) for _ in range(g.whole(0, 3))]
    prefix = f"{g.prefix}l{len(g.nodes)}_"
    b = body_of(g, prefix)
    i, going = V(prefix + "i", [np.array(0, np.int64)] * g.tries), V(prefix + "going", [np.array(True)] * g.tries)
    states = [V(f"{prefix}s{k}", v.arrays) for k, v in enumerate(carried)]
    b.values += [i, going, *states]
    if b.chance():
        b.add("Cast", [i], to=helper.np_dtype_to_tensor_dtype(np.dtype(g.dtype)))
    b.grow(g.whole(1, 7), PLAIN + ([branch, loop] if g.depth < 1 else []))
    same = lambda v: lambda w: (w.dtype, w.rank) == (v.dtype, v.rank) and (w.dims == v.dims or g.chance(0.03)) and not w.fixed
    outs = []
    for s in states:
        v = b.pick(same(s))
        if v.is_float:  # keeps numbers small
            v = b.add("Tanh", [v])
        outs.append(v)
    stacked = results(b, g.whole(0 if outs else 1, 3))
    limit = b.constant(np.array(g.one([0, 1, 2]), np.int64))
    # Without an initial condition the body's condition is ignored, but ONNX Runtime uses it.
    goes = b.add("Less", [i, limit]) if start is not None and (count is None or g.chance(0.3)) else going
    if count is not None and start is not None and g.chance(0.2):
        goes = b.pick(lambda v: v.dtype == bool and v.rank == 0)
    given = [b.add("Identity", [v]) if g.chance(0.3) or v not in b.values or v.fixed else v for v in [goes, *outs, *stacked]]
    if len({v.name for v in given}) < len(given) or any(v.name in (i.name,) for v in given):
        given = [b.add("Identity", [v]) for v in [goes, *outs, *stacked]]
    graph = b.graph("body", [i.info(), going.info(), *[s.info() for s in states]], [v.info() for v in given])
    names = [f"{g.name()}_{k}" for k in range(len(outs) + len(stacked))]
    inputs = [count.name if count else "", start.name if start else "", *[v.name for v in carried]]
    g.try_node(helper.make_node("Loop", inputs, names, body=graph))
    if any(a.shape[0] == 0 for v in g.values[-len(stacked):] for a in v.arrays) and stacked:
        raise Unfit("what no round has stacked has no shape")


def scan(g):
    sources = [g.pick(lambda v: v.rank >= 1 and v.is_full)]
    axes = [g.whole(0, sources[0].rank)]
    along = sources[0].dims[axes[0]]
    if min(along) < 1:
        raise Unfit("nothing to scan")
    if g.chance(0.4):
        other = g.pick(lambda v: along in v.dims and v.is_full)
        sources.append(other)
        axes.append(other.dims.index(along))
    carried = [g.pick(lambda v: v.rank <= 2) for _ in range(g.whole(0, 3))]
    prefix = f"{g.prefix}s{len(g.nodes)}_"
    b = body_of(g, prefix)
    states = [V(f"{prefix}s{k}", v.arrays) for k, v in enumerate(carried)]
    rows = [V(f"{prefix}x{k}", [a.take(0, axis) for a in v.arrays]) for k, (v, axis) in enumerate(zip(sources, axes))]
    b.values += states + rows
    b.grow(g.whole(1, 7), PLAIN + ([branch] if g.depth < 1 else []))
    outs = []
    for s in states:
        v = b.pick(lambda w: (w.dtype, w.rank, w.dims) == (s.dtype, s.rank, s.dims))
        outs.append(b.add("Tanh" if v.is_float else "Identity", [v]))
    # ONNX Runtime divides by sizes.
    stacked = [b.add("Identity", [v]) for v in results(b, g.whole(0 if outs else 1, 3), lambda v: v.is_full)]
    graph = b.graph("body", [v.info() for v in states + rows], [v.info() for v in outs + stacked])
    attributes = {}
    if any(axes) or g.chance(0.3):
        attributes["scan_input_axes"] = axes
    if g.chance():
        attributes["scan_input_directions"] = [g.whole(0, 2) for _ in sources]
    if stacked and g.chance():
        attributes["scan_output_directions"] = [g.whole(0, 2) for _ in stacked]
    if stacked and g.chance():
        attributes["scan_output_axes"] = [g.whole(-1 - v.rank if g.opset >= 11 else 0, v.rank + 1) for v in stacked]
    names = [f"{g.name()}_{k}" for k in range(len(outs) + len(stacked))]
    g.try_node(helper.make_node("Scan", [v.name for v in carried + sources], names, body=graph, num_scan_inputs=len(sources), **attributes))


def call(g):
    """A function of the file, possibly the same one as in an earlier call."""
    taken = [g.floats(), g.pick()]
    b = body_of(g, "f_")
    b.sees = False
    b.values = [V(f"p{k}", v.arrays) for k, v in enumerate(taken)]
    parameters = list(b.values)
    b.grow(g.whole(2, 6), PLAIN + [branch])
    outs = results(b, g.whole(1, 3), lambda v: v not in parameters)
    nodes = list(b.nodes)
    name = f"F{len(g.functions)}"
    attributes = []
    for node in nodes:  # results of the call
        if node.op_type in ("Elu", "LeakyRelu") and not attributes:
            del node.attribute[:]
            reference = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
            node.attribute.append(reference)
            attributes = ["slope"]
    names = list(dict.fromkeys(v.name for v in outs))
    function = helper.make_function("own", name, [p.name for p in parameters], names, nodes, [helper.make_opsetid("", g.opset), helper.make_opsetid("own", 1)],
                                    attributes)
    g.functions.append(function)
    g.add(name, taken, len(names), domain="own", **({"slope": 0.3} if attributes else {}))


CONTROL = [branch, branch, loop, loop, scan]


class Model:
    """A whole model, its inputs in each try, and its results."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.opset = int(rng.integers(7, 26)) if rng.random() < 0.7 else int(rng.integers(13, 26))
        self.dtype = FLOATS[int(rng.choice(3, p=[0.6, 0.32, 0.08]))]
        g = Builder(rng, self.opset, self.dtype)
        self.symbols = {"n": [int(rng.integers(2, 4)), int(rng.integers(4, 7)), 1 if rng.random() < 0.9 else 0],
                        "m": [int(rng.integers(3, 6)), int(rng.integers(1, 4)), 2]}
        self.inputs = [self.input_of(g, k) for k in range(int(rng.integers(1, 5)))]
        g.grow(int(rng.integers(5, 20)), PLAIN * 2 + CONTROL * (3 if self.opset >= 11 else 0) + [call] * (4 if self.opset >= 15 else 0))
        made = [v for v in g.values if not v.fixed]
        chosen = list({v.name: v for v in [*made[-3:], *(g.one(g.values) for _ in range(g.whole(0, 4)))]}.values())
        self.outputs = [chosen[i] for i in rng.permutation(len(chosen))]
        self.how, self.tries = g.one(["named", "named", "unnamed", "numbers", "dim", "constant"]), range(g.tries)
        self.dims, self.constants = {}, []
        if self.how in ("numbers", "constant"):
            self.tries = [0]
        if self.how == "dim":
            self.tries, self.dims = [1], {d: self.symbols[d][1] for _, shape in self.inputs for d in shape if isinstance(d, str)}
        if self.how == "constant":
            self.constants = [self.inputs[-1][0]]
        infos = [v.info(shape=self.said(shape)) for v, shape in self.inputs]
        self.model = model_of(g.graph("random", infos, [helper.make_empty_tensor_value_info(v.name) for v in self.outputs]), self.opset, g.functions)

    def input_of(self, g, k):
        shape = [g.one(["n", "n", "m", 1, 4, 4, 2]) for _ in range(g.whole(0, 4))]
        kind = g.one([self.dtype] * 5 + [np.int64, np.bool_, np.int32]) if k else self.dtype
        arrays = []
        for t in range(g.tries):
            sizes = [self.symbols[d][t] if isinstance(d, str) else d for d in shape]
            drawn = g.rng.normal(0, 1, sizes) if kind == self.dtype else g.rng.integers(0, 2 if kind == np.bool_ else 3, sizes)
            arrays.append(np.asarray(drawn, kind))
        g.values.append(V(f"x{k}", arrays))
        return g.values[-1], shape

    def said(self, shape):
        """Returns the sizes of an input as stated in the file."""
        kinds = {"numbers": lambda d: self.symbols[d][0], "unnamed": lambda d: None}
        return [kinds.get(self.how, str)(d) if isinstance(d, str) else d for d in shape]

    def feeds(self, t):
        return {v.name: v.arrays[t] for v, _ in self.inputs if v not in self.constants}

    def differs(self, v, got, t):
        want = v.arrays[t]
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"is {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
        if want.dtype.kind != "f":
            return "" if np.array_equal(got, want) else f"is wrong at {np.mean(got != want):.2f} of its places"
        close, largest = {np.float32: 2e-4, np.float64: 1e-9, np.float16: 2e-2}[self.dtype], np.abs(want).max(initial=1).astype(float)
        apart = np.abs(got.astype(float) - want.astype(float)).max(initial=0)
        return f"differs by {apart:.3g} of {largest:.3g}" if apart > close * largest else ""

    def is_decided(self, t):
        """Returns whether the results are stable under rounding of the inputs."""
        session, rng = session_of(self.model), np.random.default_rng(1)
        step = {np.float32: 2e-6, np.float64: 1e-12, np.float16: 2e-3}[self.dtype]
        for _ in range(4):
            feeds = {v.name: v.arrays[t] for v, _ in self.inputs}
            moved = {k: np.asarray(x * (1 + step * rng.normal(size=x.shape)), x.dtype) if x.dtype.kind == "f" else x for k, x in feeds.items()}
            if any(self.differs(v, np.asarray(got), t) for v, got in zip(self.outputs, session.run(None, moved))):
                return False
        return True


def compare(given):
    """Converts and runs the models of the seeds; returns the exit code."""
    count = {"right": 0, "wrong": 0, "refused": 0, "undecided": 0, "excluded sizes": 0}
    for first in range(given.seed, given.seed + given.count, 100):
        models = {seed: Model(seed) for seed in range(first, min(first + 100, given.seed + given.count))}
        jobs, runs, tried = [], [], []
        for seed, m in models.items():
            folder = given.work / str(seed)
            folder.mkdir(parents=True)
            onnx.save(m.model, folder / "model.onnx")
            for v in m.constants:
                np.save(folder / f"{v.name}.npy", v.arrays[0])
            jobs.append({"model": str(folder / "model.onnx"), "output_dir": str(folder), "check": seed % 4 == 0, "dims": m.dims,
                         "constants": {v.name: str(folder / f"{v.name}.npy") for v in m.constants}})
        for (seed, m), answer in zip(models.items(), batch(given.bin / "hg-convert", jobs, given.work)):
            if answer["status"] != "ok":
                count["refused" if answer["status"] == "unsupported" else "wrong"] += 1
                print(f"--graphs --seed {seed} --count 1: {answer['status']}: {answer['message'][:400]}")
                continue
            for t in m.tries:
                folder = given.work / str(seed) / str(t)
                folder.mkdir()
                for name, x in m.feeds(t).items():
                    np.save(folder / f"in_{name}.npy", x)
                inputs = [f"{name}={folder}/in_{name}.npy" for name in m.feeds(t)]
                runs.append({"model": str(folder.parent / "model.hgm"), "output_dir": str(folder), "inputs": inputs})
                tried.append((seed, m, t))
        for (seed, m, t), answer in zip(tried, batch(given.bin / "hg-run", runs, given.work)):
            said = "" if answer.get("status", "ok") == "ok" else answer["message"]
            if "the model was converted for" in said:
                count["excluded sizes"] += 1
                continue
            got = {} if said else {v: np.load(given.work / str(seed) / str(t) / f"{v.name}.npy") for v in m.outputs}
            wrong = said or next((f"{v.name} {why}" for v in got if (why := m.differs(v, got[v], t))), "")
            verdict = "right" if not wrong else "wrong" if said or m.is_decided(t) else "undecided"
            count[verdict] += 1
            if verdict == "wrong":
                print(f"--graphs --seed {seed} --count 1: opset {m.opset}, sizes {m.how}, try {t}: {wrong}")
    print(json.dumps(count))
    return 1 if count["wrong"] or count["refused"] > given.count // 20 else 0
