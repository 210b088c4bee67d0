#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of torchvision and transformers through TorchScript, .pt2 and both ONNX exporters: results, compiled nodes, speed.

usage: formats.py BIN WORK [--only REGEX] [--time ROUNDS] [--json FILE] [--list]
Each file is converted, with open sizes if the model has any, and must match PyTorch at two sizes. Then the compiled graphs of the
four files are compared by their op counts. --time runs them in turn on one thread and keeps the shortest time of each. Exits with
77 if Python lacks torchvision, transformers or onnxscript.
"""
import argparse, contextlib, copy, inspect, json, os, pathlib, re, shutil, subprocess, sys, warnings
from collections import Counter
from unittest import mock

try:
    import numpy as np
    import onnx, onnxscript
    import torch
    import transformers as hf
    from torch import nn

    # PyPI's torchvision registers kernels for CUDA's libtorch; classification and segmentation use none of them.
    with mock.patch.object(torch.library, "register_fake", lambda *names, **options: lambda function: function):
        import torchvision.models as tv
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

FORMATS = ["pt", "pt2", "trace.onnx", "dynamo.onnx"]
VOCABULARY = 96
LIMIT = 30e6  # parameters; larger nets are made thinner, at their depth


# ---- Models: name -> a function that returns the module, its inputs, and inputs of the second size ----


@contextlib.contextmanager
def thinner(by):
    """Layers created in this context have fewer channels, unless they have less than 32 or no multiple of 8."""

    def part(count):
        return count // by if count >= 32 and count % 8 == 0 else count

    def thin(layer, names):
        make = layer.__init__
        signature = inspect.signature(make)

        def init(*values, **options):
            given = signature.bind(*values, **options)
            if given.arguments.get("groups", 1) == given.arguments.get("in_channels"):
                given.arguments["groups"] = part(given.arguments["groups"])
            given.arguments.update({name: part(given.arguments[name]) for name in names})
            make(*given.args, **given.kwargs)

        return mock.patch.object(layer, "__init__", init)

    with thin(nn.Conv2d, ["in_channels", "out_channels"]), thin(nn.Linear, ["in_features", "out_features"]), thin(nn.BatchNorm2d, ["num_features"]):
        yield


def image(make, size=64, wider=32):
    """An image network; the second size has another batch size, and another width if the network accepts it."""

    def build():
        for by in (1, 2, 4, 8):
            with thinner(by) if by > 1 else contextlib.nullcontext():
                model = make()
            if sum(p.numel() for p in model.parameters()) <= LIMIT:
                break
        return model, [torch.randn(2, 3, size, size)], [torch.randn(3, 3, size, size + wider)]

    return build


def convolutional(name):
    """torchvision's model of that name. Models with several cells after average pooling keep their image size."""
    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    if name in tv.list_models(module=tv.segmentation):
        options = {"weights_backbone": None, "num_classes": 7}
    fixed = name.startswith(("alexnet", "vgg"))
    return image(lambda: tv.get_model(name, weights=None, **options), 224 if fixed else 160 if name == "inception_v3" else 64, 0 if fixed else 32)


def convnext(widths, depths):
    stages = [tv.convnext.CNBlockConfig(c, after, n) for c, after, n in zip(widths, [*widths[1:], None], depths)]
    return image(lambda: tv.ConvNeXt(stages))


def swin(second, width, heads, depth):
    parts = tv.swin_transformer
    options = dict(block=parts.SwinTransformerBlockV2, downsample_layer=parts.PatchMergingV2) if second else {}
    return image(lambda: tv.SwinTransformer([4, 4], width, [2, 2, depth, 2], [heads * 2**i for i in range(4)], [8 if second else 7] * 2, **options), wider=0)


def patches(size, image_size, layers, heads, width):
    return image(lambda: tv.VisionTransformer(image_size, size, layers, heads, width, 4 * width), image_size, 0)


