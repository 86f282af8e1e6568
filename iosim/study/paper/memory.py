"""Table 21: the memory of both passes, from the tensors that must live, beside the HBM arrays that our kernels declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from iosim.core.errors import BadInput
from iosim.study.paper.cell_names import labels_of, name_of
from iosim.study.paper.claims import ROUNDED
from iosim.study.paper.compared import NO_KERNEL, Check, Compared, Finding
from iosim.study.paper.counting import IDEAL, Options, Work, asked_of, count
from iosim.study.paper.data import Data
from iosim.study.published import Cell, Measured, Setup, Tensor, flash_live, pytorch_live

MIB = 2**20
SECTION = "Table 21, memory in MiB"
LISTS: dict[str, tuple[Callable[[int, int, int], list[Tensor]], str, Options]] = {
    "PyTorch Attention": (pytorch_live, "pytorch", IDEAL),
    "Megatron": (pytorch_live, "megatron", IDEAL),
    "FlashAttention": (flash_live, "released", ()),
    "Block-Sparse FlashAttention": (flash_live, "released", ()),
}
GROUPS: tuple[tuple[str, tuple[str, ...], bool, str], ...] = (
    (
        "PyTorch, Megatron", ("PyTorch Attention", "Megatron"), True,
        "4 N^2 + 10 N d elements of float16 a head; our kernels declare 4 N^2 + 8 N d: what the other two are is not known",
    ),
    (
        "FlashAttention", ("FlashAttention",), True,
        "11 tensors N x d, one float32 accumulator from two key blocks on, LSE and D; our kernels have no unpadded copies of Q, K and V, "
        "and an accumulator in each pass",
    ),
    (
        "Block-Sparse", ("Block-Sparse FlashAttention",), False,
        "the tensors of FlashAttention; its lists of kept blocks take up to 8 MiB more, in a form that is not stated",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kept:
    """What a method keeps in HBM: the published ``cell``, the tensors ``listed`` for it, and what our kernels ``declared``."""

    cell: Cell
    listed: tuple[Tensor, ...]
    declared: Work

    @property
    def in_all(self) -> int:
        """Bytes of the tensors of the list."""
        return sum(tensor.bytes for tensor in self.listed)

    @property
    def tracked(self) -> int:
        """Bytes of the arrays of both passes of our kernels, each once."""
        return sum(self.declared.arrays.values())

    @property
    def larger_pass(self) -> int:
        """Bytes of the arrays of one pass, the one that has more: the machine's ``peak_hbm_bytes``."""
        return max(self.declared.peaks.values())

    @property
    def missing(self) -> dict[str, int]:
        """The tensors of the list that our kernels do not declare, with their bytes."""
        return {tensor.name: tensor.bytes for tensor in self.listed if tensor.name not in self.declared.arrays}

    @property
    def besides(self) -> dict[str, int]:
        """The arrays of our kernels that the list does not have, with their bytes."""
        names = {tensor.name for tensor in self.listed}
        return {name: size for name, size in self.declared.arrays.items() if name not in names}

    @property
    def explained(self) -> bool:
        """Whether the list and the kernels differ in these alone, so that shared tensors have equal sizes."""
        return self.in_all - self.tracked == sum(self.missing.values()) - sum(self.besides.values())

    def record(self) -> dict[str, object]:
        """The bytes and the differences."""
        return {
            "listed_bytes": self.in_all, "declared_bytes": self.tracked, "larger_pass_bytes": self.larger_pass,
            "listed_only": ", ".join(self.missing), "declared_only": ", ".join(self.besides),
        }  # fmt: skip


def kept(setup: Setup, cell: Cell) -> Kept:
    """List and count one cell; raises :class:`BadInput` for a type other than float16, which the lists are made for.

    >>> from iosim.study.published import table
    >>> cell = next(cell for cell in table(21) if cell.method == "FlashAttention" and cell.n == 4096)
    >>> found = kept(table(21).setup, cell)
    >>> found.in_all / 2**20, found.tracked / 2**20, list(found.missing), list(found.besides)
    (836.0, 772.0, ['Q_unpadded', 'K_unpadded', 'V_unpadded', 'O_tmp or dQ_tmp'], ['O_acc', 'dQ_acc'])
    """
    if setup.dtype != "float16":
        raise BadInput(f"the live tensors are listed for float16 alone; the setup of Table {cell.table} says {setup.dtype}")
    tensors, kernel, options = LISTS[cell.method]
    work = count(asked_of(setup, kernel, "fwd+bwd", cell.n, options=options))
    return Kept(cell, tuple(tensors(cell.n, setup.d, setup.instances)), work)


def findings(data: Data) -> list[Finding]:
    """Every memory cell beside the list of tensors, the methods that have one list together."""
    cells = [(found, cell) for found, cell in data.cells() if cell.unit == "MiB"]
    made = [_finding(*group, [pair for pair in cells if pair[1].method in group[1]]) for group in GROUPS]
    others = tuple(_unknown(*pair) for pair in cells if pair[1].method not in LISTS)
    why = "approximate or sparse attention of others: iosim has no kernel"
    made.append(Finding("memory", SECTION, "other methods", others, why))
    return [found for found in made if found.rows]


def _finding(title: str, methods: tuple[str, ...], claimed: bool, why: str, cells: Iterable[tuple[Measured[Cell], Cell]]) -> Finding:
    pairs = [(found, kept(found.setup, cell)) for found, cell in cells]
    rows = tuple(_compared(found, one, claimed) for found, one in pairs)
    same = Check("arrays that list and kernels share have one size", all(one.explained for _, one in pairs))
    return Finding("memory", SECTION, title, rows, why, (same,))


def _compared(found: Measured[Cell], one: Kept, claimed: bool) -> Compared:
    cell, claim = one.cell, ROUNDED if claimed else None
    labels = {**labels_of(cell), **one.record()}
    made = "bytes of the listed tensors over 2^20"
    return Compared(name_of(cell), cell.value, cell.unit, one.in_all / MIB, found.source, labels, claim, work=one.declared, made=made)


def _unknown(found: Measured[Cell], cell: Cell) -> Compared:
    return Compared(name_of(cell), cell.value, cell.unit, None, found.source, labels_of(cell), word=NO_KERNEL)
