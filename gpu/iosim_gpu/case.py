"""One case of the cross-validation: a kernel, a problem, a tiling; and the words that the model predicts for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from iosim import predict
from iosim.core.errors import BadInput
from iosim.core.masks import BlockMask
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import whole
from iosim_gpu.tiling import Tiling

KERNELS = ("standard", "flash", "flash2", "block-sparse", "flash2-backward")
Int = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """``kernel`` on ``batch * heads`` heads of Q ``(n, d)`` and K, V ``(nk, d)``, in ``rows`` x ``cols`` tiles, ``threads`` a block.

    ``nk=0`` means n. ``mask`` is for block-sparse, which must have one. ``dq_pass``: "shared" adds dQ atomically in the pass that makes
    dK and dV, "own" makes it in a second kernel. ``seed`` draws the inputs. Raises :class:`iosim.core.errors.BadInput` for anything else.
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
    dq_pass: Literal["shared", "own"] = "shared"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kernel not in KERNELS:
            raise BadInput(f"no CUDA kernel is called {self.kernel!r}; there are {', '.join(KERNELS)}")
        if self.nk == 0:
            object.__setattr__(self, "nk", self.n)
        for name in ("n", "nk", "d", "rows", "cols", "threads", "batch", "heads"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        if (self.mask is None) == (self.kernel == "block-sparse"):
            raise BadInput("block-sparse needs a block mask, and no other CUDA kernel takes one")
        if self.dq_pass != "shared" and not self.kernel.endswith("-backward"):
            raise BadInput(f"dq_pass is for flash2-backward: {self.kernel} makes no dQ")
        object.__setattr__(self, "causal", self.problem.causal)
        _ = self.predicted()  # whatever the model refuses is refused at once

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
    def options(self) -> Options:
        """The variant of the listing that the CUDA kernel is: what is read again, and where dQ is made."""
        return Options(softmax="streamed", dq_pass=self.dq_pass)

    @property
    def instances(self) -> int:
        """Heads in all; every count of one head is multiplied by them."""
        return self.batch * self.heads

    @property
    def tiling(self) -> Tiling:
        """The compile-time constants."""
        return Tiling(self.rows, self.cols, self.d, self.threads, self.causal)

    @property
    def name(self) -> str:
        """A label that tells it from the others, such as ``1x2 37x29 d16 8x12 T24 causal``: heads, n x nk, d, Br x Bc and threads."""
        heads = f"{self.batch}x{self.heads} " if self.instances > 1 else ""
        own = {"causal": self.causal, f"dq_pass={self.dq_pass}": self.dq_pass != "shared"}
        told = "".join(f" {word}" for word, holds in own.items() if holds)
        return f"{heads}{self.n}x{self.nk} d{self.d} {self.rows}x{self.cols} T{self.threads}{told}"

    def predicted(self) -> dict[str, predict.Moved]:
        """Elements that each array moves over all heads: the closed forms of :mod:`iosim.predict`, and those of the mask's own arrays."""
        one = {**predict.predict(self.kernel, self.problem, self.blocks, self.options), **self._mask_words()}
        times = self.instances
        return {a: predict.Moved(w.reads * times, w.writes * times, w.init_writes * times) for a, w in one.items() if w.reads or w.writes}

    def _mask_words(self) -> Mapping[str, predict.Moved]:
        """Each key tile reads where its list begins and ends; each visited tile reads its own entry."""
        if self.mask is None:
            return {}
        indptr, indices = visited(self)
        return {"indptr": predict.Moved(reads=2 * (len(indptr) - 1)), "indices": predict.Moved(reads=len(indices))}


def visited(case: Case) -> tuple[Int, Int]:
    """The visited tiles as compressed sparse columns: key tile j meets the query tiles ``indices[indptr[j]:indptr[j + 1]]``, rising.

    That is the block mask, less the tiles in which the causal rule leaves no pair.
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
