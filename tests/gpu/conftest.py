"""Numba decides when it loads whether kernels are simulated or compiled, so the tests here need two processes, and say what they need.

``NUMBA_ENABLE_CUDASIM=1 pytest tests/gpu`` runs those marked ``needs_simulator``, ``pytest tests/gpu`` those marked ``needs_compiler``;
without numba both are skipped, and say why. IOSIM_REQUIRE_NUMBA=1 makes an error of that: nothing is skipped but what another process runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

import pytest

from iosim.core.errors import BadInput
from iosim_gpu.environment import needs, simulated

MARKS = {
    "needs_simulator": "runs kernels in Numba's CUDA simulator",
    "needs_compiler": "compiles kernels to PTX",
    "needs_greenlet": "runs simulated threads in a fixed order",
}


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("IOSIM_REQUIRE_NUMBA", "0") not in ("", "0"):
        require()
    for item in items:
        for name in MARKS:
            if item.get_closest_marker(name) is not None and (reason := absent(name)):
                item.add_marker(pytest.mark.skip(reason=reason))


def require() -> None:
    try:
        needs("simulate")
        needs("simulate" if simulated() else "compile")
    except BadInput as missing:
        raise pytest.UsageError(f"IOSIM_REQUIRE_NUMBA is set, but {missing}") from missing


@cache
def absent(mark: str) -> str:
    """Why a test with this mark cannot run here; empty when it can."""
    if mark == "needs_greenlet":
        return "" if find_spec("greenlet") else 'greenlet is missing; pip install "iosim[races]"'
    try:
        needs("compile" if mark == "needs_compiler" else "simulate")
    except BadInput as missing:
        return str(missing)
    if mark == "needs_simulator" and not simulated():
        return "the simulator is off in this process; NUMBA_ENABLE_CUDASIM=1 turns it on"
    return ""


@pytest.fixture(scope="class")
def scheduler() -> Iterator[None]:
    """Simulated threads in a fixed order, which is faster too, where greenlet is there; the simulator's own threads where it is not."""
    from iosim_gpu.meters.schedule import preferred

    with preferred():
        yield