# torchvision's transformers with full depth and a width for tests; all other models are built by name
ATTENTIVE = {
    **{f"convnext_{name}": convnext([c, 2 * c, 4 * c, 8 * c], [3, 3, depth, 3])
       for name, c, depth in (("tiny", 96, 9), ("small", 48, 27), ("base", 32, 27), ("large", 48, 27))},
    **{f"swin_{v2}{name}": swin(bool(v2), width, heads, depth)
       for v2 in ("", "v2_") for name, width, heads, depth in (("t", 96, 3, 6), ("s", 48, 3, 18), ("b", 64, 4, 18))},
    **{f"vit_{name}": patches(size, image_size, layers, heads, width)
       for name, size, image_size, layers, heads, width in (
           ("b_16", 16, 64, 12, 12, 192), ("b_32", 32, 64, 12, 12, 384), ("l_16", 16, 64, 24, 16, 128), ("l_32", 32, 64, 24, 16, 128), ("h_14", 14, 56, 32, 16, 128))},
    "maxvit_t": image(lambda: tv.MaxVit((224, 224), 32, 7, [32, 64, 96, 128], [2, 2, 5, 2], 32, 0.2), 224, 0),
}


class Named(nn.Module):
    """Calls a model with named inputs; returns a tuple."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), return_dict=False)


def untrained(kind, **config):
    kind = getattr(hf, kind)
    if "use_cache" in kind.config_class().to_dict():
        config["use_cache"] = False
    return kind(kind.config_class(**config))


def text(kind, length=64, **config):
    def words(batch, count):
        mask = torch.arange(count) < count - torch.arange(batch)[:, None]
        return [torch.randint(4, VOCABULARY, (batch, count)), mask.long()]

    def make():
        model = untrained(kind, vocab_size=VOCABULARY, **config)
        return Named(model, ["input_ids", "attention_mask"]), words(2, length), words(3, length + 5)

    return make


def signal(kind, name, shape, part=lambda model: model, **config):
    def make():
        return Named(part(untrained(kind, **config)), [name]), [torch.randn(2, *shape)], [torch.randn(3, *shape)]

    return make


BERT = dict(hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256, max_position_embeddings=128)
VISION = dict(image_size=64, patch_size=8, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256)
MODELS = {
    **{name: convolutional(name) for part in (tv, tv.segmentation) for name in tv.list_models(module=part)},
    **ATTENTIVE,
    "bert": text("BertModel", **BERT),
    "bert_eager": text("BertModel", attn_implementation="eager", **BERT),
    "roberta": text("RobertaForMaskedLM", **BERT),
    "albert": text("AlbertModel", embedding_size=64, **BERT),
    "distilbert": text("DistilBertForSequenceClassification", dim=128, hidden_dim=256, n_layers=4, n_heads=4),
    "gpt2": text("GPT2LMHeadModel", n_embd=128, n_layer=4, n_head=4, n_positions=128),
    "t5_encoder": text("T5EncoderModel", d_model=128, d_kv=32, d_ff=256, num_layers=4, num_heads=4),
    "llama": text("LlamaForCausalLM", hidden_size=128, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=320, max_position_embeddings=128),
    "vit": signal("ViTForImageClassification", "pixel_values", (3, 64, 64), **VISION),
    "clip_vision": signal("CLIPVisionModel", "pixel_values", (3, 64, 64), **VISION),
    "clip_text": text("CLIPTextModel", **BERT),
    "whisper_encoder": signal(
        "WhisperModel", "input_features", (80, 128), lambda model: model.encoder, d_model=128, encoder_layers=4, encoder_attention_heads=4,
        encoder_ffn_dim=256, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=32, max_source_positions=64, vocab_size=VOCABULARY,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
    "wav2vec2": signal("Wav2Vec2Model", "input_values", (8000,), hidden_size=128, num_hidden_layers=4, num_attention_heads=4,
                       intermediate_size=256, conv_dim=(32,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4),
}


def lively(model, inputs):
    """Random weights in which no bias is zero and running statistics come from data."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.numel() > 0 and parameter.min() == parameter.max():
                parameter += 0.1 * torch.randn_like(parameter)
        for block in model.modules():
            if isinstance(block, tv.resnet.Bottleneck):  # as after training: otherwise a hundred layers amplify each rounding
                block.bn3.weight *= 0.25
        norms = [m for m in model.eval().modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        for norm in norms:
            norm.train().momentum = None
        if norms:  # deep nets multiply what few samples leave of a channel's variance
            model(*[torch.cat([x + torch.randn_like(x) for _ in range(8)]) for x in inputs])
    return model.eval()


# ---- Files ----


def with_names(model, count):
    """The model with its own signature, from which torch.export takes input names."""
    names = ", ".join(f"x{i}" for i in range(count))
    scope = {"nn": nn, "model": model}
    exec(f"class Fixed(nn.Module):\n  def __init__(self):\n    super().__init__()\n    self.model = model\n"
         f"  def forward(self, {names}):\n    return self.model({names})", scope)
    return scope["Fixed"]().eval()


def write(folder, form, model, inputs, others):
    """The model as one file, with open sizes where the two sets of inputs differ; the arguments of hg-convert."""
    path = folder / f"model.{form}"
    model = with_names(copy.deepcopy(model), len(inputs))
    names = [f"x{i}" for i in range(len(inputs))]
    symbols = {}  # sizes that are equal in both sets are one symbol
    differ = [{d: symbols.setdefault((a, b), f"d{len(symbols)}") for d, (a, b) in enumerate(zip(x.shape, y.shape)) if a != b}
              for x, y in zip(inputs, others)]
    inputs = tuple(x.clone() for x in inputs)
    with torch.no_grad():
        if form == "pt":
            torch.jit.trace(model, inputs, check_trace=False, strict=False).save(str(path))
            kinds = {torch.float32: "f32", torch.int64: "i64"}
            return path, [f"--input=x{i}:{kinds[x.dtype]}[{','.join(differ[i].get(d, str(n)) for d, n in enumerate(x.shape))}]"
                          for i, x in enumerate(inputs)]
        if form == "trace.onnx":
            torch.onnx.export(model, inputs, str(path), dynamo=False, input_names=names, dynamic_axes={n: d for n, d in zip(names, differ) if d})
            return path, []
        shapes = tuple({d: torch.export.Dim.AUTO for d in open_sizes} for open_sizes in differ)
        if form == "pt2":
            torch.export.save(torch.export.export(model, inputs, dynamic_shapes=shapes, strict=False), str(path))
        else:
            torch.onnx.export(model, inputs, str(path), dynamo=True, input_names=names, dynamic_shapes=shapes, verbose=False)
        return path, []


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    value = value.values() if isinstance(value, dict) else value
    return [t for each in value for t in flat(each)] if isinstance(value, (tuple, list, type({}.values()))) else []


def run(*command, limit=900):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=limit, errors="replace")
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:300])
    return done.stdout


