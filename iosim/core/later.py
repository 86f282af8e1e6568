"""What a package loads where it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def later(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package; ``homes`` says which module below it has which names, a blank between them."""

    def load(name: str) -> object:
        for module, names in homes.items():
            if name in names.split():
                return getattr(import_module(f"{package}.{module}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
