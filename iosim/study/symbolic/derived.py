"""Closed forms derived from the listings themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from iosim.attention.arrays import Launch
from iosim.attention.catalogue import kernel
from iosim.attention.kernels.masking import Mask
from iosim.attention.plan import make_plan
from iosim.core.errors import BadInput
from iosim.core.masks.dropout import Keep
from iosim.core.masks.grid import Grid
from iosim.core.problem import Attention, Blocks, Options
from iosim.core.units import Capacity
from iosim.predict import dense_terms
from iosim.study.symbolic.form import ClosedForm
from iosim.study.symbolic.machine import Everywhere, SymbolicMachine
from iosim.study.symbolic.moves import of_counts, of_flops, of_terms
from iosim.study.symbolic.sizes import SIZES, extent

UNSUPPORTED = {
    "block-sparse": "moves what its block mask says, which is no formula over sizes; ask for flash, the same listing on all tiles"
}


class OpenLaunch(Launch):
    """A listing of one head without a mask, whose sizes are open."""

    def mask(self, head: int) -> Mask:
        """Every pair may attend; dropout, which is computed from indices, may drop some."""
        kept = Keep(self.problem.dropout, 0, head) if self.problem.dropout else None
        return Mask(cast(Grid, Everywhere()), kept=kept)


def closed_form(name: str, *, dropout: float = 0.0, **options: str | bool | None) -> ClosedForm:
    """Run the listing of a kernel once, on a machine whose sizes are symbols, and set what it moves beside the closed form by hand.

    One head without a mask; any N_q, N_k, d, d_v, and any Br and Bc up to N_q and N_k, ragged tiles included.
    ``options`` as for :func:`iosim.simulate`; softmax is "rows" unless it is asked for.

    Raises :class:`BadInput` for an unknown kernel or option, and for block-sparse, whose words depend on its block mask.

    >>> closed_form("flash2").formula
    'N_q*(d + d_v + 1) + ceil(N_q/Br)*N_k*(d + d_v)'
    """
    if kernel(name).name in UNSUPPORTED:
        raise BadInput(f"{name} {UNSUPPORTED[name]}")
    plan = make_plan(name, Attention(1, 1, dropout=dropout), Capacity(2**40), (1, 1), None, options)
    m = SymbolicMachine()
    launch(name, m, plan.problem.dropout, plan.options)
    counts = m.finish()
    dropped = plan.problem.dropout
    terms = dense_terms(name, n=1, d=1, Br=1, Bc=1, dropout=dropped > 0, options=plan.options)
    return ClosedForm(name, plan.options, dropped, of_counts(counts), of_terms(terms), terms, of_flops(counts.flops))


def launch(name: str, m: SymbolicMachine, dropout: float, options: Options) -> None:
    """Declare the arrays of one head on ``m`` and run the listing ``name``."""
    n, nk, d, dv, rows, cols = (extent(size.name) for size in SIZES)
    problem = SimpleNamespace(
        n=n, nk=nk, d=d, dv=dv, dtype="float32", group=1, mask=None, block_mask=None, dropout=dropout, softmax_scale=1.0
    )
    blocks = SimpleNamespace(rows=rows, cols=cols)
    OpenLaunch(m, kernel(name), cast(Attention, problem), cast(Blocks, blocks), options).run(None, 0)
