"""The kernels that have closed forms, by name: found in :mod:`iosim.predict.forms`, one file a family."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from iosim.core.errors import BadInput
from iosim.predict import forms
from iosim.predict.formula import Formula, Outside

FORMULAS: dict[str, Formula] = {}
for _module in iter_modules(forms.__path__):
    FORMULAS |= import_module(f"{forms.__name__}.{_module.name}").FORMS
KERNELS = tuple(FORMULAS)


def formula(kernel: str) -> Formula:
    """The closed forms of ``kernel``; raises :class:`iosim.core.errors.BadInput` naming those that exist."""
    if kernel not in FORMULAS:
        raise BadInput(f"no closed form for {kernel!r}; known: {', '.join(KERNELS)}")
    return FORMULAS[kernel]


def outside(kernel: str) -> Outside:
    """The axis of the outer loop, whose block is kept on chip while the blocks of the other axis stream past it.

    >>> outside("flash"), outside("flash2")
    ('keys', 'queries')
    """
    return formula(kernel).outside


def theta(kernel: str) -> str:
    """How the words of ``kernel`` grow (FlashAttention paper, Theorems 2 and 5, Proposition 4); s is the kept fraction of the tiles.

    >>> theta("flash")
    'Θ(N²d²/M)'
    """
    return formula(kernel).theta
