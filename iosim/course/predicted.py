"""What exercises say of the words that kernels move."""

from __future__ import annotations

from iosim import predict
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks

DEFAULTS = Options()


def predicted(kernel: str, problem: Attention, blocks: Blocks, options: Options = DEFAULTS) -> int:
    """The words of all arrays of a kernel together, read and written, in its closed form.

    >>> predicted("flash2", Attention(n=4096, d=64), Blocks(64, 64))
    34082816
    """
    return sum(array.reads + array.writes for array in predict.predict(kernel, problem, blocks, options).values())


def in_a_head(kernel: str, Bc: int = 64, *, causal: bool = False) -> int:
    """What a kernel moves at N = 4096, d = 64 in tiles of 64 x Bc.

    >>> in_a_head("flash2")
    34082816
    """
    return predicted(kernel, Attention(n=4096, d=64, causal=causal), Blocks(64, Bc))
