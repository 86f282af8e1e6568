"""Block-sparse FlashAttention, forward."""

from __future__ import annotations

from iosim.attention.declaration import fills, heads, keeps, kernel, only, reads, widened
from iosim.attention.kernels.flash import flash
from iosim.attention.kernels.masking import Mask
from iosim.attention.settling import accumulator_made_on_chip
from iosim.core.masks.block import BlockMask
from iosim.core.masks.patterns import butterfly
from iosim.core.options import ACCUMULATOR, FIRST_PASS, SKIP, SKIP_EMPTY
from iosim.core.problem import Attention, Blocks
from iosim.machine import Hbm, Machine


def butterfly_of(problem: Attention, blocks: Blocks) -> BlockMask:
    """The mask of a problem without one: the butterfly, in tiles of ``blocks``."""
    return butterfly(problem.n, problem.nk, blocks.rows, blocks.cols)


@kernel(
    reads("Q", "K", "V"), fills("O", "l", "m"), keeps(only("O_acc", widened, "O")),
    options=(SKIP, FIRST_PASS, SKIP_EMPTY, ACCUMULATOR), settle=accumulator_made_on_chip, outside="keys", grid=heads,
    computes="masked", brings=butterfly_of, backward="flash-backward", source="Dao et al. 2022, arXiv 2205.14135, Algorithm 5",
    paper=True, usual=True, colour="#CC79A7", mark="D", letter="b", place=4,
)  # fmt: skip
def block_sparse(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, L: Hbm, M: Hbm, O_acc: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask, first_pass: str = "load", skip_empty: bool = False,
) -> None:  # fmt: skip
    """Block-sparse FlashAttention (Dao et al. 2022, arXiv 2205.14135, Algorithm 5): ``flash`` over the tiles of a block mask.

    K_j and V_j are loaded outside the guard, for an empty key column too, as printed; ``skip_empty`` leaves those out.
    Words: as ``flash``, with Q, O, l and m moved once for every non-zero tile of their row:
    N_k (d + d_v) + sum over non-zero tiles of Br (d + 2 d_v + 4) + N_q (d_v + 2).
    """
    flash(m, Q, K, V, O, L, M, O_acc, Br=Br, Bc=Bc, scale=scale, mask=mask, first_pass=first_pass, skip_empty=skip_empty)
