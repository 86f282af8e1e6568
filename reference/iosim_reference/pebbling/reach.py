"""How large a search will be, before it is begun."""

from __future__ import annotations

from iosim_reference.pebbling.graphs import Graph
MOST_STATES=10_000_000
def beyond(graph: Graph, recompute: bool, limit: int) -> float:
    return 0
