"""Archives of exported programs for tests: a small network, and payloads that show if they run."""

from __future__ import annotations

import io
import json
import os
import zipfile

import torch

PROGRAM = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"


class Touch:
    """An object that makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


class Net(torch.nn.Module):
    """Shared weights, a buffer, a constant, a symbolic size and a branch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("shift", torch.ones(4))
        self.constant = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x):
        y = torch.cat([self.second(torch.relu(self.first(x))) + self.shift * self.constant, x, x])
        return torch.cond(y.sum() > 0, torch.sin, torch.cos, (y,)).reshape(-1)


def members_of(data):
    """Contents of an archive's members, by their path below its folder."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write(path, members, root="net/"):
    """Write members to an archive; its path."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(root + name, data)
    return path


def pickled(marker):
    """A tensor file that makes ``marker`` if it is unpickled."""
    stream = io.BytesIO()
    torch.save(Touch(marker), stream)
    return stream.getvalue()


def edited(data, edit):
    """JSON after a change of its values."""
    values = json.loads(data)
    edit(values)
    return json.dumps(values).encode()


def first_node(program):
    """The first node of a program's graph."""
    return program["graph_module"]["graph"]["nodes"][0]
