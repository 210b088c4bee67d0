#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares torch.compile(backend="hologram") with inductor and eager PyTorch: inference and training steps, in one run.

  PYTHONPATH=build/python bench/torch_compile.py [--peers ../shared/peers] [--only resnet18 mlp ...] [--threads 1] [--json FILE]

The models are those of peers/make_models.py (if their packages are installed) and peers/train.py. The contenders of a model take
turns; the result in ms is the median over turns of each turn's median. A result that differs from eager's is not timed.
"""
import argparse
import copy
import datetime
import os
import pathlib
import statistics
import sys
import time
import warnings
from unittest import mock

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # otherwise each contender's threads spin while another works

import torch

import hologram as hg  # noqa: E402
import hologram.torch  # noqa: E402 - registers the backend

FROZEN = {"freeze": True}
INFERENCE = {
    "eager": lambda net: net,
    "inductor": lambda net: torch.compile(net),
    "inductor, frozen": lambda net: torch.compile(net, options={"freezing": True}),
    "hologram": lambda net: torch.compile(net, backend="hologram"),
    "hologram, frozen": lambda net: torch.compile(net, backend="hologram", options=FROZEN),
}
TRAINING = {name: INFERENCE[name] for name in ("eager", "inductor", "hologram")}


def inference_cases(peers, only):
    """name, module, inputs."""
    import make_models

    families = make_models.micro_cases()
    for family in (make_models.torchvision_cases, make_models.transformer_cases):
        try:
            # PyPI's torchvision registers kernels for CUDA's libtorch, of which these models use none.
            with mock.patch.object(torch.library, "register_fake", lambda *names, **options: lambda function: function):
                families.update(family())
        except ImportError as error:
            print(f"{family.__name__} are left out: {error}", file=sys.stderr)
    for name, build in families.items():
        if only and name not in only:
            continue
        torch.manual_seed(0)
        try:
            net, inputs = build()
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        if not name.startswith("minilm"):
            make_models.liven(net, inputs)
        yield name, net.eval(), inputs


def training_cases(peers, only):
    import train

    for name, shape in train.MODELS.items():
        if not only or name in only:
            yield name, train.build(name), torch.randn(shape)


def turns(calls, rounds, seconds):
    """The median over the turns of each turn's median, in ms; a call that is None is left out."""
    medians = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if call is None:
                continue
            call()
            times, end = [], time.perf_counter() + seconds
            while len(times) < 3 or time.perf_counter() < end:
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            medians[name].append(1e3 * statistics.median(times))
    return {name: statistics.median(found) if found else None for name, found in medians.items()}


def agree(got, want):
    scale = float(want.detach().abs().max())
    return float((got - want).detach().abs().max()) <= 1e-3 * max(scale, 1e-3)


def prepared(name, make, want):
    """A call whose first result equals eager's; otherwise prints the reason and returns None."""
    try:
        call = make()
        if agree(call(), want):
            return call
        print(f"  {name}: another answer than eager's", file=sys.stderr)
    except Exception as error:  # a contender that fails has no time
        print(f"  {name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
    return None


def time_inference(net, inputs, rounds, seconds):
    with torch.no_grad():
        want = net(*inputs)
        calls = {}
        for name, compiled in INFERENCE.items():
            def make(compiled=compiled):
                run = compiled(copy.deepcopy(net))
                return lambda: run(*inputs)
            calls[name] = prepared(name, make, want)
        found = hg.torch.explain(copy.deepcopy(net), *inputs)
        print(f"  {found}", file=sys.stderr)
        note = "" if 0 < found.graphs == found.converted else ", in part" if found.converted else ", not captured"
        return turns(calls, rounds, seconds), note


def time_training(net, x, rounds, seconds):
    def step_of(compiled):
        model = copy.deepcopy(net)
        target = torch.zeros_like(model(x)).detach() + 0.5
        model.load_state_dict(net.state_dict())
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        run = compiled(lambda x, y: torch.nn.functional.mse_loss(model(x), y))

        def step():
            optimizer.zero_grad()
            loss = run(x, target)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    want = step_of(TRAINING["eager"])()
    calls = {name: prepared(name, lambda compiled=compiled: step_of(compiled), want) for name, compiled in TRAINING.items()}
    return turns(calls, rounds, seconds), ""


def rows_of(cases, contend, rounds, seconds, kind, names):
    for name, *case in cases:
        print(name, file=sys.stderr, flush=True)
        torch._dynamo.reset()
        found, note = contend(*case, rounds, seconds)
        row = [kind, name + note, *(None if found.get(n) is None else float(f"{found[n]:.3g}") for n in names)]
        print(" ", row, file=sys.stderr, flush=True)
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "shared" / "peers")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", type=pathlib.Path, help="write a file for docs/measurements")
    parser.add_argument("--machine", default="a machine that is not named", help="description of the machine for the file")
    options = parser.parse_args()
    sys.path.insert(0, str(options.peers))
    warnings.filterwarnings("ignore")
    torch.set_num_threads(options.threads)
    torch._dynamo.config.recompile_limit = 64
    names = list(INFERENCE)
    rows = list(rows_of(inference_cases(options.peers, options.only), time_inference, options.rounds, options.seconds, "inference", names))
    rows += rows_of(training_cases(options.peers, options.only), time_training, options.rounds, options.seconds, "training step", names)
    data = {
        "title": f'torch.compile(backend="hologram"), {options.threads} thread{"s" * (options.threads > 1)}',
        "date": datetime.date.today().isoformat(),
        "machine": options.machine,
        "what": f"ms of a call, the median of {options.rounds} turns; a training step is forward, mean squared "
        "error, backward and SGD",
        "peers": f"torch {torch.__version__}",
        "command": f"bench/torch_compile.py --threads {options.threads}" + (f" --only {' '.join(options.only)}" if options.only else ""),
        "columns": ["", "model", *names],
        "rows": rows,
    }
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
    import measurements

    measurements.emit(data, options.json)


if __name__ == "__main__":
    main()
