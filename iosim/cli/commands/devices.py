"""The GPUs that --device knows, with the source of every number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import click

from iosim.cli.options import Command, Given, takes
from iosim.cli.output import Answer, Record, deliver, width
from iosim.cli.wrapping import wrapped
from iosim.core.hardware import DEVICES, Device, Quantity, device
from iosim.core.tables import Cell, table

LABELS = {
    "sms": "SMs", "shared_memory_per_sm": "shared per SM", "shared_memory_per_block": "shared per block", "l2": "L2 cache",
    "memory": "memory", "bandwidth": "bandwidth", "fp16_tensor_rate": "float16 tensor", "fp32_rate": "float32",
}  # fmt: skip
RECALLED = "?"
WIDTHS = {"float16": 2, "float32": 4}


@click.command("devices", cls=Command)
@click.argument("name", metavar="[NAME]", required=False)
@takes("json", "csv")
def command(name: str | None, **given: Unpack[Given]) -> None:
    """List the devices that --device knows, or every number of NAME with its unit, its source, and whether it was read there.

    Where a command takes --sram, --device NAME takes M from the shared memory of one SM instead, and float16 as element type. NAME
    can also be the path of a .toml file of the same form as the presets in iosim/core/hardware/devices.

    \b
    iosim devices a100-40gb
    iosim run flash2 --device a100-40gb --n 4096
    """
    if name is not None:
        chip = device(name)
        deliver(given, Answer(text_of(chip), document_of(chip), numbers_of(chip)))
        return
    chips = [device(preset) for preset in DEVICES]
    deliver(given, Answer(listed(chips), [document_of(chip) for chip in chips], [row_of(chip) for chip in chips]))


def listed(chips: Sequence[Device]) -> str:
    """The devices as a table, one line each."""
    head = ["device", "SMs", "KiB/SM", "M float16", "M float32", "L2 MiB", "DRAM GB", "GB/s", "TFLOP/s"]
    rows: list[list[Cell]] = [[chip.key, *cells_of(chip)] for chip in chips]
    notes = [
        "M: the shared memory of one SM, in words of either type; --device takes it as M.",
        "TFLOP/s: dense float16 products on the tensor cores, accumulated in float32.",
        f"{RECALLED} recalled, not read in a source. The source of each number: iosim devices NAME",
    ]
    return "\n".join([table(head, rows, right=head[1:]), "", *(wrapped(note, width()) for note in notes)])


def cells_of(chip: Device) -> list[Cell]:
    """What the table says of a device; a number that was not read in a source is marked."""
    sms, shared, l2, memory, bandwidth, rate = (
        marked(chip.quantity(field)) for field in ("sms", "shared_memory_per_sm", "l2", "memory", "bandwidth", "fp16_tensor_rate")
    )
    return [sms, shared, *(f"{chip.sram.words(size):,} " for size in WIDTHS.values()), l2, memory, bandwidth, rate]


def marked(number: Quantity) -> str:
    """A number with its mark, or with a space in its place."""
    return f"{number.value:,}{RECALLED if number.confidence == 'recalled' else ' '}"


def text_of(chip: Device) -> str:
    """Every number of a device as a table, and what M is."""
    rows: list[list[Cell]] = [
        [LABELS[number.field], f"{number.value:,}", number.unit if number.field != "sms" else "", number.confidence, number.source]
        for number in chip.quantities
    ]
    notes = [
        f"M, the shared memory of one SM: {in_words(chip)}.",
        "float16 tensor: dense, on the tensor cores, accumulated in float32; float32: on the other cores.",
    ]
    title = f"{chip.key}: {chip.name}, compute capability {chip.compute_capability}"
    numbers = table(["number", "value", "unit", "confidence", "source"], rows, right=["value"], width=width())
    return "\n".join([wrapped(title, width()), "", numbers, "", *(wrapped(note, width()) for note in notes)])


def in_words(chip: Device) -> str:
    """M in bytes, and in words of the common types."""
    parts = [f"{chip.sram.words(size):,} words of {name}" for name, size in WIDTHS.items()]
    return " = ".join([f"{chip.sram.amount:,} bytes", *parts])


def document_of(chip: Device) -> Record:
    """A device as a record: M, and each number as its table prints it and in base units."""
    numbers = {
        number.field: {
            "value": number.value, "unit": number.unit, "base_value": number.base, "base_unit": number.kind.base,
            "source": number.source, "confidence": number.confidence,
        }
        for number in chip.quantities
    }  # fmt: skip
    return {**_named(chip), **_sram(chip), "numbers": numbers}


def numbers_of(chip: Device) -> list[Record]:
    """One row a number."""
    return [
        {
            "device": chip.key, "number": number.field, "value": number.value, "unit": number.unit,
            "confidence": number.confidence, "source": number.source,
        }
        for number in chip.quantities
    ]  # fmt: skip


def row_of(chip: Device) -> Record:
    """A device as one row, in base units."""
    units = {number.field: f"{number.field} ({number.kind.base})" if number.field != "sms" else "sms" for number in chip.quantities}
    return {**_named(chip), **_sram(chip), **{units[number.field]: number.base for number in chip.quantities}}


def _named(chip: Device) -> Record:
    return {"device": chip.key, "name": chip.name, "compute_capability": chip.compute_capability}


def _sram(chip: Device) -> Record:
    words = {f"sram_words_{name}": chip.sram.words(size) for name, size in WIDTHS.items()}
    return {"sram": chip.sram.amount, "sram_unit": chip.sram.unit, **words}
