#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts which share of a processor's peak the inner loops of the kernels reach, with llvm-mca.

  bench/inner_loops.py build/lib/libhologram.a [--cpu znver4 ...] [--only REGEX] [--all] [--profile FILE ...] [--json FILE]

An inner loop is a loop without calls and without other loops whose instructions include multiply-adds. Its share is the multiply-adds
per cycle of the loop, divided by those per cycle of a loop of nothing but independent multiply-adds of the same kind. The model has no
caches: all data come from the first level. So the share is an upper limit, and 100 % is a loop that only memory can slow down.

The processors are those of the archive's instruction set: x86, or Arm for an archive of a cross build. Each line of the table is the
best loop of a function or function template; --all prints all loops. --profile reads what `hg-bench --profile --json` printed on this
machine, and adds the best share of the measured peak among the nodes whose kernel runs that loop. Needs llvm-mca and llvm-objdump
(Debian: llvm-19). Loops of tiles (AMX) are missing: llvm-mca 19 has no timing of their instructions, and assumes 100 cycles each.
"""
import argparse
import collections
import dataclasses
import datetime
import json
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
import measurements  # noqa: E402

PROCESSORS = {
    "x86_64": ["znver4", "znver5", "sapphirerapids", "graniterapids"],
    "aarch64": ["neoverse-v2", "neoverse-n2"],
}
# Instructions that multiply and add, and the numbers that they multiply.
MULTIPLY_ADDS = [
    (re.compile(r"vfn?m(add|sub)\d+ps$|fml[as]$"), "f32"),
    (re.compile(r"vfn?m(add|sub)\d+pd$"), "f64"),
    (re.compile(r"vdpbf16ps$|bfdot$|bfmmla$"), "bf16"),
    (re.compile(r"vpdpbusds?$|[us]u?dot$|[us]u?s?mmla$|vpmaddubsw$"), "i8"),
]
# The kernels, as OP/KERNEL of a profile, that spend their time in a loop. Winograd is missing: its share counts skipped operations.
KERNELS = {
    "gemm_simd block_of": "(matmul|linear|conv)/gemm",
    "gemv_simd dots_rows": "(matmul|linear)/gemv",
    "conv_depthwise_simd square": "conv/depthwise",
    "rnn_simd step_of": "(lstm|gru|rnn)_scan/fused",
}
FEWEST = 6  # multiply-adds in a loop that counts: shorter ones handle what is left at an edge


def tool(name):
    """The newest version of an LLVM tool on the path."""
    for suffix in [""] + [f"-{version}" for version in range(30, 15, -1)]:
        found = shutil.which(name + suffix)
        if found and (suffix or "version 1" not in subprocess.run([found, "--version"], capture_output=True, text=True).stdout[:40]):
            return found
    sys.exit(f"{name} 16 or later is not on the path: install llvm-19")


@dataclasses.dataclass
class Loop:
    file: str
    function: str
    lines: list
    kind: str  # the numbers that are multiplied
    bits: int  # of a register
    count: int  # instructions that multiply and add
    instruction: str  # one of them


def register_bits(operands, arm):
    if arm:
        found = re.search(r"\.(\d+)(b|h|s|d)\b", operands)
        return int(found[1]) * {"b": 8, "h": 16, "s": 32, "d": 64}[found[2]] if found else 0
    for letter, bits in (("z", 512), ("y", 256), ("x", 128)):
        if f"%{letter}mm" in operands:
            return bits
    return 0


def multiply_add(line, arm):
    mnemonic, _, operands = line.partition("\t")
    for pattern, kind in MULTIPLY_ADDS:
        if pattern.match(mnemonic.strip()):
            bits = register_bits(operands, arm)
            return ("f64" if ".2d" in operands else kind, bits) if bits else None
    return None


def functions(objdump, archive, arm):
    """Each function of an archive: its file, its name, and its instructions as (address, text, target of a jump or None)."""
    command = [objdump, "-d", "-C", "--no-show-raw-insn", *(["--mattr=+all"] if arm else []), archive]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    file, name, body = "", None, []
    for line in text.splitlines():
        if found := re.match(r"^.*\((\S+?)\.o\):\s+file format|^(\S+):\s+file format", line):
            if name:
                yield file, name, body
            file, name = re.sub(r"\.(cpp|o)\b", "", pathlib.Path(found[1] or found[2]).name), None
        elif found := re.match(r"^[0-9a-f]+ <(.*)>:$", line):
            if name:
                yield file, name, body
            name, body = found[1], []
        elif found := re.match(r"^\s*([0-9a-f]+):\s+(.*)$", line):
            code = re.sub(r"\s*(# |//).*$", "", found[2])
            jump = re.search(r"0x([0-9a-f]+) <", code) if re.match(r"j|b\.|cbn?z|tbn?z|b\t", code) else None
            body.append((int(found[1], 16), code, int(jump[1], 16) if jump else None))
    if name:
        yield file, name, body


def function_name(demangled):
    """The name without its return type, namespace and arguments; an instruction set stays."""
    name = demangled.replace("(anonymous namespace)::", "").replace("hg::kernels::", "")
    depth, kept = 0, ""
    for letter in name:
        if letter == "(" and depth == 0:
            break
        depth += {"<": 1, ">": -1}.get(letter, 0)
        kept = "" if letter == " " and depth == 0 else kept + letter
    return kept


def inner_loops(objdump, archive, arm):
    for file, name, body in functions(objdump, archive, arm):
        if "N_SSE4" in name or "N_SCALAR" in name:
            continue
        place = {address: index for index, (address, _, _) in enumerate(body)}
        ends = [(place[target], index) for index, (address, _, target) in enumerate(body) if target in place and target <= address]
        for first, last in ends:
            if any(first <= other and end < last for other, end in ends):
                continue
            code = [text for _, text, _ in body[first : last + 1]]
            if any(re.match(r"call|bl\b|blr|ret", text) for text in code):
                continue
            found = [(multiply_add(text, arm), text) for text in code]
            found = [(what, text) for what, text in found if what]
            if len(found) < FEWEST:
                continue
            (kind, bits), count = collections.Counter(what for what, _ in found).most_common(1)[0]
            if count < FEWEST:
                continue
            instruction = next(text for what, text in found if what == (kind, bits))
            yield Loop(file, function_name(name), code, kind, bits, count, instruction)


def peak_lines(loop, arm):
    """Independent multiply-adds of the loop's kind, with all operands in registers."""
    mnemonic = loop.instruction.partition("\t")[0].strip()
    if arm:
        shape = re.findall(r"\.\d+[bhsd]", loop.instruction)
        return [f"{mnemonic}\tv{i}{shape[0]}, v30{shape[1]}, v31{shape[1]}" for i in range(24)]
    letter = {512: "z", 256: "y", 128: "x"}[loop.bits]
    count, first = (24, 30) if loop.bits == 512 else (12, 14)
    return [f"{mnemonic}\t%{letter}mm{first}, %{letter}mm{first + 1}, %{letter}mm{i}" for i in range(count)]


