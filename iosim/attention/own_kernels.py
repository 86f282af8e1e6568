"""Kernels of users: a listing in a file or in a notebook, declared, or understood by the names of its parameters."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from itertools import count
from types import ModuleType

from iosim.attention.declaration import ANY, ARRAYS, GIVEN, Array, Kernel, declarations, fills, keeps, reads
from iosim.core.errors import BadInput, IosimError
from iosim.core.options import OPTIONS, Option
from iosim.machine import ledger

OWN, NUMBERS = "iosim_own_kernels_", count()  # how the modules of users' files are called
HOMES: dict[Kernel, str] = {}  # where kernels of files were found, as FILE.py:FUNCTION
IMPORTED: dict[str, tuple[dict[str, bytes], ModuleType]] = {}  # by file: what it and the modules beside it held, and its module
SPELLED = {"L": "l", "M": "m"}  # parameters that say what an array is in the capitals of the papers
FILLED = ("O", "LSE", "l", "m", "dQ", "dK", "dV")  # what a listing of attention leaves behind; the rest only waits in HBM
DECLARE = 'declare it: @iosim.kernel(reads("Q", "K", "V"), fills("O"), keeps(Array("X", "n", "dv")))'


def of_file(asked: str) -> Kernel:
    """The kernel of ``FILE.py:FUNCTION``, or of ``FILE.py:NAME`` for the name that a declaration gives it.

    Raises :class:`BadInput` naming what is not there or fails.
    """
    path, _, name = asked.rpartition(":")
    if not path.endswith(".py"):
        raise BadInput(f"{path!r} is no Python file; give FILE.py:FUNCTION")
    if not os.path.isfile(path):
        raise BadInput(f"there is no file {path!r}; give FILE.py:FUNCTION")
    found = vars(_module(os.path.realpath(path)))
    functions = {name: value for name, value in found.items() if inspect.isfunction(value) and value.__module__ == found["__name__"]}
    declared = {made.name: made for function in functions.values() for made in declarations(function)}
    if name not in found and name not in declared:
        there = ", ".join(name for name in functions if not name.startswith("_")) or "none"
        raise BadInput(f"{path} has no function {name!r}; it has: {there}")
    made = of_listing(found[name], name) if name in found else declared[name]
    HOMES[made] = f"{os.path.realpath(path)}:{name}"
    return made


def _module(place: str) -> ModuleType:
    """The module of a file, imported anew where the file or a module beside it has changed."""
    held, module = IMPORTED.get(place, ({}, None))
    if module is None or any(_bytes(file) != source for file, source in held.items()):
        held, module = IMPORTED[place] = _imported(place)
    return module


def _imported(place: str) -> tuple[dict[str, bytes], ModuleType]:
    """A module, and what its file and those of the modules beside it hold; other files may have others of the same name beside them."""
    name, folder, before = f"{OWN}{next(NUMBERS)}", os.path.dirname(place), {*sys.modules}
    module = sys.modules[name] = ModuleType(name)
    module.__file__, source = place, _bytes(place)
    sys.path.insert(0, folder)
    try:
        with redirect_stdout(sys.stderr):  # where it spoils no answer
            exec(compile(source, place, "exec", dont_inherit=True), vars(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _told(error, f"{place} fails when it is imported", _line(error, place)) from None
    finally:
        sys.path.remove(folder)
        beside = {name: one for name, one in sys.modules.items() if name.partition(".")[0] not in before and _is_in(one, folder)}
        for one in beside:
            del sys.modules[one]
    return {file: _bytes(file) for file in [place, *(str(one.__file__) for one in beside.values())]}, module


def _bytes(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read()


def _is_in(module: ModuleType, folder: str) -> bool:
    home = sys.modules[module.__name__.partition(".")[0]].__file__ or ""
    return folder in (os.path.dirname(home), os.path.dirname(os.path.dirname(home)) if home.endswith("__init__.py") else "")


def of_listing(listing: Callable[..., None], name: str | None = None) -> Kernel:
    """The kernel that a function was declared to be, or that the names of its parameters say; ``name`` is how it was asked for.

    Raises :class:`BadInput` for what is no function, and for parameters that cannot be understood.
    """
    if not inspect.isfunction(listing):
        what = f"{name or repr(listing)}, which is of type {type(listing).__name__}"
        raise BadInput(f"a kernel must be a name, a function such as def name(m, Q, K, V, O, ...), or FILE.py:FUNCTION, not {what}")
    found = declarations(listing)
    made = found[0] if found else undeclared(listing, name or listing.__name__)
    return made


def check_forward(made: Kernel, forward: Kernel) -> None:
    """Raise :class:`BadInput` for a backward kernel that reads what its forward kernel does not leave behind."""
    known = [array.name for array in forward.arrays if array.role != "scratch"]
    if strange := [name for name in made.inputs if name not in (*known, "dO")]:
        raise BadInput(f"{made} reads {', '.join(strange)}, but its forward kernel {forward} has: {', '.join(known)}, and dO is given")


@cache
def undeclared(listing: Callable[..., None], name: str) -> Kernel:
    """The kernel that the names of its parameters say: known arrays, then by keyword what iosim gives and options with defaults."""
    given = [one for one in list(inspect.signature(listing).parameters.values())[1:] if one.name not in GIVEN and one.kind not in ANY]
    arrays = [one.name for one in given if one.default is one.empty or (one.default is None and SPELLED.get(one.name, one.name) in ARRAYS)]
    spelled = [SPELLED.get(array, array) for array in arrays]
    unknown = [array for array, known in zip(arrays, spelled, strict=True) if known not in ARRAYS]
    if unknown or not {"Q", "K", "V"} <= {*spelled}:
        understood = ", ".join(array for array in arrays if array not in unknown) or "none"
        what = f"knows no array {', '.join(unknown)}" if unknown else "needs Q, K and V"
        raise BadInput(f"{name} cannot be understood by its parameters: iosim {what}; understood: {understood}; {DECLARE}")
    options = tuple(_option(one) for one in given if one.name not in arrays)
    return Kernel(name, listing, tuple(map(_role, spelled)), options, computes="exact" if "O" in spelled else None)


def _role(array: str) -> Array:
    if array in ("Q", "K", "V", "dO"):
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
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        frames, code = traceback.extract_tb(error.__traceback__), inspect.unwrap(kernel.listing).__code__
        if any(frame.filename == ledger.__file__ and frame.name == "emit" for frame in frames):
            raise  # it is an observer's, such as of a pipe that was closed
        told = _told(error, place_of(kernel), _line(error, code.co_filename) or code.co_firstlineno)
        raise told from None if isinstance(error, IosimError) else error


def place_of(kernel: Kernel) -> str:
    """The file of a listing, or its name where it was typed into a notebook."""
    file = inspect.unwrap(kernel.listing).__code__.co_filename
    return os.path.basename(file) if os.path.isfile(file) else str(kernel)


def _line(error: BaseException, file: str) -> int | None:
    """The line of a file in which an error came up, if it came up there."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    return next((frame.lineno for frame in reversed(traceback.extract_tb(error.__traceback__)) if frame.filename == file), None)


def _told(error: BaseException, where: str, line: int | None) -> IosimError:
    """An error in one line, which says where it came up."""
    spelled = traceback.format_exception_only(error)[0].partition(": ")[2]  # also of one that cannot spell itself
    text = " ".join((error.msg if isinstance(error, SyntaxError) else spelled).split())
    place = where if line is None else f"{where}, line {line}"
    if isinstance(error, IosimError):
        return type(error)(f"{place}: {text}")
    return BadInput(f"{place}: {type(error).__name__}{text and ': '}{text}")
