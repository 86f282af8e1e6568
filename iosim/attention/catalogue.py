"""The kernels: ours, which are found in :mod:`iosim.attention.kernels`, and those of users."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from importlib import import_module
from inspect import isfunction
from pkgutil import walk_packages
from typing import TypeAlias

from iosim.attention import kernels
from iosim.attention.declaration import Kernel, declarations
from iosim.core.errors import BadInput

Named: TypeAlias = str | Kernel | Callable[..., None]
"""A kernel by its name, one of a file as ``FILE.py:FUNCTION``, a listing, or a kernel itself."""


def _found() -> list[Kernel]:
    modules = [import_module(module.name) for module in walk_packages(kernels.__path__, f"{kernels.__name__}.")]
    own = [one for module in modules for one in vars(module).values() if isfunction(one) and one.__module__ == module.__name__]
    return sorted((made for listing in own for made in declarations(listing)), key=lambda made: (made.place, made.name))


def _reduced(made: Kernel) -> tuple[Callable[[Named], Kernel], tuple[Named]]:
    """A kernel as another process finds it: by name, by file and function, or by its listing."""
    if ours(made):
        return kernel, (made.name,)
    from iosim.attention.own_kernels import HOMES

    return kernel, (HOMES.get(made, made.listing),)


copyreg.pickle(Kernel, _reduced)
KERNELS = {made.name: made for made in _found()}
FORWARD = tuple(name for name, found in KERNELS.items() if found.forward is None and found.usual)
BACKWARD = {name: str(found.backward) for name, found in KERNELS.items() if found.backward is not None}


SEEN: dict[str, Kernel] = {}  # kernels of users, so that a figure of records can tell how they are drawn


def ours(asked: Kernel) -> bool:
    """Whether it is one of iosim's own."""
    return KERNELS.get(asked.name) is asked


def kernel(asked: Named) -> Kernel:
    """The kernel that is asked for; raises :class:`BadInput` for a name that is unknown, and for a listing that cannot be understood."""
    if isinstance(asked, Kernel):
        return asked
    if isinstance(asked, str) and asked in KERNELS:
        return KERNELS[asked]
    if isinstance(asked, str) and ":" not in asked:
        raise BadInput(f"unknown kernel {asked!r}; known: {', '.join(KERNELS)}, or FILE.py:FUNCTION for a listing of your own")
    from iosim.attention import own_kernels  # what few runs need

    made = own_kernels.of_file(asked) if isinstance(asked, str) else own_kernels.of_listing(asked)
    if made.name in KERNELS and not ours(made):
        raise BadInput(f"{made.name!r} is one of iosim's own kernels; call yours otherwise")
    if made.forward is not None and not ours(made):
        own_kernels.check_forward(made, kernel(made.forward))
    SEEN[made.name] = made
    return made


def known(name: str) -> Kernel:
    """The kernel of a record: one of ours, or the last one of a user that was asked for under this name."""
    return KERNELS.get(name) or SEEN[name]
