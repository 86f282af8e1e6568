"""The options by name, and how a command shows those that it takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

import click
from click.core import ParameterSource

from iosim.attention.catalogue import FORWARD, KERNELS, kernel
from iosim.attention.declaration import Kernel
from iosim.attention.passes import PASSES, Pass
from iosim.attention.plan import BlockChoice, Overflow
from iosim.cli import reading
from iosim.core import dtypes
from iosim.core.errors import BadInput
from iosim.core.hardware import Device
from iosim.core.options import OPTIONS as KNOWN
from iosim.core.options import Option, Value
from iosim.core.units import Capacity

F = TypeVar("F", bound=Callable[..., object])
Reader = Callable[[str, str], object]


class Given(TypedDict, total=False):
    """What a command was given, read and checked one by one; a command has the keys of the options that it takes."""

    n: int
    nk: int | None
    d: int
    dv: int | None
    batch: int
    heads: int
    kv_heads: int | None
    dtype: str
    scale: float | None
    causal: bool
    window: tuple[int, int] | None
    mask: str | None
    block_mask: str | None
    dropout: float
    seed: int
    pass_: Pass | None
    over: str | None
    lengths: tuple[int, ...] | None
    sizes: tuple[Capacity, ...] | None
    kernels: tuple[Kernel, ...]
    sram: Capacity
    device: Device | None
    blocks: BlockChoice
    overflow: Overflow | None
    no_execute: bool
    variants: dict[str, Value]
    json: bool
    csv: bool
    plot: str | None
    out: str | None


def valued(flag: str, metavar: str, read: Reader, told: str, name: str | None = None, **more: Any) -> Callable[[F], F]:
    """An option whose text is ``read``.

    Args:
        flag: How it is asked for.
        metavar: What stands for its text in the help.
        read: Takes the option's spelling and the text.
        told: The help.
        name: That of its parameter, where the flag does not say it.
        more: As for :func:`click.option`.
    """
    return click.option(*filter(None, (flag, name)), metavar=metavar, callback=reading.given(read), help=told, **more)


OPTIONS = {
    "n": valued("--n", "ROWS", reading.rows, "Query rows N.", default="1024"),
    "nk": valued("--nk", "ROWS", reading.rows, "Key rows; N where not given."),
    "d": valued("--d", "WIDTH", reading.whole, "Columns of Q and K.", default="64"),
    "dv": valued("--dv", "WIDTH", reading.whole, "Columns of V and O; d where not given."),
    "batch": valued("--batch", "COUNT", reading.whole, "Sequences.", default="1"),
    "heads": valued("--heads", "COUNT", reading.whole, "Heads a sequence.", default="1"),
    "kv_heads": valued(
        "--kv-heads", "COUNT", reading.whole, "KV heads a sequence, each shared by a group of heads; as many as heads where not given."
    ),
    "dtype": click.option(
        "--dtype", type=click.Choice(dtypes.NAMES), metavar="TYPE", default="float32",
        help=f"Element type in HBM: {', '.join(dtypes.NAMES)}; float16 where a --device is given.",
    ),
    "scale": valued("--scale", "X", reading.number, "Factor on QKᵀ; 1/√d where not given, and 0 is a value."),
    "causal": click.option("--causal", is_flag=True, help="Query i attends to keys j ≤ i + nk − n (aligned bottom-right)."),
    "window": valued("--window", "LEFT,RIGHT", reading.window, "Keys to the left and right of the diagonal; -1 = all."),
    "mask": click.option("--mask", metavar="FILE.npy", help="Element mask (n, nk), True = may attend; it lives in HBM and is counted."),
    "block_mask": click.option(
        "--block-mask", metavar="SPEC", help="Tiles that may attend: butterfly, local:1+global:1, random:0.25, a .npy grid ..."
    ),
    "dropout": valued("--dropout", "P", reading.probability, "Probability that a weight is dropped.", default="0"),
    "seed": valued("--seed", "SEED", reading.seed, "Seed of the random inputs, and of dropout.", default="0"),
    "pass_": click.option(
        "--pass", "pass_", type=click.Choice(PASSES),
        help="forward, backward, or both: words are summed, of peaks the larger counts; the KERNEL itself where not given.",
    ),
    "over": click.option("--over", type=click.Choice(("n", "sram")), help="The axis of the curve; both where not given."),
    "lengths": valued("--n", "RANGE", reading.lengths, "N: 256..65536 doubles, 256..4096:256 steps, 1,2,3 lists.", "lengths"),
    "sizes": valued("--sram", "RANGE", reading.sizes, "M: a size, or a range of sizes, as for N.", "sizes"),
    "kernels": valued("--kernels", "NAMES", reading.kernels, "Kernels, joined by commas.", default=",".join(FORWARD)),
    "sram": valued("--sram", "SIZE", reading.size, "Capacity M: words, or bytes with a suffix.", default="100KiB"),
    "device": valued("--device", "NAME", reading.device, "Take M from one SM of a device that iosim devices lists, or of a .toml file."),
    "blocks": valued("--blocks", "fit|paper|best|BRxBC", reading.blocks, "Tile heights, or the rule for them.", default="fit"),
    "own_blocks": valued("--blocks", "BRxBC", reading.explicit_blocks, "Blocks to show beside those of the rules."),
    "overflow": click.option(
        "--overflow", type=click.Choice(("error", "record")), help="Stop where M is exceeded, or go on and record it."
    ),
    "no_execute": click.option("--no-execute", is_flag=True, help="Count only; compute no values."),
    "json": click.option("--json", is_flag=True, help="One JSON document with exact integers."),
    "csv": click.option("--csv", is_flag=True, help="The rows as CSV."),
    "plot": valued("--plot", "FILE", reading.plot, "Also draw to FILE: .png, .svg or .pdf."),
    "out": valued("--out", "FILE", reading.output, "Write to FILE instead of standard output; it appears whole or not at all."),
}  # fmt: skip


class Variant(click.Option):
    """An option of listings, as opposed to one of the command."""


def variant(option: Option, kernels: Iterable[Kernel]) -> Callable[[F], F]:
    """An option of listings on the command line; its help says which of ``kernels`` have it."""
    who = ", ".join(one.name for one in kernels if option.name in one.has)
    told = f"{option.help[:1].upper()}{option.help[1:]} ({who})."
    if isinstance(option.default, bool):
        return click.option(option.flag, option.name, cls=Variant, is_flag=True, flag_value=not option.default, default=None, help=told)
    if isinstance(option.default, str):
        return click.option(option.flag, option.name, cls=Variant, type=click.Choice([str(one) for one in option.choices]), help=told)
    return valued(option.flag, "COUNT", reading.whole, told, option.name, cls=Variant)


VARIANTS = tuple(dict.fromkeys([*KNOWN, *(option.name for one in KERNELS.values() for option in one.options)]))
OWN = {option.name: option for one in KERNELS.values() for option in one.options}
OPTIONS |= {name: variant(OWN[name], KERNELS.values()) for name in VARIANTS}
SECTIONS = {
    "The problem": (
        "n", "own_n", "nk", "d", "own_d", "dv", "batch", "heads", "kv_heads", "dtype", "scale",
        "causal", "window", "mask", "block_mask", "dropout", "seed", "backward",
    ),
    "The curve": ("over", "lengths", "sizes"),
    "The machine": (
        "kernels", "own_kernels", "rivals", "pass_", "sram", "reach", "device", "blocks", "shown", "tiles", "threads", "overflow",
        "no_execute", "meters", "arch", "jobs",
    ),
    "Variants of the listings": VARIANTS,
    "Other questions": ("best", "accounting", "check", "of", "open_sizes"),
    "Output": ("arrays", "json", "csv", "html", "beside", "source", "plot", "out", "ptx"),
}  # fmt: skip
SIZES = ("n", "nk", "d", "dv", "batch", "heads", "kv_heads", "dtype")
RULES = ("causal", "window", "mask", "block_mask", "dropout")
OF_USERS = "iosim.options"  # where a context keeps the options of listings of users
CAPACITIES = ("sram", "sizes", "reach")


def takes(*names: str) -> Callable[[F], F]:
    """Give a command the options of these names; wherever M can be given, a device can be named instead."""
    return takes_of(OPTIONS, [option for name in names for option in ((name, "device") if name in CAPACITIES else (name,))])


def takes_of(options: Mapping[str, Callable[[F], F]], names: Sequence[str]) -> Callable[[F], F]:
    """Give a command those of some options that have these names."""

    def decorate(function: F) -> F:
        for name in reversed(names):
            function = options[name](function)
        return function

    return decorate


class Command(click.Command):
    """A command whose help shows its options section by section, and which prints in one form at a time."""

    def invoke(self, ctx: click.Context) -> object:
        """Run it, unless two forms are asked for."""
        if ctx.params.get("json") and ctx.params.get("csv"):
            raise BadInput("--json and --csv are two forms of one answer; ask for one of them")
        if ctx.params.get("device") is not None:
            place(ctx, ctx.params["device"])
        variants = {str(param.name): ctx.params.pop(str(param.name)) for param in self.get_params(ctx) if isinstance(param, Variant)}
        if variants:
            ctx.params["variants"] = {name: value for name, value in variants.items() if value is not None}
        return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with the options of listings of users that are named."""
        kernels, errors = kernels_in(args)
        ctx.meta[OF_USERS] = of_users(kernels, super().get_params(ctx)) if self._takes_variants() else []
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise next(iter(errors), error) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its own parameters, and the options of listings of users."""
        return [*super().get_params(ctx), *ctx.meta.get(OF_USERS, ())]

    def _takes_variants(self) -> bool:
        return any(isinstance(param, Variant) for param in self.params)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The sections that the command has something of."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {option.name: record for option in options if (record := option.get_help_record(ctx)) is not None}
        for title, names in SECTIONS.items():
            also = [str(option.name) for option in options if isinstance(option, Variant)] if names is VARIANTS else []
            found = [records.pop(name) for name in dict.fromkeys((*names, *also)) if name in records]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
        with formatter.section("Other"):
            formatter.write_dl(list(records.values()))


def kernels_in(args: Iterable[str]) -> tuple[list[Kernel], list[BadInput]]:
    """The kernels of files that arguments name, and what is wrong with others, if these are kernels at all."""
    texts = [arg.partition("=")[2] if arg.startswith("--") and "=" in arg else arg for arg in args]
    found, errors = dict[Kernel, None](), list[BadInput]()
    for name in (name for text in texts for name in _names(text) if ".py:" in name):
        try:
            found[kernel(name)] = None
        except BadInput as error:  # which the command tells where it reads the kernel, unless it stops before
            errors.append(error)
    return [*found], errors


def _names(text: str) -> list[str]:
    path = text.rpartition(":")[0]
    return [text] if "," in path and os.path.exists(path) else text.split(",")


def of_users(kernels: Sequence[Kernel], params: Iterable[click.Parameter]) -> list[click.Parameter]:
    """The options of listings of users, each once; raises :class:`BadInput` for one that is called like something else beside it."""
    taken, own = {name for param in params for name in (param.name, *param.opts)}, dict[str, Option]()
    options = [(one, option) for one in kernels for option in one.options if option.name not in VARIANTS]
    for one, option in options:
        known = own.setdefault(option.name, option)
        flags = {other.flag for other in own.values() if other is not known}
        if {option.name, option.flag} & {*taken, *flags} or _kind(option) != _kind(known):
            raise BadInput(f"{one} has an option {option.flag}, which means something else in this command; give it another name")
    return [_parameter(variant(option, kernels)) for option in own.values()]


def _kind(option: Option) -> tuple[object, ...]:
    return type(option.default), option.flag, option.choices if isinstance(option.default, str) else ()


def _parameter(decorate: Callable[[Callable[[], None]], Callable[[], None]]) -> click.Parameter:
    """The parameter that a decorator of click adds."""

    def nothing() -> None: ...

    found: list[click.Parameter] = vars(decorate(nothing))["__click_params__"]  # where click keeps them
    return found[0]


def place(ctx: click.Context, device: Device) -> None:
    """Let a device say M, and the element type unless that is given; raises :class:`BadInput` where M is given, too."""
    for name in CAPACITIES:
        if name in ctx.params:
            if _is_given(ctx, name):
                raise BadInput(f"--sram and --device {device.key} both say what M is; ask for one of them")
            ctx.params[name] = device.sram if name == "sram" else (device.sram,)
    if not _is_given(ctx, "dtype"):
        ctx.params["dtype"] = "float16"


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not ParameterSource.DEFAULT


def _kernel(context: click.Context, argument: click.Parameter, text: str | None) -> Kernel:
    if text is None:
        raise no_kernel(context)
    return reading.kernel("KERNEL", text)


def no_kernel(context: click.Context) -> BadInput:
    """What a command says that was given no kernel."""
    return BadInput(f"{context.info_name} needs a kernel: {', '.join(KERNELS)}")


kernel_argument = click.argument("kernel", metavar="KERNEL", required=False, callback=_kernel)
