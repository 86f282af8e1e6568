"""How many states a search will follow, roughly, before it is begun: so that what is beyond reach is refused at once.

Two counts grow with the work. One is the number of *stages*: sets of vertices that can have been computed, up to symmetry. The other
is the *gap*, in words, between the compulsory traffic and a pebbling that a beam found: a small gap leaves few detours to try.
On the instances of ``docs/pebbling.md`` the states followed are at most 60 a stage and at most 800 gap^2.5 where every vertex is
computed once. Where r vertices may be computed again they are about 2^(r+1) a stage, and at most 8000 gap^2.5. The estimate is the
smaller of the two. It is a rule of thumb, usually too high, and promises nothing: the search stops at its limit in any case.
"""

from __future__ import annotations

from iosim_reference.pebbling.game import computed_once
from iosim_reference.pebbling.graphs import Graph

MOST_STATES = 4_000_000
"""The default limit: one or two minutes of one core."""

_MOST_SETS = 5_000  # of one component, and
_MOST_STAGES = 10**12  # of all together: what is beyond is beyond reach
_A_STAGE, _A_WORD, _AGAIN = 60, 800, 10


def expected_states(graph: Graph, gap: int, recompute: bool) -> int:
    """About as many states as a search will follow at most, where a pebbling ``gap`` words above the compulsory traffic is known.

    >>> from iosim_reference.pebbling.graphs import product
    >>> expected_states(product(2, 2, 2), gap=2, recompute=False), expected_states(product(3, 4, 3), gap=40, recompute=False)
    (1200, 3255180)
    """
    again = len(graph.names) - len(graph.inputs) - len(computed_once(graph)) if recompute else 0
    a_word = _A_WORD * (_AGAIN if again else 1)
    return min(max(_A_STAGE, 2 << again) * stages(graph), int(a_word * gap**2.5))


def stages(graph: Graph) -> int:
    """The sets of vertices that can have been computed at some time, over the number of symmetries; large counts are cut off.

    >>> from iosim_reference.pebbling.graphs import product
    >>> stages(product(2, 2, 2))
    20
    """
    count = 1
    for component in _components(graph):
        count *= _down_sets(graph, component)
        if count > _MOST_STAGES:
            break
    return count // max(1, len(graph.symmetries))


def _components(graph: Graph) -> list[set[int]]:
    """The computed vertices, apart where no path over computed vertices joins them: rows of attention, sums of a product."""
    components: list[set[int]] = []
    for v in range(len(graph.names)):
        if v not in graph.inputs:
            joined = [component for component in components if component.intersection(graph.reads[v])]
            components = [component for component in components if component not in joined] + [{v}.union(*joined)]
    return components


def _down_sets(graph: Graph, component: set[int]) -> int:
    before = {v: sum(1 << u for u in graph.reads[v] if u in component) for v in component}
    seen, new = {0}, {0}
    while new and len(seen) < _MOST_SETS:
        new = {done | 1 << v for done in new for v in component if not done >> v & 1 and done & before[v] == before[v]} - seen
        seen |= new
    return len(seen)
