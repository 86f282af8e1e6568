"""What is asked: an attention problem, and the blocks to cut it into."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iosim.core import dtypes
from iosim.core.errors import BadInput
from iosim.core.masks.block import BlockMask
from iosim.core.masks.dropout import Keep
from iosim.core.units import whole

Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Tile heights: ``rows`` query rows (Br) by ``cols`` key rows (Bc)."""

    rows: int
    cols: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", whole("Br", self.rows))
        object.__setattr__(self, "cols", whole("Bc", self.cols))

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols}"


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Attention:
    """One attention problem: O = softmax(scale * Q K^T) V over the pairs that may attend.

    Shapes of one head: Q ``(n, d)``, K ``(nk, d)``, V ``(nk, dv)``, O ``(n, dv)``; ``batch * heads`` such heads. With fewer ``kv_heads``,
    which divide ``heads``, each K and V serves a group of query heads that follow one another (GQA; 1 is MQA).
    A pair (query i, key j) may attend where every rule that is given allows it:

    * ``causal``: j <= i + nk - n (aligned bottom-right; PyTorch's ``is_causal`` is top-left);
    * ``window=(left, right)``: i + nk - n - left <= j <= i + nk - n + right, -1 = unbounded;
    * ``mask``: a boolean ``(n, nk)`` array in HBM, True = may attend;
    * ``block_mask``: an :class:`iosim.core.masks.BlockMask`, which also fixes the blocks.

    A query that may attend to nothing gives O = 0 and LSE = -inf. ``scale=None`` means 1/sqrt(d); 0.0 is a value.
    ``dropout``: the probability p in [0, 1) with which a weight is dropped after the softmax; the others are multiplied by 1 / (1 - p).
    Which ones depends on ``dropout_seed``, the head and the pair alone (see :mod:`iosim.core.masks.dropout`).
    Raises :class:`iosim.core.errors.BadInput` for anything else.

    >>> Attention(n=1024, d=64).softmax_scale
    0.125
    """

    n: int
    d: int
    nk: int = 0
    dv: int = 0
    batch: int = 1
    heads: int = 1
    dtype: str = "float32"
    scale: float | None = None
    causal: bool = False
    window: tuple[int, int] | None = None
    mask: Bool | None = None
    block_mask: BlockMask | None = None
    dropout: float = 0.0
    dropout_seed: int = 0
    kv_heads: int = 0

    def __init__(
        self,
        n: int,
        d: int,
        *,
        nk: int | None = None,
        dv: int | None = None,
        batch: int = 1,
        heads: int = 1,
        dtype: str = "float32",
        scale: float | None = None,
        causal: bool = False,
        window: tuple[int, int] | None = None,
        mask: Bool | None = None,
        block_mask: BlockMask | None = None,
        dropout: float = 0.0,
        dropout_seed: int = 0,
        kv_heads: int | None = None,
    ) -> None:
        sizes = {"n": n, "d": d, "nk": n if nk is None else nk, "dv": d if dv is None else dv, "batch": batch, "heads": heads}
        for name, size in {**sizes, "kv_heads": heads if kv_heads is None else kv_heads}.items():
            object.__setattr__(self, name, whole(name, size))
        if self.heads % self.kv_heads:
            raise BadInput(
                f"kv_heads must divide heads, so that every KV head serves as many, but {self.kv_heads} does not divide {self.heads}"
            )
        object.__setattr__(self, "dtype", dtypes.checked(dtype))
        object.__setattr__(self, "scale", _finite_scale(scale))
        if not isinstance(causal, bool | np.bool_):
            raise BadInput(f"causal must be True or False, not {causal!r}")
        object.__setattr__(self, "causal", bool(causal))
        object.__setattr__(self, "window", _window(window))
        object.__setattr__(self, "mask", _element_mask(mask, self.n, self.nk))
        object.__setattr__(self, "block_mask", block_mask)
        rule = Keep(dropout, dropout_seed, head=0)
        object.__setattr__(self, "dropout", rule.p)
        object.__setattr__(self, "dropout_seed", rule.seed)
        self._check_block_mask()

    def _check_block_mask(self) -> None:
        blocks = self.block_mask
        if blocks is None:
            return
        if not isinstance(blocks, BlockMask):
            raise BadInput(
                f"block_mask must be a BlockMask, not {type(blocks).__name__}; see BlockMask.from_dense and iosim.core.masks.patterns"
            )
        if (blocks.n, blocks.nk) != (self.n, self.nk):
            raise BadInput(f"the block mask covers {blocks.n} x {blocks.nk} pairs but the problem has {self.n} x {self.nk}")
        if blocks.partial and self.band is None and self.mask is None:
            raise BadInput(
                f"the block mask has {blocks.partial} partial tiles but no rule says which of their pairs attend; "
                "give causal, window or mask too, or keep whole tiles with block_mask.filled()"
            )

    def __repr__(self) -> str:
        told: dict[str, object] = {"n": self.n, "d": self.d}
        told |= {name: value for name, value, usual in (("nk", self.nk, self.n), ("dv", self.dv, self.d)) if value != usual}
        told |= {name: value for name, value in (("batch", self.batch), ("heads", self.heads)) if value != 1}
        told |= {"kv_heads": self.kv_heads} if self.group > 1 else {}
        told["dtype"] = self.dtype
        told |= {name: getattr(self, name) for name in ("scale", "window", "block_mask") if getattr(self, name) is not None}
        told |= {"causal": True} if self.causal else {}
        told |= {name: value for name, value in (("dropout", self.dropout), ("dropout_seed", self.dropout_seed)) if value}
        told |= {} if self.mask is None else {"mask": f"<{int(self.mask.sum())} of {self.mask.size} pairs>"}
        return f"Attention({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    @property
    def softmax_scale(self) -> float:
        """The factor on Q K^T: ``scale``, or 1/sqrt(d)."""
        return 1 / math.sqrt(self.d) if self.scale is None else self.scale

    @property
    def band(self) -> tuple[int, int] | None:
        """``(left, right)`` of causal and window together, -1 = unbounded; None when neither cuts anything."""
        left, right = (-1, -1) if self.window is None else self.window
        if self.causal:
            right = 0
        return None if left < 0 and right < 0 else (left, right)

    @property
    def masked(self) -> bool:
        """Whether any rule limits which pairs attend."""
        return self.band is not None or self.mask is not None or self.block_mask is not None

    @property
    def group(self) -> int:
        """How many query heads share one K and V."""
        return self.heads // self.kv_heads

    @property
    def instances(self) -> int:
        """How many KV heads there are in all: one machine runs each with its group, and every count of it is multiplied by this."""
        return self.batch * self.kv_heads

    @property
    def itemsize(self) -> int:
        """Bytes of one element of Q, K, V or O in HBM."""
        return dtypes.itemsize(self.dtype)


def _finite_scale(scale: float | None) -> float | None:
    if scale is None:
        return None
    if isinstance(scale, bool) or not isinstance(scale, int | float | np.number) or not math.isfinite(scale):
        raise BadInput(f"scale must be a finite number or None (1/sqrt(d)), not {scale!r}")
    return float(scale)


def _window(window: tuple[int, int] | None) -> tuple[int, int] | None:
    if window is None:
        return None
    try:
        left, right = window
    except (TypeError, ValueError):
        raise BadInput(f"window must be (left, right), -1 = unbounded, not {window!r}") from None
    return whole("window left", left, -1), whole("window right", right, -1)


def _element_mask(mask: Bool | None, n: int, nk: int) -> Bool | None:
    if mask is None:
        return None
    try:
        array = np.asarray(mask)
    except ValueError as error:
        raise BadInput(f"mask cannot be read as an array: {error}") from None
    if array.dtype != np.bool_:
        raise BadInput(f"mask must be boolean (True = may attend), not {array.dtype}; write mask.astype(bool)")
    if array.shape != (n, nk):
        raise BadInput(f"mask has shape {array.shape} but the problem needs (n, nk) = {(n, nk)}")
    frozen = array.copy()
    frozen.flags.writeable = False
    return frozen
