"""One case of the cross-validation: a kernel, a problem, a tiling, and the words that the model predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim import predict
from iosim.core.errors import BadInput
from iosim.core.masks import BlockMask
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import whole
from iosim_gpu import catalogue
from iosim_gpu.declaration import Kernel, Step
from iosim_gpu.tiling import Tiling

Int = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A kernel on ``batch * heads`` heads of Q ``(n, d)`` and K, V ``(nk, d)``, in some tiles.

    Raises :class:`iosim.core.errors.BadInput` for what the kernel, or the model, does not take.

    Args:
        kernel: the name of the kernel.
        n: query rows.
        d: columns of Q, K and V.
        rows: Br.
        cols: Bc.
        threads: threads of a block.
        nk: key rows; 0 means n.
        batch: sequences.
        heads: heads a sequence.
        causal: query i attends to keys j <= i + nk - n.
        mask: the block mask, for a kernel that needs one.
        options: options of the kernel by name; the others have their defaults.
        seed: the seed of the inputs.
    """

    kernel: str
    n: int
    d: int
    rows: int
    cols: int
    threads: int
    nk: int = 0
    batch: int = 1
    heads: int = 1
    causal: bool = False
    mask: BlockMask | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", self.declared.chosen(self.options))
        if self.nk == 0:
            object.__setattr__(self, "nk", self.n)
        for name in ("n", "nk", "d", "rows", "cols", "threads", "batch", "heads"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        if (self.mask is not None) != self.declared.masked:
            raise BadInput(f"{self.kernel} {'needs a' if self.mask is None else 'takes no'} block mask in CUDA")
        object.__setattr__(self, "causal", self.problem.causal)
        _ = self.predicted()  # whatever the model refuses is refused at once

    @property
    def declared(self) -> Kernel:
        """What the kernel declares."""
        return catalogue.kernel(self.kernel)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The launches of the kernel, in order."""
        return self.declared.steps(**self.options)

    @property
    def problem(self) -> Attention:
        """The problem as the model takes it."""
        return Attention(
            self.n, self.d, nk=self.nk, batch=self.batch, heads=self.heads, causal=self.causal, block_mask=self.mask,
        )  # fmt: skip

    @property
    def blocks(self) -> Blocks:
        """Br and Bc."""
        return Blocks(self.rows, self.cols)

    @property
    def variant(self) -> dict[str, Any]:
        """The options of the listing that moves the same words."""
        return {**self.declared.listing, **self.options}

    @property
    def instances(self) -> int:
        """Heads in all; every count of one head is multiplied by them."""
        return self.batch * self.heads

    @property
    def tiling(self) -> Tiling:
        """The compile-time constants."""
        return Tiling(self.rows, self.cols, self.d, self.threads, self.causal)

    @property
    def changed(self) -> dict[str, str]:
        """The options that differ from their defaults."""
        usual = self.declared.chosen({})
        return {name: value for name, value in self.options.items() if value != usual[name]}

    @property
    def name(self) -> str:
        """A label such as ``1x2 37x29 d16 8x12 T24 causal``: batch x heads, n x nk, d, Br x Bc, threads."""
        heads = f"{self.batch}x{self.heads} " if self.instances > 1 else ""
        told = "".join([" causal"] * self.causal + [f" {name}={value}" for name, value in self.changed.items()])
        return f"{heads}{self.n}x{self.nk} d{self.d} {self.rows}x{self.cols} T{self.threads}{told}"

    def predicted(self) -> dict[str, predict.Moved]:
        """Elements that each array moves, over all heads: by the closed forms, and by the lists of a block mask."""
        listing = predict.predict(self.kernel, self.problem, self.blocks, Options(**self.variant))
        times = self.instances
        return {
            name: predict.Moved(words.reads * times, words.writes * times, words.init_writes * times)
            for name, words in {**listing, **self._mask_words()}.items()
            if words.reads or words.writes
        }

    def _mask_words(self) -> Mapping[str, predict.Moved]:
        """Each key tile reads where its list begins and ends; each visited tile reads its own entry."""
        if self.mask is None:
            return {}
        indptr, indices = visited(self)
        return {"indptr": predict.Moved(reads=2 * (len(indptr) - 1)), "indices": predict.Moved(reads=len(indices))}


def visited(case: Case) -> tuple[Int, Int]:
    """The visited tiles as compressed sparse columns: key tile j meets the query tiles ``indices[indptr[j]:indptr[j + 1]]``, rising.

    Tiles are visited that the block mask keeps and in which the causal rule leaves a pair.
    """
    if case.mask is None:
        raise BadInput(f"{case.kernel} has no block mask, so it has no list of tiles")
    keep = case.mask.dense()
    if case.causal:
        last_query = np.minimum((np.arange(keep.shape[0]) + 1) * case.rows, case.n) - 1
        first_key = np.arange(keep.shape[1]) * case.cols
        keep = keep & (first_key[None, :] <= last_query[:, None] + case.nk - case.n)
    indptr = np.concatenate([[0], keep.sum(axis=0).cumsum()]).astype(np.int32)
    return indptr, np.nonzero(keep.T)[1].astype(np.int32)


def shape(case: Case, array: str) -> tuple[int, ...]:
    """The shape of a float32 array of the kernel: heads first, then the axes that are declared."""
    return tuple(getattr(case, axis) for axis in ("instances", *case.declared.axes(array)))
