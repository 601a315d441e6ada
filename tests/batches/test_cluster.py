"""Schedulers that are none, and backends that are not installed: errors that say so, and soon."""

from __future__ import annotations

import socket
import sys
import threading

import pytest

import cpplan
from cpplan.model.errors import InputError, MissingExtraError

MODELS = {"tiny": cpplan.Problem(("a",), lower=[0], upper=[1], size=[4])}


@pytest.fixture
def patience():
    """Dask waits for a connection as long as this, not half a minute."""
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    with dask.config.set({"distributed.comm.timeouts.connect": "300 ms"}):
        yield


@pytest.fixture
def stranger(request):
    """The address of a server that says to each who comes what the test gives."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            try:
                while True:
                    guest, _ = server.accept()
                    guests.append(guest)
                    guest.sendall(request.param)
            except OSError:
                return  # closed

        guests: list[socket.socket] = []
        threading.Thread(target=answer, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        for guest in guests:
            guest.close()


@pytest.mark.parametrize(
    ("stranger", "reason"),
    [
        (b"", "no answer within 0.3 s"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the answer is not from"),
    ],
    indirect=["stranger"],
)
def test_what_is_no_scheduler_is_refused(patience, stranger, reason):
    with pytest.raises(InputError, match=rf"scheduler '{stranger}' cannot be reached: {reason}"):
        cpplan.batch(MODELS, backend="dask", scheduler=stranger)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://127.0.0.1:1", "Timed out trying to connect"),
        ("nonsense", "missing port number"),
        ("foo://x:1", "unknown address scheme 'foo'"),
    ],
)
def test_an_address_of_nothing_is_refused(patience, address, reason):
    with pytest.raises(InputError, match=f"scheduler '{address}' cannot be reached: {reason}"):
        cpplan.batch(MODELS, backend="dask", scheduler=address)


def test_without_an_address_there_must_be_a_client(patience):
    with pytest.raises(InputError, match="backend 'dask' needs a scheduler: there is no client"):
        cpplan.batch(MODELS, backend="dask")


@pytest.mark.parametrize(
    ("package", "options", "message"),
    [
        ("distributed", {"backend": "dask"}, r"backend 'dask' needs .* '\.\[dask\]'"),
        ("joblib", {}, r"a batch needs .* '\.\[batch\]'"),
        ("pyarrow", {"output": "r.parquet"}, r"a table of results needs .* '\.\[batch\]'"),
    ],
)
def test_error_names_the_extra_that_is_missing(package, options, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.parquet", None)
    with pytest.raises(MissingExtraError, match=message):
        cpplan.batch(MODELS, **options)
    assert list(tmp_path.iterdir()) == []
