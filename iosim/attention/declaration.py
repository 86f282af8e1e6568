"""The declaration of a kernel, which stands beside its listing: its arrays, its options, and what it computes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from inspect import Parameter, isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, signature, unwrap
from typing import Any, Literal, Protocol, TypeVar, get_args

from iosim.core.errors import BadInput
from iosim.core.expressions import evaluate
from iosim.core.masks.block import BlockMask
from iosim.core.options import OPTIONS, Option, Options, Value
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity

Listing = TypeVar("Listing", bound=Callable[..., None])
Role = Literal["input", "output", "scratch"]
Type = Literal["storage", "accumulator", "scores", "bool"]


class Asked(Protocol):
    """What a declaration may look at: the problem, the blocks and the options of a plan."""

    @property
    def problem(self) -> Attention:
        """The attention problem."""

    @property
    def blocks(self) -> Blocks:
        """The blocks that were chosen."""

    @property
    def options(self) -> Options:
        """The values of the kernel's options."""


GIVEN = ("Br", "Bc", "scale", "mask")
"""What a listing is given by keyword, where it has such a parameter."""
ANY = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
AROUND = ("skip", "accumulator", "pack")
"""Options that say what a listing is given, and need be no parameters of it."""
SIZES = ("n", "nk", "d", "dv", "Br", "Bc")
"""What shapes are made of, beside the number options."""
TAKEN = {
    *SIZES, *GIVEN, "name", "problem", "kernel", "kernels", "expression", "sram", "blocks", "overflow", "execute", "inputs", "seed",
    "replay", "check", "registers", "device", "executor", "progress", "beside", "of", "dtype", "causal", "window", "dropout", "backward",
}  # fmt: skip
"""Names that an option cannot have: what iosim's functions take beside the options of a kernel."""


@cache
def parameters(listing: Callable[..., None]) -> Mapping[str, Parameter]:
    """The parameters of a listing by name."""
    return signature(listing).parameters


def always(_: Attention, __: Options) -> bool:
    """An array that a listing has for every problem."""
    return True


@dataclass(frozen=True, slots=True)
class Array:
    """An HBM array of a listing.

    Args:
        name: its name in reports; the parameter of the listing may be called otherwise.
        rows, cols: its shape, as expressions in n, nk, d, dv, Br, Bc and the number options of the kernel.
        type: "storage", the type of Q; "accumulator", that of sums; "scores", that of S and P; "bool", one byte.
        role: "input"; "output", which must be written whole; "scratch", which only waits in HBM between tiles.
        per_kv_head: the query heads of a group share it; where each of them fills it, their shares are summed.
        infinite: it may hold -inf.
        when: the problems and options for which the listing has it.
        instead: the array that the listing gets otherwise; None for no array.
    """

    name: str
    rows: str
    cols: str
    type: Type = "storage"
    role: Role = "input"
    per_kv_head: bool = False
    infinite: bool = False
    when: Callable[[Attention, Options], bool] = always
    instead: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier() or self.name in GIVEN:
            raise BadInput(f"an array needs a Python name, and none of {', '.join(GIVEN)}, not {self.name!r}")
        for what, value, known in (("type", self.type, get_args(Type)), ("role", self.role, get_args(Role))):
            if value not in known:
                raise BadInput(f"the array {self.name} has the {what} {value!r}; known: {', '.join(known)}")


def _known() -> Iterator[Array]:
    for name, rows, cols, shared in (("Q", "n", "d", False), ("K", "nk", "d", True), ("V", "nk", "dv", True), ("O", "n", "dv", False)):
        yield Array(name, rows, cols, per_kv_head=shared)
        yield Array(f"d{name}", rows, cols, per_kv_head=shared)
    for name in ("O_acc", "dQ_acc"):
        yield Array(name, "n", "dv" if name == "O_acc" else "d", "accumulator")
    for name in ("S", "P", "dS", "dP", "Pd", "dPd"):
        yield Array(name, "n", "nk", "scores")
    yield Array("R", "n", "nk", "bool")
    for name in ("l", "m", "LSE", "D"):
        yield Array(name, "n", "1", "accumulator", infinite=name in ("m", "LSE"))