def answers(tools, graph, folder, stem, inputs):
    for i, x in enumerate(inputs):
        np.save(folder / f"{stem}_{i}.npy", x.numpy())
    out = folder / f"{graph.stem}_{stem}"
    shutil.rmtree(out, ignore_errors=True)
    run(tools / "hg-run", graph, *[w for i in range(len(inputs)) for w in ("--input", folder / f"{stem}_{i}.npy")], "--output-dir", out)
    order = [each["name"] for each in json.loads(run(tools / "hg-info", graph, "--json"))["outputs"]]
    return [np.load(out / (re.sub(r"[^A-Za-z0-9_.-]", "_", name) + ".npy")) for name in order]


def differs(got, want):
    if len(got) != len(want):
        return f"{len(got)} outputs instead of {len(want)}"
    for i, (g, w) in enumerate(zip(got, (t.numpy() for t in want))):
        if g.dtype != w.dtype or g.shape != w.shape:
            return f"output {i} is {g.dtype}{list(g.shape)} instead of {w.dtype}{list(w.shape)}"
        if not np.allclose(g, w, 1e-3, 1e-4 * max(1.0, float(np.abs(w.astype(np.float64)).max(initial=0))), equal_nan=True):
            return f"output {i} differs by {np.nanmax(np.abs(g.astype(np.float64) - w)):.3g} of {np.abs(w).max():.3g}"
    return ""


def is_steady(model, inputs, want):
    """Whether PyTorch has the same result in float64; otherwise the model proves nothing."""
    wide = [x.double() if x.is_floating_point() else x.clone() for x in inputs]
    try:
        with torch.no_grad():
            answer = flat(copy.deepcopy(model).double()(*wide))
    except RuntimeError:  # dtypes that the model itself names
        return True
    return not differs([t.to(w.dtype).numpy() for t, w in zip(answer, want)], want)


