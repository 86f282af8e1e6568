"""Kernels of users: a listing in a file or in a notebook, declared, or understood by the names of its parameters."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from iosim.attention.declaration import ARRAYS, GIVEN, Array, Kernel, declarations, fills, keeps, reads
from iosim.core.errors import BadInput, IosimError
from iosim.core.options import OPTIONS, Option

OWN = "iosim_own_kernels_"  # how the modules of users' files are called
SPELLED = {"L": "l", "M": "m"}  # parameters that say what an array is in the capitals of the papers
FILLED = ("O", "LSE", "l", "m", "dQ", "dK", "dV")  # what a listing of attention leaves behind; the rest only waits in HBM
DECLARE = 'declare it: @iosim.kernel(reads("Q", "K", "V"), fills("O"), keeps(Array("X", "n", "dv")))'


def of_file(asked: str) -> Kernel:
    """The kernel of ``FILE.py:FUNCTION``; raises :class:`BadInput` naming what is not there or fails."""
    path, _, function = asked.rpartition(":")
    if not Path(path).is_file():
        raise BadInput(f"there is no file {path!r}; give FILE.py:FUNCTION")
    if not path.endswith(".py"):
        raise BadInput(f"{path!r} is no Python file; give FILE.py:FUNCTION")
    module = _module(str(Path(path).resolve()), Path(path).stat().st_mtime_ns)
    there = [name for name, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__]
    if function not in there:
        raise BadInput(f"{path} has no function {function!r}; it has: {', '.join(there) or 'none'}")
    return of_listing(getattr(module, function), asked)


@cache
def _module(place: str, _: int) -> ModuleType:
    name = f"{OWN}{len(sys.modules)}"
    spec = spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise BadInput(f"{place} fails when it is imported{_where(error, place)}: {type(error).__name__}: {error}") from None
    return module


def _where(error: BaseException, place: str) -> str:
    if isinstance(error, SyntaxError) and error.filename == place:
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == place]
    return f", line {lines[-1]}" if lines else ""


def of_listing(listing: Callable[..., None], asked: str | None = None) -> Kernel:
    """The kernel that a function was declared to be, or that the names of its parameters say.

    Raises :class:`BadInput` for what is no function, for a name of ours, and for parameters that cannot be understood.
    """
    if not inspect.isfunction(listing):
        raise BadInput(f"a kernel must be a name, a listing or FILE.py:FUNCTION, not {listing!r}")
    found = declarations(listing)
    made = found[0] if found else undeclared(listing)
    return made


@cache
def undeclared(listing: Callable[..., None]) -> Kernel:
    """The kernel that the names of its parameters say: known arrays, then by keyword what iosim gives and options with defaults."""
    parameters = list(inspect.signature(listing).parameters.values())[1:]
    positional = [parameter.name for parameter in parameters if parameter.default is parameter.empty and parameter.name not in GIVEN]
    spelled = [SPELLED.get(name, name) for name in positional]
    unknown = [name for name, array in zip(positional, spelled, strict=True) if array not in ARRAYS]
    if unknown or not {"Q", "K", "V"} <= {*spelled}:
        known = ", ".join(name for name in positional if name not in unknown) or "none"
        what = f"knows no array {', '.join(unknown)}" if unknown else "needs Q, K and V"
        raise BadInput(f"{listing.__name__} cannot be understood by its parameters: iosim {what}; understood: {known}; {DECLARE}")
    if "dO" in positional:
        raise BadInput(
            f"{listing.__name__} reads dO, so it is a backward pass; declare it, with forward= the kernel whose outputs it reads"
        )
    own = [parameter for parameter in parameters if parameter.default is not parameter.empty and parameter.name not in GIVEN]
    arrays = tuple(map(_role, spelled))
    return Kernel(listing.__name__, listing, arrays, tuple(map(_option, own)), computes="exact" if "O" in spelled else None)


def _role(array: str) -> Array:
    if array in ("Q", "K", "V"):
        return reads(array)[0]
    return (fills if array in FILLED else keeps)(array)[0]


def _option(parameter: inspect.Parameter) -> Option:
    known = OPTIONS.get(parameter.name)
    if known is None and isinstance(parameter.default, str):
        raise BadInput(
            f"the option {parameter.name} takes a text; declare it: Option({parameter.name!r}, {parameter.default!r}, help, choices)"
        )
    return known or Option(parameter.name, parameter.default, "an option of this listing")


@contextmanager
def told_where(kernel: Kernel) -> Iterator[None]:
    """Errors in a listing of a user name its file and line; whatever is not iosim's own becomes a :class:`BadInput`."""
    try:
        yield
    except Exception as error:
        code = kernel.listing.__code__
        raise _placed(error, code.co_filename, code.co_firstlineno) from None


def _placed(error: Exception, file: str, first: int) -> Exception:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f"{Path(file).name}, line {lines[-1] if lines else first}"
    if isinstance(error, IosimError):
        return type(error)(f"{where}: {error}")
    return BadInput(f"{where}: {type(error).__name__}: {error}")