ARRAYS = {array.name: array for array in _known()}
"""The arrays of the papers, which declarations and parameters may call by their names."""


def _arrays(role: Role, given: tuple[str | Array, ...]) -> tuple[Array, ...]:
    for array in given:
        if not isinstance(array, Array) and (not isinstance(array, str) or array not in ARRAYS):
            raise BadInput(f"no array {array!r} is known; known: {', '.join(ARRAYS)}; declare others as Array(name, rows, cols)")
    return tuple(replace(ARRAYS[array] if isinstance(array, str) else array, role=role) for array in given)


def reads(*arrays: str | Array) -> tuple[Array, ...]:
    """Input arrays, by name or declared."""
    return _arrays("input", arrays)


def fills(*arrays: str | Array) -> tuple[Array, ...]:
    """Output arrays, which must be written whole."""
    return _arrays("output", arrays)


def keeps(*arrays: str | Array) -> tuple[Array, ...]:
    """Scratch arrays, which only wait in HBM between tiles."""
    return _arrays("scratch", arrays)


def only(name: str, when: Callable[[Attention, Options], bool], instead: str | None = None) -> Array:
    """A known array that a listing has ``when`` something holds; otherwise the listing gets ``instead``."""
    return replace(ARRAYS[name], when=when, instead=instead)


def dropout(problem: Attention, _: Options) -> bool:
    """An array that a listing has where weights are dropped."""
    return problem.dropout > 0


def widened(_: Attention, options: Options) -> bool:
    """An array that a listing has for an accumulator of its own."""
    return bool(options.accumulator == "float32")


def created(_: Attention, options: Options) -> bool:
    """An array that a listing has where the first visit makes values on chip."""
    return bool(options.first_pass == "create")


def no_one(_: Options) -> bool:
    """K and V are never whole on chip."""
    return False


def ideal(options: Options) -> bool:
    """K and V are whole on chip for ``reuse="ideal"``."""
    return bool(options.reuse == "ideal")


def heads(plan: Asked) -> int:
    """One thread block a head."""
    return plan.problem.batch * plan.problem.heads // _packed(plan)


