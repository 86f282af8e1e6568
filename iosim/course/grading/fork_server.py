"""python -I -S fork_server.py DESCRIPTOR NUMPY_FOLDER [subreaper]: a clean process that forks one child for each submission.

It has NumPy loaded, and no seed, no answer and no submission: a child reads its job from a pipe that nobody else has. After each child
it ends everything that the child started. Standard library and NumPy only; of iosim it loads the child's few modules, never the package.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import signal
import socket
import struct
import sys
import time
import types
from pathlib import Path
from typing import Any, NoReturn

READY, BEGUN, ENDED, STOP = b"r", b"b", b"e", b"s"
"""Said by: the server once it can fork; a child, first on its stream, once it is protected; the grader of a stream that ended, or must."""

HEAD = struct.Struct("<III")
"""Before what a child reads: bytes of the box (JSON), of the job (JSON) and of the source."""

REPLY = struct.Struct("<id")
"""How a child ended: exit status (minus the signal), seconds of CPU."""

# Loaded before any child is: it may not be able to read the standard library (Python under /root), or any file (namespaces).
LIBRARY = """
__future__ abc array ast bisect cmath collections.abc contextlib copy ctypes dataclasses datetime decimal encodings.ascii encodings.cp1252
encodings.idna encodings.latin_1 encodings.utf_16 encodings.utf_8_sig enum fractions functools gc graphlib heapq inspect io itertools json
linecache logging math numbers operator pathlib pprint queue random re secrets statistics string struct tempfile textwrap threading time
timeit traceback types typing warnings weakref
"""
NUMPY = "fft lib.stride_tricks linalg ma polynomial random typing"

OWN = ("sandbox", "landlock", "libc", "function_child", "kernel_child", "probes")

_SUBREAPER = 36
_PATIENCE = 0.05  # seconds for a child that has said all to end by itself
_OUT, _JOB, _RULES, _FREE = 3, 4, 5, 6  # a child's descriptors, after standard input, output and error


class Server:
    """What a child inherits: the modules that it runs, by name, and the rules of its Landlock (-1 where there is none)."""

    def __init__(self, control: socket.socket, own: dict[str, Any]) -> None:
        self.control, self.own, self.pid = control, own, os.getpid()
        self.mains = {"function": own["function_child"].main, "kernel": own["kernel_child"].main, "probe": own["probes"].main}
        try:
            self.rules = own["landlock"].ruleset(os.path.dirname(os.__file__), os.path.dirname(sys.modules["numpy"].__file__ or ""))
        except OSError:
            self.rules = -1  # a child that is to have Landlock says so, and nothing is run

    def serve(self) -> None:
        """Fork one child after the other, until the grader's end of the socket is closed."""
        self.control.sendall(READY)
        while descriptors := socket.recv_fds(self.control, 1, 3)[1]:
            self.run(descriptors)

    def run(self, descriptors: list[int]) -> None:
        """Fork a child that has the descriptors, wait for the grader's word, end the child and all it started, and say how it ended."""
        if (pid := os.fork()) == 0:
            self.child(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        word = self.hear()
        answer = end(pid, _PATIENCE if word == ENDED else 0.0)
        if word:
            self.control.sendall(REPLY.pack(*answer))

    def hear(self) -> bytes:
        """The grader's word; nothing where there is no grader any more."""
        try:
            return self.control.recv(1)
        except ConnectionError:
            return b""

    def child(self, descriptors: list[int]) -> NoReturn:
        """Be the child: read the job, and run it protected. What is raised before the protection stands goes to standard error."""
        try:
            arrange([*descriptors, self.rules])
            box, job, source = read_job()
            self.mains[box.pop("kind")](_OUT, job, source, lambda: self.protect(box))
        except BaseException as error:  # a child never becomes a second server
            sys.stderr.write(f"{type(error).__name__}: {error}")
        finally:
            leave()

    def protect(self, box: dict[str, Any]) -> None:
        """Protect this process, then say on its stream that it stands, as its first byte, before the submission is read."""
        sandbox = self.own["sandbox"]
        sandbox.protect(sandbox.Box(**box), self.pid, _RULES)
        os.write(_OUT, BEGUN)


def leave() -> NoReturn:
    """End without handlers or finalizers, which would be the submission's; what it printed is passed on."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(0)


def arrange(given: list[int]) -> None:
    """Give a child its descriptors (job, stream, what it says, rules) and no other, in a session of its own."""
    import fcntl  # Unix only; the grader's side loads this module for its constants

    os.setsid()
    job, out, said, rules = given
    nothing = os.open(os.devnull, os.O_RDONLY)
    # First out of the way, so that no copy overwrites what is still to be copied.
    high = [fcntl.fcntl(one if one >= 0 else nothing, fcntl.F_DUPFD, 64) for one in (nothing, said, said, out, job, rules)]
    for wanted, one in enumerate(high):
        os.dup2(one, wanted)
    os.closerange(_FREE, 256)
    os.chdir("/")


def read_job() -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """The box, the job and the source that the grader wrote; all of it comes from the grader alone."""
    with open(_JOB, "rb") as pipe:
        sizes = HEAD.unpack(pipe.read(HEAD.size))
        box, job, source = (pipe.read(size) for size in sizes)
    return json.loads(box), json.loads(job), source


def end(pid: int, patience: float) -> tuple[int, float]:
    """End a child, its group and every orphan of it; its exit status (minus the signal) and the seconds of CPU it took."""
    until = time.monotonic() + patience
    while not ended(pid) and time.monotonic() < until:
        time.sleep(0.0005)
    if not ended(pid):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # where it had not made its group yet
        os.killpg(pid, signal.SIGKILL)  # before it is reaped: until then nobody else can get its number
    _, status, usage = os.wait4(pid, 0)
    sweep()
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def ended(pid: int) -> bool:
    """Whether a child has ended; it stays to be reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def sweep() -> None:
    """Kill and reap whatever became this process's child, until there is none."""
    with contextlib.suppress(ChildProcessError):  # raised where no child is left
        while True:
            reaped, _ = os.waitpid(-1, os.WNOHANG)
            if not reaped:
                for pid in children():
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(-1, 0)


def children() -> list[int]:
    """The processes whose parent this one is, zombies too."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent_of(pid) == os.getpid()]


def parent_of(pid: int) -> int:
    """The parent of a process; 0 where the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(stat.rpartition(b")")[2].split()[1])  # a process may have brackets and spaces in its name


def import_own(folder: Path) -> dict[str, Any]:
    """The child's modules, loaded as if iosim were installed; afterwards neither they nor the package can be imported."""
    for name in ("iosim", "iosim.core", "iosim.course", "iosim.course.grading"):
        package = types.ModuleType(name)
        package.__path__ = [str(folder.parents[1].joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    own = {name: importlib.import_module(f"iosim.course.grading.{name}") for name in OWN}
    for name in [name for name in sys.modules if name.partition(".")[0] == "iosim"]:
        del sys.modules[name]
    return own


def import_numpy(folder: str) -> None:
    """NumPy from its own folder: what else is installed beside it cannot be imported."""
    spec = importlib.util.spec_from_file_location("numpy", f"{folder}/__init__.py", submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError(f"no NumPy in {folder}")
    numpy = sys.modules["numpy"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(numpy)
    for name in NUMPY.split():
        importlib.import_module(f"numpy.{name}")
    numpy.matmul(numpy.ones((8, 8)), numpy.ones((8, 8)))  # the linear algebra library takes its buffers once


def main(descriptor: str, numpy_folder: str, *layers: str) -> None:
    """Load everything once, then serve."""
    for name in LIBRARY.split():
        importlib.import_module(name)
    import_numpy(numpy_folder)
    server = Server(socket.socket(fileno=int(descriptor)), import_own(Path(__file__).parent))
    if "subreaper" in layers and sys.platform == "linux":
        server.own["libc"].prctl(_SUBREAPER, 1)
    gc.collect()
    gc.freeze()  # the pages of what is loaded stay shared with the children
    server.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
