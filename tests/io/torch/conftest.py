"""Archive of one exported program, for tests of what archives may hold."""

from __future__ import annotations

import io

import pytest

import cpplan


@pytest.fixture(scope="module")
def saved():
    """Bytes of an archive, and the graph of the program that it was made of."""
    torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
    from support.torch_archives import Net

    net = Net().requires_grad_(False)  # cond asks for gradients of what is no leaf
    sizes = {0: torch.export.Dim("n", min=2, max=64)}
    program = torch.export.export(net, (torch.ones(3, 4),), dynamic_shapes=(sizes,))
    stream = io.BytesIO()
    torch.export.save(program, stream)
    return stream.getvalue(), cpplan.load(program)


@pytest.fixture
def members(saved):
    """Contents of the archive's members, by their path below its folder."""
    from support.torch_archives import members_of

    return members_of(saved[0])


@pytest.fixture
def marker(tmp_path):
    """Path of a file that the payload of an archive makes if it is run."""
    return tmp_path / "it_ran"