def cycles(mca, cpu, triple, regions):
    """Cycles per iteration of each region."""
    text = ""
    for index, lines in enumerate(regions):
        jumps = [re.sub(r"0x[0-9a-f]+ <.*>", ".L", line) for line in lines]
        text += f"# LLVM-MCA-BEGIN {index}\n" + "\n".join(jumps) + "\n# LLVM-MCA-END\n"
    rounds = 100
    command = [mca, f"-mcpu={cpu}", f"-mtriple={triple}", f"-iterations={rounds}", "--json", "-"]
    done = subprocess.run(command, input=".L:\n" + text, capture_output=True, text=True)
    if not done.stdout.strip():
        sys.exit(f"{pathlib.Path(mca).name} for {cpu}: {done.stderr.strip()[:400]}")
    return [region["SummaryView"]["TotalCycles"] / rounds for region in json.loads(done.stdout)["CodeRegions"]]


def measured(paths):
    """The best share of the measured peak among the nodes whose kernels run a loop, in %."""
    best = {}
    for path in paths:
        for node in json.loads(pathlib.Path(path).read_text())["profile"]:
            for loop, kernels in KERNELS.items():
                if re.fullmatch(kernels, f"{node['op']}/{node['kernel']}") and node["flops"] >= 1e6:
                    best[loop] = max(best.get(loop, 0), round(100 * node["share_of_peak"]))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive")
    parser.add_argument("--cpu", action="append", help="a processor as llvm-mca names it; may be given several times")
    parser.add_argument("--only", default="", help="a regular expression for FILE and FUNCTION")
    parser.add_argument("--all", action="store_true", help="print all loops of a function, not the best one alone")
    parser.add_argument("--profile", nargs="+", default=[], help="profiles of hg-bench on this machine")
    parser.add_argument("--machine", default="a machine that is not named", help="the machine of the profiles")
    parser.add_argument("--json", type=pathlib.Path, help="write the table of loops as a measurement")
    arguments = parser.parse_args()
    mca, objdump = tool("llvm-mca"), tool("llvm-objdump")
    version = re.search(r"version (\d+)", subprocess.run([mca, "--version"], capture_output=True, text=True).stdout)[1]
    header = subprocess.run([objdump, "-f", arguments.archive], capture_output=True, text=True, check=True).stdout
    arch = "aarch64" if "aarch64" in header else "x86_64"
    arm = arch == "aarch64"
    processors = arguments.cpu or PROCESSORS[arch]
    loops = [l for l in inner_loops(objdump, arguments.archive, arm) if re.search(arguments.only, f"{l.file} {l.function}")]
    if not loops:
        sys.exit(f"{arguments.archive} has no inner loop with {FEWEST} multiply-adds")
    shares = []
    for cpu in processors:
        peaks = cycles(mca, cpu, f"{arch}-linux-gnu", [peak_lines(loop, arm) for loop in loops])
        times = cycles(mca, cpu, f"{arch}-linux-gnu", [loop.lines for loop in loops])
        shares.append([loop.count / time * peak / len(peak_lines(loop, arm)) for loop, time, peak in zip(loops, times, peaks)])
    rows = {}
    for index, loop in enumerate(loops):
        values = [round(100 * min(1, column[index])) for column in shares]
        name = loop.function if arguments.all else re.sub(r"<.*", "", loop.function)
        key = index if arguments.all else (loop.file, name, loop.kind, loop.bits)
        row = [loop.file, name, loop.kind, loop.bits, loop.count, len(loop.lines), *values]
        if key not in rows or sum(values) > sum(rows[key][6:]):
            rows[key] = row
    columns = ["file", "function", "numbers", "bits", "multiply-adds", "instructions", *processors]
    if arguments.profile:
        columns.append("measured")
        best = measured(arguments.profile)
        for row in rows.values():
            widest = max(other[3] for other in rows.values() if other[0] == row[0])
            main_loop = f"{row[0]} {re.sub('.*::|<.*', '', row[1])}"
            row.append(best.get(main_loop) if row[3] == widest else None)
    data = {
        "title": "Inner loops of 64-bit Arm by llvm-mca" if arm else "Inner loops by llvm-mca",
        "date": datetime.date.today().isoformat(),
        "machine": f"predictions of llvm-mca {version}" + (f"; measured on {arguments.machine}" if arguments.profile else ""),
        "what": "predicted share of the peak of multiply-adds in %, all data in the first cache",
        "command": f"bench/inner_loops.py {arguments.archive}" + (f" --only '{arguments.only}'" if arguments.only else ""),
        "columns": columns,
        "rows": sorted(rows.values(), key=lambda row: [str(cell) for cell in row]),
    }
    if arguments.json:
        measurements.emit(data, arguments.json)
    print(measurements.markdown(data), end="")


if __name__ == "__main__":
    main()