def query_tiles(plan: Asked) -> int:
    """One thread block a query tile of a head."""
    return heads(plan) * -(-plan.problem.n * _packed(plan) // plan.blocks.rows)


def key_tiles(plan: Asked) -> int:
    """One thread block a key tile of a head."""
    return heads(plan) * -(-plan.problem.nk // plan.blocks.cols)


def _packed(plan: Asked) -> int:
    return plan.problem.group if plan.options.pack else 1


def tile_by_tile(plan: Asked) -> Blocks:
    """A product sums over the rows or the keys of one tile."""
    return plan.blocks


def whole_rows(plan: Asked) -> Blocks:
    """P is read, so that its rows were made whole."""
    return Blocks(plan.blocks.rows, plan.problem.nk)


def once(_: Asked) -> int:
    """A tile of the grid is visited in one piece."""
    return 1


def as_given(_: Attention, __: Capacity, ___: dict[str, Value]) -> tuple[str, ...]:
    """Options that are open have their defaults."""
    return ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Kernel:
    """A listing and what it declares.

    Args:
        name: what people call it.
        listing: the function; its parameters are the machine, the arrays in their order, and by keyword Br, Bc, scale, mask and options.
        arrays: the HBM arrays, in the order of the parameters of the listing.
        options: the options of the listing; ``skip``, ``accumulator`` and ``pack`` act around it and are no parameters.
        outside: the axis of the outer loop, whose block is the one kept on chip.
        computes: "exact" attention; "masked", attention on the pairs that its own mask leaves; None, which no oracle judges.
        forward: for a backward kernel, the forward kernel whose outputs it reads, by name, as FILE.py:FUNCTION or as a listing.
        backward: for a forward kernel, its backward kernel, named like that.
        brings: makes the block mask of a problem without one.
        wide: whether K and V stand whole on chip, so that a tile holds all keys.
        settle: fills in options that are open, refuses what contradicts itself, and returns notes for the report.
        grid: how many thread blocks a GPU runs; None for many kernels in a row.
        product: how many rows and keys one product sums over, which the error bounds ask.
        pieces: in how many pieces a tile of the grid is visited.
        source: where the listing is printed.
        paper: it is an algorithm of a paper, not a piece of software.
        usual: comparisons and curves take it where no kernels are named.
        rival: it is compared with the others over M, on problems without a mask.
        colour, mark, letter: how figures and charts show it.
        place: where it stands in lists.
    """

    name: str
    listing: Callable[..., None]
    arrays: tuple[Array, ...]
    options: tuple[Option, ...] = ()
    outside: Literal["queries", "keys"] = "queries"
    computes: Literal["exact", "masked"] | None = "exact"
    forward: str | Callable[..., None] | None = None
    backward: str | Callable[..., None] | None = None
    brings: Callable[[Attention, Blocks], BlockMask] | None = None
    wide: Callable[[Options], bool] = no_one
    settle: Callable[[Attention, Capacity, dict[str, Value]], tuple[str, ...]] = as_given
    grid: Callable[[Asked], int] | None = None
    product: Callable[[Asked], Blocks] = tile_by_tile
    pieces: Callable[[Asked], int] = once
    source: str = ""
    paper: bool = False
    usual: bool = False
    rival: bool = False
    colour: str = "#555555"
    mark: str = "v"
    letter: str = ""
    place: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))
        for wrong in contradictions(self):
            raise BadInput(f"{self.name} {wrong}")

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the listing, the machine first."""
        return parameters(self.listing)

    def takes(self, name: str) -> bool:
        """Whether the listing has a parameter of this name."""
        return name in self.parameters or any(one.kind is one.VAR_KEYWORD for one in self.parameters.values())

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    def named(self, role: Role) -> tuple[str, ...]:
        """The arrays of one role that every problem has."""
        return tuple(array.name for array in self.arrays if array.role == role and array.when is always)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The arrays that it always reads."""
        return self.named("input")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The arrays that it fills."""
        return self.named("output")

    @property
    def pass_(self) -> Literal["forward", "backward"]:
        """Which pass it is."""
        return "forward" if self.forward is None else "backward"

    def option(self, name: str) -> Option:
        """One of its options; raises :class:`BadInput` naming those that it has."""
        for option in self.options:
            if option.name == name:
                return option
        raise BadInput(f"{self.name} has no option {name!r}; it has: {', '.join(self.has) or 'none'}")

    @property
    def has(self) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(option.name for option in self.options)

    def chosen(self, given: dict[str, Any]) -> Options:
        """All its options: the values ``given``, and the defaults of the others; raises :class:`BadInput` for what it does not take."""
        values = {name: self.option(name).checked(value) for name, value in given.items()}
        return Options(**{option.name: option.default for option in self.options} | values)


def contradictions(own: Kernel) -> Iterator[str]:
    """What is wrong with a declaration, each with what would work."""
    yield from _odd_fields(own)
    yield from _odd_options(own)
    yield from _odd_arrays(own)
    yield from _odd_parameters(own)


def _odd_fields(own: Kernel) -> Iterator[str]:
    for field, known in (("computes", ("exact", "masked", None)), ("outside", ("queries", "keys"))):
        if getattr(own, field) not in known:
            yield f"is declared with {field}={getattr(own, field)!r}; known: {', '.join(map(repr, known))}"
    for field in ("brings", "wide", "settle", "grid", "product", "pieces"):
        value = getattr(own, field)
        if not callable(value) and (value is not None or field not in ("brings", "grid")):
            yield f"is declared with {field}={value!r}, which must be a function"
    if not re.fullmatch("#[0-9a-fA-F]{6}", own.colour) or len(own.letter) > 1:
        yield f"is declared with colour={own.colour!r} and letter={own.letter!r}; a colour is spelled #RRGGBB, and a letter is one"
    for odd, what in ((isgeneratorfunction, "a generator"), (iscoroutinefunction, "a coroutine"), (isasyncgenfunction, "a coroutine")):
        if odd(unwrap(own.listing)):
            yield f"is {what}, which does nothing when it is called; write a plain function, without yield and async"


def _odd_options(own: Kernel) -> Iterator[str]:
    for option in own.options:
        if not isinstance(option, Option):
            yield f"declares the option {option!r}; declare it as Option(name, default, help)"
    for option in own.options:
        parameter = own.parameters.get(option.name)
        if own.has.count(option.name) > 1:
            yield f"declares the option {option.name!r} twice; give each a name of its own"
        if option.name in TAKEN or OPTIONS.get(option.name, option) is not option:
            yield f"declares an option {option.name!r}, which means something else to iosim; give it another name"
        if not own.takes(option.name) and option.name not in AROUND:
            yield f"declares an option {option.name!r}, but its listing has no such parameter"
        if parameter is not None and parameter.default not in (parameter.empty, option.default):
            yield f"declares the option {option.name} with {option.default!r}, but its listing has {parameter.default!r}; let both be one"


def _odd_arrays(own: Kernel) -> Iterator[str]:
    names = [array.name for array in own.arrays]
    sizes = dict.fromkeys(SIZES, 1) | {option.name: option.default for option in own.options if type(option.default) is int}
    for array in own.arrays:
        if names.count(array.name) > 1:
            yield f"declares the array {array.name!r} twice; give each a name of its own"
        if array.instead is not None and array.instead not in names:
            yield f"takes {array.instead!r} in place of {array.name}, but declares no such array"
        try:
            evaluate(array.rows, sizes), evaluate(array.cols, sizes)
        except BadInput as error:
            yield f"declares the array {array.name} with a shape that cannot be read: {error}"
    if "dO" in own.inputs and own.forward is None:
        yield "reads dO, so it is a backward pass; declare forward=, the kernel whose outputs it reads"
    made = {"O"} if own.forward is None else {"dQ", "dK", "dV"}
    if own.computes is not None and not made <= {*own.outputs}:
        yield f"computes attention but does not fill {', '.join(sorted(made))}; declare computes=None, or fill them"


def _odd_parameters(own: Kernel) -> Iterator[str]:
    parameters, names = own.parameters.values(), [array.name for array in own.arrays]
    placed = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    first, rest = placed[: 1 + len(names)], placed[1 + len(names) :]
    missing = [one for one in parameters if one.default is one.empty and one.kind not in ANY and one.name not in {*first, *GIVEN, *own.has}]
    room = math.inf if any(one.kind is one.VAR_POSITIONAL for one in parameters) else len(placed)
    if room <= len(names) or missing or {*first} & {*GIVEN, *own.has}:
        wanted = ", ".join(["m", *names, "*", *GIVEN, *own.has])
        yield f"is declared for parameters among ({wanted}), but its listing has {signature(own.listing)}"
    for array, parameter in zip(names, first[1:], strict=False):
        if parameter in names and parameter != array:
            yield f"declares {array} where its listing has {parameter}; declare the arrays in the order of the parameters"
    if alone := [name for name in rest if own.parameters[name].kind is Parameter.POSITIONAL_ONLY]:
        yield f"takes {', '.join(alone)} by position alone, and iosim gives them by keyword; put the / in front of them"


def kernel(*arrays: tuple[Array, ...], name: str | None = None, **declared: Any) -> Callable[[Listing], Listing]:
    """Declare the function below as a kernel: its arrays, in the order of its parameters, and whatever else :class:`Kernel` takes.

    The function itself stays as it is. A second line above the same function declares another kernel of it.

    >>> @kernel(reads("Q", "K", "V"), fills("O"))
    ... def naive(m, Q, K, V, O, *, scale): ...
    >>> declarations(naive)[0].outputs
    ('O',)
    """

    def declare(listing: Listing) -> Listing:
        own = name or listing.__name__.replace("_", "-")
        try:
            if not all(isinstance(array, Array) for some in arrays for array in some):
                raise TypeError("arrays stand in reads(...), fills(...) and keeps(...)")
            made = Kernel(own, listing, tuple(array for some in arrays for array in some), **declared)
        except TypeError as error:
            known = ", ".join(field.name for field in fields(Kernel)[3:])
            raise BadInput(f"{own} cannot be declared so: {error}; a declaration takes {known}") from None
        listing.__dict__["declarations"] = (made, *declarations(listing))
        return listing

    return declare


def declarations(listing: Callable[..., None]) -> tuple[Kernel, ...]:
    """The kernels that a function was declared to be."""
    found: tuple[Kernel, ...] = getattr(listing, "declarations", ())
    return found
