#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real ONNX files compared with ONNX Runtime: results at two sizes, and time.

usage: onnx_files.py BIN WORK PATH... [--only REGEX] [--time ROUNDS] [--json FILE]
PATH is an .onnx file, or a folder to search for such files, such as a site-packages. Open sizes are tried until ONNX Runtime accepts
them. A size that hg-convert requires fixed is fixed and reported.

Quantized nets jump where rounding decides between two integers. They may differ by as much as ONNX Runtime's own result changes when
its inputs change by a millionth; this is reported. --time calls both in turn on one thread and keeps the shortest time of each.
Exits with 77 if Python has no onnxruntime.
"""
import argparse, itertools, json, pathlib, re, shutil, subprocess, sys, time

try:
    import numpy as np
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SIZES = [64, 48, 160, 96, 320, 640, 512, 16, 128, 224, 576, 1]
SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool"}
KINDS = {"float": np.float32, "double": np.float64, "float16": np.float16, "int64": np.int64, "int32": np.int32, "uint8": np.uint8, "int8": np.int8,
         "int16": np.int16, "bool": np.bool_}  # fmt: skip


def run(*command, limit=600):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=limit, errors="replace")
    if done.returncode:
        raise RuntimeError(" ".join((done.stderr.strip() or f"exit code {done.returncode}").split())[:400])
    return done.stdout


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def feeds_of(inputs, batch, size, middle, seed):
    """Numbers for each input: open first dims are a batch, open last dims one size, and those between them `middle`."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for each in inputs:
        kind = KINDS[re.fullmatch(r"tensor\((\w+)\)", each.type)[1]]
        last = len(each.shape) - 1
        shape = [n if isinstance(n, int) and n > 0 else batch if d == 0 else size if d == last else middle for d, n in enumerate(each.shape)]
        if kind == np.bool_ or np.issubdtype(kind, np.integer):
            feeds[each.name] = np.array(16000, kind) if not shape and kind == np.int64 else rng.integers(0, 2 if kind == np.bool_ else 50, shape).astype(kind)
        else:
            feeds[each.name] = rng.standard_normal(shape).astype(kind)
    return feeds


def accepted(session, count):
    """Inputs that ONNX Runtime accepts, with up to `count` different sizes, and its results."""
    inputs, found = session.get_inputs(), []
    tries = [(b, n, n) for b, n in itertools.chain(zip((1, 2) * 6, SIZES), itertools.product((1, 2), SIZES))]
    for batch, size, middle in tries + [(b, n, b) for b, n, _ in tries]:
        feeds = feeds_of(inputs, batch, size, middle, len(found))
        shapes = {name: x.shape for name, x in feeds.items()}
        if any(shapes == {name: x.shape for name, x in old.items()} for old, _ in found):
            continue
        try:
            answers = session.run(None, feeds)
        except Exception:
            continue
        if all(isinstance(y, np.ndarray) and y.dtype != object for y in answers):
            found.append((feeds, answers))
        if len(found) == count:
            break
    return found


def save(folder, feeds):
    paths = []
    for i, (name, x) in enumerate(feeds.items()):
        path = folder / f"in_{i}.npy"
        np.save(path, x)
        paths.append((name, path))
    return paths


def ways(folder, session, feeds):
    """Options of hg-convert to try in turn: first with all sizes open, in the end with all fixed."""
    opens = {}
    for each in session.get_inputs():
        opens.update({str(n): feeds[each.name].shape[d] for d, n in enumerate(each.shape) if isinstance(n, str)})
    constants = [f"--constant={name}={file}" for name, file in save(folder, feeds) if feeds[name].ndim == 0]
    typed = [f"--input={each.name}:{SHORT[feeds[each.name].dtype.name]}{list(feeds[each.name].shape)}".replace(" ", "") for each in session.get_inputs() if feeds[each.name].ndim]
    dims = [f"--dim={name}={n}" for name, n in opens.items()]
    tried = []
    for way in ([], constants, constants + dims, constants + typed):
        if way not in tried:
            tried.append(way)
            yield way


def arguments(tools, graph, folder, feeds):
    """hg-info's text of the graph, and the options that set its inputs."""
    info = json.loads(run(tools / "hg-info", graph, "--json"))
    taken = {each["name"] for each in info["inputs"]}
    return info, [w for name, file in save(folder, feeds) if name in taken for w in ("--input", f"{name}={file}")]


def answers_of(tools, graph, folder, feeds):
    info, given = arguments(tools, graph, folder, feeds)
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    run(tools / "hg-run", graph, *given, "--output-dir", out)
    names = [re.sub(r"[^A-Za-z0-9_.-]", "_", each["name"]) for each in info["outputs"]]
    return [np.load(out / f"{name}.npy") for name in names]


