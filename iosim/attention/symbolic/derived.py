"""Closed forms derived from the listings themselves."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import cast

from iosim.attention.arrays import Launch
from iosim.attention.catalogue import Named, kernel
from iosim.attention.declaration import Kernel
from iosim.attention.kernels.masking import Mask
from iosim.attention.plan import Plan, make_plan, told
from iosim.attention.symbolic.form import ClosedForm
from iosim.attention.symbolic.machine import Everywhere, SymbolicMachine
from iosim.attention.symbolic.moves import of_counts, of_flops, of_terms
from iosim.attention.symbolic.sizes import SIZES, extent
from iosim.attention.symbolic.spelled import PLAIN
from iosim.core.counts import Counts
from iosim.core.errors import BadInput
from iosim.core.masks.dropout import Keep
from iosim.core.masks.grid import Grid
from iosim.core.options import Options, Value
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity
from iosim.predict import Moved, Term, dense_terms

SAMPLES = ((7, 5, 3, 2, 3, 2), (4, 6, 2, 3, 2, 3), (5, 3, 2, 2, 5, 3), (1, 9, 4, 4, 1, 4), (23, 29, 3, 4, 4, 5))  # in the order of SIZES


class OpenLaunch(Launch):
    """A listing of one head without a mask, whose sizes are open."""

    def mask(self, head: int, wide: bool) -> Mask:
        """Every pair may attend; dropout, which is computed from indices, may drop some."""
        kept = Keep(self.problem.dropout, 0, head) if self.problem.dropout else None
        return Mask(cast(Grid, Everywhere()), kept=kept)


def closed_form(name: Named, *, dropout: float = 0.0, **options: Value | None) -> ClosedForm:
    """Run the listing of a kernel once, on a machine whose sizes are symbols, and set what it moves beside the closed form by hand.

    One head without a mask; any N_q, N_k, d, d_v, and any Br and Bc up to N_q and N_k, ragged tiles included.
    ``options`` as for :func:`iosim.simulate`; softmax is "rows" unless it is asked for. A listing of a user has no form by hand.

    Raises :class:`BadInput` for an unknown kernel or option, for a kernel that brings a mask, and where there is no closed form.

    >>> closed_form("flash2").formula
    'N_q*(d + d_v + 1) + ceil(N_q/Br)*N_k*(d + d_v)'
    """
    own = kernel(name)
    if own.brings is not None:
        raise BadInput(
            f"{own} moves what its block mask says, which is no formula over sizes; ask for its listing on all tiles, such as flash"
        )
    plan = make_plan(own, Attention(1, 1, dropout=dropout), Capacity(2**40), (1, 1), None, options)
    return _own_form(plan)


def derived(plan: Plan) -> dict[str, Moved]:
    """The words of each array of one head at the sizes of ``plan``; raises :class:`BadInput` where there is no closed form."""
    return _at(_own_form(plan), plan)


def _own_form(plan: Plan) -> ClosedForm:
    """The form; that of a listing of a user is tried at a few sizes first."""
    if plan.formula is None and not _followed(plan.kernel, plan.problem.dropout, plan.options):
        raise BadInput(f"what {plan.kernel} does depends on how large its sizes are, which are open here")
    return _form(plan)


def _at(form: ClosedForm, plan: Plan) -> dict[str, Moved]:
    """A form at the sizes of ``plan``; where blocks are larger than their axis, it must not matter by how much."""
    p, rows, cols = plan.problem, plan.blocks.rows, plan.blocks.cols
    moved = form.at(n=p.n, nk=p.nk, d=p.d, dv=p.dv, Br=rows, Bc=cols)
    if moved != form.beyond(p.n, p.nk, p.d, p.dv, rows, cols):
        raise BadInput(f"the words of {plan.kernel} depend on blocks {plan.blocks} that are larger than their axis")
    return moved


@cache
def _followed(own: Kernel, dropout: float, options: Options) -> bool:
    """Whether the form gives what is counted at a few sizes; where counts are wrong themselves, other roads tell."""
    found = []
    for n, nk, d, dv, rows, cols in SAMPLES:
        small = Plan(own, Attention(n, d, nk=nk, dv=dv, dropout=dropout), Blocks(rows, cols), options, Capacity(2**40), "record")
        m = small.machine("trace")
        small.run(m)
        found.append((_moved(small.count()), _moved(small.finish(m)), _at(_form(small), small)))
    return any(counted != traced for counted, traced, _ in found) or all(counted == form for counted, _, form in found)


def _moved(counts: Counts) -> dict[str, Moved]:
    return {name: Moved(array.reads, array.writes, array.init_writes) for name, array in counts.arrays.items()}


def derived_terms(plan: Plan) -> tuple[Term, ...]:
    """The same as terms of a closed form, one for each array and direction."""
    form, moved = _form(plan), derived(plan)
    why = "derived by running the listing with symbols for its sizes"
    return tuple(
        Term(
            line.array, "read" if line.move == "read" else "write", 1, line.of(moved[line.array]), PLAIN.spell(line.derived), why,
            init=line.move not in ("read", "write"),
        )
        for line in form.lines()
    )  # fmt: skip


def _form(plan: Plan) -> ClosedForm:
    dropped = plan.problem.dropout
    counts = _counts(plan.kernel, dropped, plan.options)
    terms = () if plan.formula is None else dense_terms(plan.formula, n=1, d=1, Br=1, Bc=1, dropout=dropped > 0, options=plan.options)
    return ClosedForm(plan.kernel.name, plan.options, dropped, of_counts(counts), of_terms(terms), terms, of_flops(counts.flops))


@cache
def _counts(own: Kernel, dropout: float, options: Options) -> Counts:
    """What the listing moves and computes, in symbols, on the arrays of one head."""
    m = SymbolicMachine()
    n, nk, d, dv, rows, cols = (extent(size.name) for size in SIZES)
    problem = SimpleNamespace(
        n=n, nk=nk, d=d, dv=dv, dtype="float32", group=1, mask=None, block_mask=None, dropout=dropout, softmax_scale=1.0
    )
    blocks = SimpleNamespace(rows=rows, cols=cols)
    with told(own):
        OpenLaunch(m, own, cast(Attention, problem), cast(Blocks, blocks), options).run(None, 0)
        return m.finish()
