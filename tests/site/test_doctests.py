"""Every example in a docstring runs and prints what it says, from the source tree and from the wheel alike."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest


def modules_with_examples(package: str) -> Iterator[str]:
    spec = find_spec(package)
    assert spec is not None
    found = pkgutil.walk_packages(spec.submodule_search_locations, f"{package}.")
    for name in (package, *(module.name for module in found)):
        origin = getattr(find_spec(name), "origin", None)
        if origin and ">>> " in Path(origin).read_text(encoding="utf-8"):
            yield name


@pytest.mark.parametrize("name", [name for package in ("iosim", "iosim_reference", "iosim_gpu") for name in modules_with_examples(package)])
def test_examples_of(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0
