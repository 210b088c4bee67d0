# SPDX-License-Identifier: Apache-2.0
"""``hologram convert|llm|run|info|bench|train``: the package on the command line.

Exit codes: 0 ok, 1 usage, 2 unreadable file, 3 unsupported, 4 inputs and model do not fit, 130 stopped by Ctrl-C.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time


def _arrays(words):
    """[(name or None, array)] for words [NAME=]FILE.npy."""
    import numpy as np

    out = []
    for word in words or []:
        name, found, path = word.partition("=")
        if not found:
            name, path = None, word
        try:
            out.append((name, np.load(path)))
        except OSError as error:
            raise FileNotFoundError(f"{path}: {error.strerror or error}") from None
        except ValueError as error:
            raise OSError(f"{path}: is no .npy file: {error}") from None
    return out


def _files(words):
    return [path for word in words or [] for path in (word, word.partition("=")[2]) if path]


def _given(pairs):
    return [array for name, array in pairs if name is None], {name: array for name, array in pairs if name is not None}


def _session(model, options):
    return model.session(device=options.device, threads=options.threads, memory_limit=options.memory_limit or 0)


def _outputs(model, result):
    from ._tree import flatten

    return list(zip((spec.name for spec in model.outputs), flatten(result)[0]))


def _convert(options):
    from . import _core
    from ._convert import program_of

    words = [options.model, "-o", options.out or os.path.splitext(options.model)[0] + ".hgm"]
    for word in options.input or []:
        words += ["--input", word]
    program = program_of(options.model)
    if program is not None:
        return subprocess.run([program, *words, *options.rest]).returncode
    sys.stdout.flush()
    return _core.convert_command([*words, *options.rest])


def _llm(options):
    from . import llm

    model = llm.convert(options.model, options.out or os.path.basename(os.path.abspath(options.model)) + ".hgm", bits=options.bits,
                        group=options.group, max_context=options.max_context, text_only=options.text_only, check=not options.no_check)  # fmt: skip
    for warning in model.report.warnings:
        _say(f"hologram: {warning}")


def _run(options):
    import numpy as np

    from . import load
    from ._model import refuse_overwriting

    model = load(options.model)
    args, named = _given(_arrays(options.input))
    paths = [os.path.join(options.output_dir, spec.name.replace("/", "_") + ".npy") for spec in model.outputs]
    for path in paths:
        refuse_overwriting(path, _files(options.input))
    result = _session(model, options)(*args, **named)
    os.makedirs(options.output_dir, exist_ok=True)
    written = []
    for path, (name, array) in zip(paths, _outputs(model, result)):
        np.save(path, array)
        written.append({"name": name, "file": path, "dtype": str(array.dtype), "shape": list(array.shape)})
    if options.json:
        print(json.dumps({"outputs": written}))
    else:
        for each in written:
            print(f"{each['file']}: {each['dtype']}{each['shape']}")


def _dims(words):
    out = {}
    for word in words or []:
        match = re.fullmatch(r"(\w+)=(\d+)", word)
        if not match:
            raise ValueError(f"--dim takes NAME=SIZE, not '{word}'")
        out[match[1]] = int(match[2])
    return out


def _info(options):
    from . import load
    from ._model import refuse_overwriting

    if options.svg:
        refuse_overwriting(options.svg, [options.model])
    model = load(options.model)
    if not hasattr(model, "inputs"):
        print("\n".join(model.functions()))
        return
    if options.text:
        print(model.graph)
        return
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(model.graph.svg())
    counts = {}
    for op in model.graph.ops:
        counts[op] = counts.get(op, 0) + 1
    found = {
        "inputs": [spec._asdict() for spec in model.inputs],
        "outputs": [spec._asdict() for spec in model.outputs],
        "ops": counts,
        "parameters": sum(int(array.size) for array in model.parameters().values()),
        "producer": model.info["producer"],
        "source": model.info["source"],
    }
    dims = _dims(options.dim)
    if set(model.graph.symbols) <= set(dims):
        memory = model.memory(**dims)
        found["memory"] = {"peak_bytes": memory.peak_bytes, "arena_bytes": memory.arena_bytes,
                           "weights_bytes": memory.weights_bytes}  # fmt: skip
        found["flops"] = model.flops(**dims)
    if options.json:
        print(json.dumps(found, default=list))
        return
    for title in ("inputs", "outputs"):
        for spec in found[title]:
            print(f"{title[:-1]:7} {spec['name']}: {spec['dtype']}[{', '.join(map(str, spec['shape']))}]")
    print(f"ops     {', '.join(f'{name} x{count}' for name, count in sorted(counts.items()))}")
    print(f"weights {found['parameters']} numbers")
    for key in ("memory", "flops"):
        if key in found:
            print(f"{key:7} {found[key]}")


def _bench(options):
    import numpy as np

    from . import _core, load

    begin = time.perf_counter()
    model = load(options.model)
    load_ms = (time.perf_counter() - begin) * 1e3
    args = []
    for word in options.input or []:
        match = re.fullmatch(r"(?:(\w+):)?(\w+)\[([\d,\s]*)\]", word)
        if match:
            shape = [int(n) for n in match[3].replace(" ", "").split(",") if n]
            args.append(np.zeros(shape, _core.numpy_dtype(match[2])))
        else:
            args.append(_arrays([word])[0][1])
    if not options.input:
        args = model._zeros(_dims(options.dim))
    begin = time.perf_counter()
    session = _session(model, options)
    session(*args)
    first_ms = (time.perf_counter() - begin) * 1e3
    for _ in range(options.warmup):
        session(*args)
    times = []
    for _ in range(options.repeat):
        begin = time.perf_counter()
        session(*args)
        times.append((time.perf_counter() - begin) * 1e3)
    times.sort()
    memory = session.memory()
    found = {
        "load_ms": load_ms,
        "create_ms": first_ms,
        "latency_ms": {"min": times[0], "median": times[len(times) // 2], "p90": times[int(len(times) * 0.9)]},
        "peak_bytes": memory.peak_bytes,
        "arena_lower_bound_bytes": memory.arena_lower_bound,
        "weights_bytes": memory.weights_bytes,
        "flops": session.flops(),
    }
    print(json.dumps(found) if options.json else "\n".join(f"{k}: {v}" for k, v in found.items()))
    if options.profile:
        print(model.profile(*args))


def _train(options):
    from . import Schedule, Trainer, load
    from ._model import refuse_overwriting

    files = _files(options.input + options.target)
    refuse_overwriting(options.out, files)  # but it may replace the model
    if options.json:
        refuse_overwriting(options.json, [options.model, options.out, *files])
    model = load(options.model)
    inputs = [array for _, array in _arrays(options.input)]
    targets = [array for _, array in _arrays(options.target)]
    trainer = Trainer(
        model, loss=options.loss, optimizer=options.optimizer, lr=options.lr, momentum=options.momentum,
        weight_decay=options.weight_decay, schedule=Schedule(options.schedule) if options.schedule else None,
        mode=options.mode, device=options.device, threads=options.threads, memory_limit=options.memory_limit or 0,
        seed=options.seed,
    )  # fmt: skip
    steps = []

    def log(event):
        if not event.is_epoch:
            steps.append({"step": event.step, "epoch": event.epoch, "loss": event.loss, "ms": event.ms})
        elif not sys.stderr.isatty():
            _say(f"epoch {event.epoch}/{event.epochs}: loss {event.loss:.6g}")

    trainer.fit(inputs, targets, epochs=options.epochs, batch_size=None if options.batch == "all" else int(options.batch),
                callbacks=log)  # fmt: skip
    trainer.save(options.out)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"steps": steps, "plan": {"peak_bytes": trainer.memory().peak_bytes}}, file)


def _say(line):
    """Writes a line to standard error in one call: print() writes the newline separately, and Ctrl-C may interrupt it."""
    sys.stderr.write(f"{line}\n")


def _parser():
    parser = argparse.ArgumentParser("hologram", description="Runs and trains PyTorch models without PyTorch.")
    from . import __version__

    parser.add_argument("--version", action="version", version=f"hologram {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name, function, help, runs=True):
        command = commands.add_parser(name, help=help, description=help)
        command.add_argument("model")
        command.set_defaults(function=function)
        if runs:
            command.add_argument("--device", default="cpu", choices=["cpu", "vulkan", "auto"])
            command.add_argument("--threads", type=int, default=0)
            command.add_argument("--memory-limit")
        return command

    c = add("convert", _convert, "converts a model to a .hgm file; further options are passed to hg-convert", runs=False)
    c.add_argument("-o", "--out")
    c.add_argument("--input", action="append", help="'x:f32[n,3,224,224]'")
    c = add("llm", _llm, "converts the folder of a language model of transformers to a .hgm file that generates text", runs=False)
    c.add_argument("-o", "--out", help="default: the name of the folder with .hgm")
    c.add_argument("--bits", type=int, choices=[8, 4], help="quantize the weights")
    c.add_argument("--group", type=int, default=32, help="weights that share a scale, with --bits")
    c.add_argument("--max-context", type=int, help="limit of prompt and answer together, in tokens")
    c.add_argument("--text-only", action="store_true", help="leave out what the model needs for images")
    c.add_argument("--no-check", action="store_true", help="do not compare the file with the model")
    c = add("run", _run, "runs a model on .npy files")
    c.add_argument("--input", action="append", help="[NAME=]FILE.npy")
    c.add_argument("--output-dir", required=True)
    c.add_argument("--json", action="store_true")
    c = add("info", _info, "prints inputs, outputs, ops, weights and memory", runs=False)
    c.add_argument("--dim", action="append", help="NAME=SIZE")
    c.add_argument("--text", action="store_true", help="print the whole graph")
    c.add_argument("--svg", help="write a drawing of the graph to this file")
    c.add_argument("--json", action="store_true")
    c = add("bench", _bench, "measures latency and memory")
    c.add_argument("--input", action="append", help="'f32[1,3,224,224]' or FILE.npy")
    c.add_argument("--dim", action="append", help="NAME=SIZE")
    c.add_argument("--warmup", type=int, default=3)
    c.add_argument("--repeat", type=int, default=20)
    c.add_argument("--profile", action="store_true")
    c.add_argument("--json", action="store_true")
    c = add("train", _train, "trains a model on .npy files")
    c.add_argument("--input", action="append", required=True)
    c.add_argument("--target", action="append", required=True)
    c.add_argument("--loss", default="mse")
    c.add_argument("--optimizer", default="adamw")
    c.add_argument("--lr", type=float)
    c.add_argument("--momentum", type=float)
    c.add_argument("--weight-decay", type=float)
    c.add_argument("--schedule")
    c.add_argument("--epochs", type=int, default=1)
    c.add_argument("--batch", default="32")
    c.add_argument("--mode", default="training", choices=["training", "as-traced"])
    c.add_argument("--seed", type=int, default=0)
    c.add_argument("--out", required=True)
    c.add_argument("--json", help="write the losses to this file")
    return parser


def main(argv=None):
    """Runs one command; returns its exit code."""
    from ._errors import CorruptModelError, NotFoundError, UnsupportedError

    parser = _parser()
    try:
        options, rest = parser.parse_known_args(argv)
    except SystemExit as end:
        return 1 if end.code else 0
    if rest and options.command != "convert":
        _say(f"hologram: unknown option {rest[0]}")
        return 1
    options.rest = rest
    try:
        return options.function(options) or 0
    except (NotFoundError, FileNotFoundError, CorruptModelError, OSError) as error:
        code = 2
        message = error
    except UnsupportedError as error:
        code, message = 3, error
    except (ValueError, TypeError, MemoryError) as error:
        code, message = 4, error
    except KeyboardInterrupt:
        code, message = 130, "stopped by Ctrl-C"
    _say(f"hologram: {message}")
    return code


if __name__ == "__main__":
    sys.exit(main())