def jumps(session, feeds, want):
    """For each output, the largest change when the inputs' floats change by a millionth."""
    changes = [0.0] * len(want)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        moved = {name: (x * (1 + 1e-6 * rng.choice([-1, 1], x.shape))).astype(x.dtype) if x.dtype.kind == "f" else x for name, x in feeds.items()}
        for i, (y, w) in enumerate(zip(session.run(None, moved), want)):
            if y.shape == w.shape and y.size:
                changes[i] = max(changes[i], float(np.nanmax(np.abs(y.astype(np.float64) - w.astype(np.float64)))))
    return changes


def differs(got, want, allowed=None):
    for i, (g, w) in enumerate(zip(got, want)):
        if g.dtype != w.dtype or g.shape != w.shape:
            return f"output {i} is {g.dtype}{list(g.shape)} instead of {w.dtype}{list(w.shape)}"
        near, far = g.astype(np.float64), w.astype(np.float64)
        if not np.allclose(near, far, 1e-3, 1e-4 * max(1.0, np.abs(far).max(initial=0)) + (allowed[i] if allowed else 0), equal_nan=True):
            return f"output {i} differs by {np.nanmax(np.abs(near - far)):.3g} of {np.abs(far).max():.3g}"
    return "" if len(got) == len(want) else f"{len(got)} outputs instead of {len(want)}"


def compared(tools, graph, folder, session, feeds, want, report):
    got = answers_of(tools, graph, folder, feeds)
    why = differs(got, want)
    if why:
        allowed = jumps(session, feeds, want)
        if not differs(got, want, allowed):
            report.setdefault("jumps", []).append(f"{why}; of inputs changed by a millionth by {max(allowed):.3g}")
            why = ""
    report["answer"] = why or "equal"


def times(tools, graph, folder, feeds, session, rounds):
    """The shortest call in ms: Hologram's and ONNX Runtime's."""
    _, given = arguments(tools, graph, folder, feeds)
    ours = theirs = np.inf
    for _ in range(rounds):
        said = json.loads(run(tools / "hg-bench", graph, *given, "--threads", 1, "--warmup", 3, "--repeat", 20, "--json"))
        ours = min(ours, said["latency_ms"]["min"])
        for _ in range(23):
            begin = time.perf_counter()
            session.run(None, feeds)
            theirs = min(theirs, 1e3 * (time.perf_counter() - begin))
    return float(f"{ours:.4g}"), float(f"{theirs:.4g}")


def judge(tools, path, folder, rounds):
    report = {}
    session = session_of(path)
    found = accepted(session, 2)
    if not found:
        return {"answer": "ONNX Runtime takes no size that was tried"}
    graph, refusals = folder / "model.hgm", []
    for options in ways(folder, session, found[0][0]):
        try:
            run(tools / "hg-convert", path, "-o", graph, "--no-check", *options)
            compared(tools, graph, folder, session, *found[0], report)
            break
        except RuntimeError as error:
            refusals.append(str(error))
    else:
        return {"answer": "refused: " + refusals[0]}
    if options:
        report |= {"fixed": [re.sub(r"=/.*/", "=", each) for each in options], "why": refusals[0]}
    elif len(found) > 1 and report["answer"] == "equal":
        compared(tools, graph, folder, session, *found[1], report)
    report["sizes"] = [[list(x.shape) for x in feeds.values()] for feeds, _ in (found if not options else found[:1])]
    if rounds and report["answer"] == "equal":
        report["ms"] = times(tools, graph, folder, found[0][0], session, rounds)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("paths", type=pathlib.Path, nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("--time", type=int, default=0, help="rounds of timing")
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    files = sorted({file for path in given.paths for file in ([path] if path.is_file() else path.rglob("*.onnx"))})
    reports = {}
    for file in files:
        name = "/".join(file.parts[-2:])
        if not re.search(given.only, name):
            continue
        try:
            reports[name] = judge(given.bin.resolve(), file, given.work, given.time)
        except (RuntimeError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
            reports[name] = {"answer": f"refused: {str(error)[:400]}"}
        except Exception as error:  # ONNX Runtime's own kinds
            reports[name] = {"answer": f"not loaded: {str(error)[:200]}"}
        print(name, json.dumps(reports[name]), flush=True)
        if given.json:
            given.json.write_text(json.dumps(reports, indent=1) + "\n")
    said = [each["answer"] for each in reports.values()]
    print(f"{said.count('equal')} of {len(said)} files answer as ONNX Runtime, {sum(s.startswith('refused') for s in said)} were refused")
    sys.exit(any("differs" in s or "instead" in s for s in said))


if __name__ == "__main__":
    main()
