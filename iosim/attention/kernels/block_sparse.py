"""Block-sparse FlashAttention, forward."""

from __future__ import annotations

from iosim.attention.kernels.flash import flash
from iosim.attention.kernels.masking import Mask
from iosim.machine import Hbm, Machine


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
