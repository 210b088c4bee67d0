# SPDX-License-Identifier: Apache-2.0
"""Archives in the layout of PyTorch 2.5 to 2.8, made from a new archive. Their weights are written by torch.save."""
import io
import subprocess
import zipfile

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("turned", torch.arange(8.).view(2, 4).t())
        self.register_buffer("halves", torch.ones(4, dtype=torch.float16), persistent=False)

    def forward(self, x):
        x = self.second(self.first(x)) @ self.turned
        return x.masked_fill(x > 5, float("-inf")) + self.halves[:2] + torch.tensor([1., 2.])


def saved(tensors):
    stream = io.BytesIO()
    torch.save(tensors, stream)
    return stream.getvalue()


def bare(content):
    """Writes numbers that are not valid JSON unquoted, as json.dumps does by default."""
    return content.replace(b'"-Infinity"', b"-Infinity")


def troubles(tools, scratch, checks):
    folder = scratch / "older"
    folder.mkdir(parents=True, exist_ok=True)
    program = torch.export.export(Net(), (torch.randn(3, 4),))
    new = folder / "new.pt2"
    torch.export.save(program, new)
    with zipfile.ZipFile(new) as archive:
        name = next(n for n in archive.namelist() if n.endswith("models/model.json"))
        graph = archive.read(name)
    if b"Infinity" not in graph:
        yield "older: the program has no number that is no JSON"
    state, constants = saved(program.state_dict), saved(program.constants)
    layouts = {
        "of_2_5": {"serialized_exported_program.json": bare(graph), "serialized_state_dict.pt": state,
                   "serialized_constants.pt": constants, "serialized_example_inputs.pt": saved(()),
                   "version": b"7.3"},
        "of_2_8": {"m/models/model.json": graph, "m/data/weights/model.pt": state,
                   "m/data/constants/model.pt": constants, "m/archive_format": b"pt2",
                   "m/archive_version": b"0", "m/byteorder": b"little"},
        "evil": {"serialized_exported_program.json": graph, "serialized_constants.pt": constants,
                 "serialized_state_dict.pt": saved({"a": Net})},
        "cut": {"serialized_exported_program.json": graph, "serialized_constants.pt": constants,
                "serialized_state_dict.pt": state[:300]},
    }
    for name, records in layouts.items():
        path = folder / f"{name}.pt2"
        with zipfile.ZipFile(path, "w") as archive:
            for record, content in records.items():
                archive.writestr(record, content)
        done = subprocess.run([str(tools / "hg-convert"), str(path), "-o", str(folder / "out.hgm")],
                              capture_output=True, text=True)
        said = done.stdout + done.stderr
        if name.startswith("of_"):
            if done.returncode or checks and "outputs equal" not in said or "20 parameters" not in said:
                yield f"{name}: exit code {done.returncode}: {said[-400:]}"
        elif done.returncode not in (2, 3) or not said:
            yield f"{name}: exit code {done.returncode}: {said[-400:]}"