def compiled(tools, graph, inputs):
    """The number of nodes of each op in the graph that a session runs at the inputs' sizes."""
    shapes = [each["shape"] for each in json.loads(run(tools / "hg-info", graph, "--json"))["inputs"]]
    dims = {str(s): n for shape, x in zip(shapes, inputs) for s, n in zip(shape, x.shape) if isinstance(s, str)}
    text = run(tools / "hg-info", graph, "--compiled", "--text", *[w for s, n in dims.items() for w in ("--dim", f"{s}={n}")])
    return Counter(re.findall(r"^\s+[^=\n]* = ([a-z_0-9.]+)\(", text, re.M))


def least_times(tools, graphs, folder, count, rounds):
    best = {}
    inputs = [w for i in range(count) for w in ("--input", folder / f"in_{i}.npy")]
    for turn in range(rounds):
        order = list(graphs) if turn % 2 else list(graphs)[::-1]
        for form in order:
            said = json.loads(run(tools / "hg-bench", graphs[form], *inputs, "--threads", 1, "--warmup", 2, "--repeat", 15, "--json"))
            best[form] = min(best.get(form, np.inf), said["latency_ms"]["min"])
    return best


def judge(tools, folder, make, rounds):
    """The results of a model: for each format "equal" or the reason; ops compared with TorchScript's; times."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    model, inputs, others = make()[:3]
    model = lively(model, inputs)
    graphs, report = {}, {"formats": {}}
    with torch.no_grad():
        wants = [flat(model(*[x.clone() for x in given])) for given in (inputs, others)]
    if not is_steady(model, inputs, wants[0]):
        report["formats"] = {form: "not exported: PyTorch's own answer is another in float64" for form in FORMATS}
        return report
    for form in FORMATS:
        try:
            with torch.no_grad(), open(os.devnull, "w") as quiet, mock.patch.object(sys, "stdout", quiet):
                path, options = write(folder, form, model, inputs, others)
        except Exception as error:
            report["formats"][form] = "not exported: " + " ".join(str(error).split())[:200]
            continue
        graph = folder / f"{form.replace('.', '_')}.hgm"
        try:
            run(tools / "hg-convert", path, "-o", graph, "--no-check", *options)
            why = ""
            for stem, given, want in (("in", inputs, wants[0]), ("in2", others, wants[1])):
                why = why or differs(answers(tools, graph, folder, stem, given), want)
            report["formats"][form] = why or "equal"
            if not why:
                graphs[form] = graph
        except Exception as error:
            report["formats"][form] = "failed: " + str(error)[:300]
    counts = {form: compiled(tools, graph, inputs) for form, graph in graphs.items()}
    base = counts.get("pt")
    report["nodes"] = {form: sum(c.values()) for form, c in counts.items()}
    report["more"] = {form: dict(c - base) for form, c in counts.items() if base is not None and c - base}
    report["less"] = {form: dict(base - c) for form, c in counts.items() if base is not None and base - c}
    if rounds:
        report["ms"] = least_times(tools, graphs, folder, len(inputs), rounds)
    return report


def main(models=MODELS):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--time", type=int, default=0, help="rounds of timing")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    chosen = {name: make for name, make in models.items() if re.search(given.only, name)}
    if given.list:
        return print(*chosen, sep="\n")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # one op for nn.MultiheadAttention, which ONNX lacks
    tools, reports, bad = given.bin.resolve(), {}, 0
    for name, make in chosen.items():
        reader, writer = os.pipe()
        child = os.fork()  # everything that exporters leave behind ends with the process
        if not child:
            try:
                said = judge(tools, given.work / name, make, given.time)
            except BaseException as error:
                said = {"formats": {form: "failed: " + str(error)[:300] for form in FORMATS}}
            os.write(writer, json.dumps(said).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            reports[name] = json.loads(pipe.read())
        os.waitpid(child, 0)
        shutil.rmtree(given.work / name, ignore_errors=True)
        bad += sum(not why.startswith(("equal", "not exported")) for why in reports[name]["formats"].values())
        print(name, json.dumps(reports[name]), flush=True)
        if given.json:
            given.json.write_text(json.dumps(reports, indent=1) + "\n")
    files = [why for each in reports.values() for why in each["formats"].values()]
    print(f"{files.count('equal')} of {len(files)} files answer as PyTorch, {sum(w.startswith('not exported') for w in files)} were not exported, {bad} failed")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
