"""Runs submissions apart, one after the other, and hands back what came out of each: bytes, of which it believes none."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np

from iosim.core.errors import BadInput
from iosim.course.grading import fork_server, layers
from iosim.course.grading.collecting import Inlet, Outlet, collect
from iosim.course.grading.job import Job
from iosim.course.grading.sandbox import LAYERS, Box

_ORDER = 30.0  # seconds for the fork server to answer; it takes milliseconds, and a busy machine a little longer
_KEPT = ("LD_LIBRARY_PATH",)  # of the environment: without it some Pythons do not start


@dataclass(frozen=True, slots=True)
class Limits:
    """What one submission may take: seconds by the clock and of CPU, bytes of memory, of its stream, of what it prints, of its source."""

    wall: float = 5.0
    cpu: int = 2
    memory: int = 1 << 30
    stream: int = 64 << 20
    said: int = 1 << 20
    source: int = 256 << 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one submission. ``stream``: what it wrote to be judged; ``said``: what it printed. Neither is to be believed.

    ``stopped``: "" where it ended by itself, else why it did not: "time", "too much output", "too many results", "too long a source",
    "not started" (none of it was run: the protection did not stand), "lost" (it took its server with it, which no protected one can).
    ``status``: how it ended, minus the signal where one ended it; ``cpu``: seconds.
    """

    stream: bytes
    said: bytes = b""
    stopped: str = ""
    status: int = 0
    cpu: float = 0.0


class Worker:
    """A fork server and the layers that were found to hold; use it as a context manager, in one thread at a time.

    BadInput, when it is entered, where submissions cannot be kept from files or, as root, cannot get another user, unless ``unprotected``.
    ``without``: layers to leave out; a test shows with it that another layer, or none, is what stops an attack.
    """

    def __init__(self, unprotected: bool = False, *, without: Container[str] = ()) -> None:
        self._unprotected, self._without = unprotected, without
        self._server: _Server | None = None
        self._found = layers.Found((), os.getuid())

    def __enter__(self) -> Self:
        try:
            self._find()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the fork server, and with it whatever runs in it."""
        if self._server is not None:
            self._server.close()
            self._server = None

    @property
    def protections(self) -> tuple[str, ...]:
        """The layers in force, each of which was seen to stop what it is there for."""
        return tuple(name for name in LAYERS if name in self._found.layers)

    def run(self, job: Job, source: bytes, limits: Limits = Limits()) -> Outcome:
        """Run one submission; it has ended, with all that it started, when this returns."""
        if len(source) > limits.source:
            return Outcome(b"", stopped="too long a source")
        box = Box(self._found.layers, self._found.uid, limits.cpu, limits.memory)
        return self._run(job.kind, box, job.to_json(), source, limits)

    def _find(self) -> None:
        if not hasattr(os, "fork"):
            raise BadInput(f"submissions are graded in processes that are forked, which {sys.platform} cannot do: grade on Linux")
        limits = Limits()
        with layers.target(limits.memory) as target:
            prober = layers.Prober(self._ask, target, self._without)
            self._found = prober.find(self._uids())
            if not self._unprotected:
                prober.require(self._found)

    def _uids(self) -> tuple[int, ...]:
        """Users that children may become: one that nobody else has, so that two workers' children are strangers, or nobody."""
        return () if os.getuid() else (1_900_000_000 + self._running().process.pid, 65_534)

    def _ask(self, names: tuple[str, ...], uid: int, job: dict[str, object], source: bytes) -> bytes:
        limits = Limits()
        return self._run("probe", Box(names, uid, limits.cpu, limits.memory), json.dumps(job).encode(), source, limits).stream

    def _running(self) -> _Server:
        if self._server is None:
            self._server = _Server("subreaper" not in self._without)
        return self._server

    def _run(self, kind: str, box: Box, job: bytes, source: bytes, limits: Limits) -> Outcome:
        server = self._running()
        try:
            outcome = server.run(_packed(kind, box, job, source), limits)
        except BaseException:  # Ctrl-C in the middle of a conversation: the next run begins another
            self.close()
            raise
        if outcome.stopped == "lost":
            self.close()
        return outcome


