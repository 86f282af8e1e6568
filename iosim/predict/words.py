"""Predicted words: what one head of a problem moves, array by array, before anything is run."""

from __future__ import annotations

from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.predict.case import case
from iosim.predict.heads import of_group
from iosim.predict.term import Moved, Term, moved

_DEFAULTS = Options()


def terms(kernel: str, problem: Attention, blocks: Blocks, options: Options = _DEFAULTS) -> tuple[Term, ...]:
    """The closed form of one KV head of ``problem`` and its group as terms that hold exact integers; ragged tiles count their true rows.

    Arrays: Q K V O, with S P (standard), l m (flash, block-sparse) or LSE (flash2), and mask where an element mask is given. Backward
    kernels: those that they read, dO dQ dK dV, with dP dS (standard) or D (flash2, and flash with ``first_pass="create"``). With an
    accumulator of its own, O_acc or dQ_acc. Every array that the listing declares is there, if only with a term of no words.
    Raises :class:`iosim.core.errors.BadInput` for an unknown kernel, for blocks that a block mask was not made for, and for
    ``accumulator="float32"`` where ``first_pass`` is "load".

    >>> [(term.array, term.symbol, term.total) for term in terms("flash2", Attention(n=1024, d=64), Blocks(64, 64))][:2]
    [('Q', 'Nq d', 65536), ('K', 'Tr Nk d', 1048576)]
    """
    asked = case(kernel, problem, options)
    found = asked.terms(asked.census(blocks))
    return found if problem.group == 1 or options.pack else of_group(found, asked.shape, problem.group)


def predict(kernel: str, problem: Attention, blocks: Blocks, options: Options = _DEFAULTS) -> dict[str, Moved]:
    """The words of each array that one KV head and its group move: the sums of :func:`terms`, which raises the same errors.

    >>> predict("flash", Attention(n=1024, d=64), Blocks(64, 64))["O"]
    Moved(reads=1048576, writes=1114112, init_writes=65536)
    """
    return moved(terms(kernel, problem, blocks, options))