class _Server:
    """The fork server's process and the socket to it."""

    def __init__(self, subreaper: bool) -> None:
        self.control, theirs = socket.socketpair()
        self.control.settimeout(_ORDER)
        with theirs, tempfile.TemporaryFile() as errors:
            self.process = subprocess.Popen(
                _command(theirs.fileno(), subreaper),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=(theirs.fileno(),), cwd="/",
                start_new_session=True, env=_environment(),
            )  # fmt: skip
            theirs.close()  # or nobody would notice that the server is gone
            self._await(errors)

    def _await(self, errors: IO[bytes]) -> None:
        if self._hear(1) != fork_server.READY:
            self.close()
            errors.seek(0)
            last = errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise BadInput(f"the fork server for submissions did not start with {sys.executable}: {last or 'it said nothing'}")

    def run(self, feed: bytes, limits: Limits) -> Outcome:
        """Have a child run what it is fed, and end it."""
        until = time.monotonic() + limits.wall
        with _pipe() as (job, feeder), _pipe() as (stream, out), _pipe() as (said, told):
            inlets = Inlet(stream.fileno(), limits.stream + 1, "too many results"), Inlet(said.fileno(), limits.said, "too much output")
            if not self._say(b"j", [job.fileno(), out.fileno(), told.fileno()]):
                return Outcome(b"", stopped="lost")
            for end in (job, out, told):
                end.close()  # the child's alone now, so that a stream ends when the child does
            stopped = collect(Outlet(feeder.fileno(), memoryview(feed)), *inlets, self.control.fileno(), until)
            return self._end(stopped, *inlets, limits)

    def _end(self, stopped: str, stream: Inlet, said: Inlet, limits: Limits) -> Outcome:
        """Have the child ended, and put together what came of it."""
        self._say(fork_server.STOP if stopped else fork_server.ENDED)
        reply = self._hear(fork_server.REPLY.size)
        if len(reply) != fork_server.REPLY.size:
            return Outcome(b"", said.rest(), "lost")
        status, cpu = fork_server.REPLY.unpack(reply)
        written = stream.rest()
        if not written.startswith(fork_server.BEGUN):
            return Outcome(b"", said.rest(), "not started", status, cpu)
        late = status == -signal.SIGXCPU or cpu >= limits.cpu
        return Outcome(written[1:], said.rest(), stopped or ("time" if late else ""), status, cpu)

    def _say(self, word: bytes, descriptors: Sequence[int] = ()) -> bool:
        try:
            return socket.send_fds(self.control, [word], descriptors) == len(word)
        except OSError:
            return False

    def _hear(self, size: int) -> bytes:
        try:
            return self.control.recv(size, socket.MSG_WAITALL)
        except OSError:  # a timeout too
            return b""

    def close(self) -> None:
        """Hang up, upon which the server ends its child and itself; end it where it does not."""
        self.control.close()
        try:
            self.process.wait(_ORDER)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    reader, writer = os.pipe()
    with open(reader, "rb", buffering=0) as out, open(writer, "wb", buffering=0) as into:
        yield out, into


def _packed(kind: str, box: Box, job: bytes, source: bytes) -> bytes:
    head = json.dumps({"kind": kind, **asdict(box)}).encode()
    return fork_server.HEAD.pack(len(head), len(job), len(source)) + head + job + source


def _command(descriptor: int, subreaper: bool) -> list[str]:
    """Isolated from the environment and from what is installed; no byte code is written."""
    numpy = str(Path(np.__file__).parent)
    own = [str(descriptor), numpy, *(["subreaper"] if subreaper else [])]
    return [sys.executable, "-I", "-S", "-B", "-X", "utf8", fork_server.__file__, *own]


def _environment() -> dict[str, str]:
    """Nothing of the grader's but what some Pythons need to start. One thread: a second would be a process, which is forbidden."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {"LC_ALL": "C.UTF-8", **threads, **{name: os.environ[name] for name in _KEPT if name in os.environ}}
