"""What an error says, with what would work instead: for the errors that beginners get, in this process and apart alike."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

FOLLOWED: tuple[tuple[str, str], ...] = (
    (
        r"was assigned to, but it has no room",
        "; if it began as a plain number (c = 0), make it before the loop: c = m.full(0.0, rows, cols, name='c')",
    ),
    (r"object has no attribute 'max'", "; the maximum of each row is x.rowmax(), and maximum(x, y) that of two"),
    (r"object has no attribute 'sum'", "; the sum of each row is x.rowsum()"),
    (r"object has no attribute '(exp|log)'", "; use exp and log of iosim.memory, as in exp(x)"),
    (r"is on chip: a listing may not look at it", "; instead of np.exp, np.log and np.maximum use exp, log and maximum of iosim.memory"),
    (r"'Hbm' object does not support item assignment", "; to write to HBM: m.store(C[i], value)"),
)
"""Of an error that says the first, the second is said too."""

INSTEAD: tuple[tuple[str, str], ...] = (
    (r"TypeError: Machine\.(full|empty|let)\(\) missing 1 required .* argument: 'name'", r"m.\1 wants a name, as in name='l_i'"),
    (
        r"TypeError: .* not supported between instances of ('Tile' and '\w+'|'\w+' and 'Tile')",
        "a tile has no place: it cannot be compared, and one tile stands for all of its kind; it has size, full, first and last",
    ),
    (r"^(SyntaxError: .*) \(.*, line \d+\)$", r"\1"),
)
"""An error that says the first is told in the words of the second."""

NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named .*")


def advised(says: str, blocks: Iterable[int] = ()) -> str:
    """What an error says, in one line, and what to do about it; ``blocks``: the heights of tiles, where the last one may be shorter.

    >>> advised("AttributeError: 'Block' object has no attribute 'sum'")
    "AttributeError: 'Block' object has no attribute 'sum'; the sum of each row is x.rowsum()"
    >>> advised("BadInput: alpha(3, 1) and l_i(6, 1) do not broadcast", [6])
    'BadInput: alpha(3, 1) and l_i(6, 1) do not broadcast; the last tile is short: use i.size and j.size where 6 was meant'
    """
    for found, put in INSTEAD:
        says = re.sub(found, put, says)
    after = (added for found, added in FOLLOWED if re.search(found, says))
    return f"{says}{next(after, '')}{short_tile(says, blocks)}"


def short_tile(says: str, blocks: Iterable[int]) -> str:
    """What to say where two shapes differ, and the larger is the height of a tile."""
    if not re.search(r"do not broadcast|cannot (update|write|store)|inner sizes", says):
        return ""
    shapes = [(int(rows), int(cols)) for rows, cols in re.findall(r"\((\d+), (\d+)\)", says)]
    differing = [sorted(pair) for one, other in pairwise(shapes) for pair in _against(says, one, other)]
    block = next((large for small, large in differing if large in set(blocks) and small < large), None)
    return "" if block is None else f"; the last tile is short: use i.size and j.size where {block} was meant"


def _against(says: str, one: tuple[int, int], other: tuple[int, int]) -> list[tuple[int, int]]:
    """The sizes that ought to be equal: those that are summed over, or both axes, but for a single column, which is no tile's."""
    if "inner sizes" in says:
        return [(one[1], other[0])]
    return [(one[0], other[0]), *([] if 1 in (one[1], other[1]) else [(one[1], other[1])])]


def returned(says: str, arrays: int) -> str:
    """What is said of a result that is neither an array nor a number, with what is wanted; ``arrays``: how many of them.

    >>> returned("TypeError: the function returned a list; a NumPy array or a number is wanted", 2)
    'TypeError: the function returned a list; 2 results are wanted, a tuple: return a, b'
    """
    if arrays == 1:
        return says
    wanted = f"{arrays} results are wanted, a tuple: return {', '.join('abcdefgh'[:arrays])}"
    return re.sub(r"; (a NumPy array or a number is wanted|arrays and numbers can be judged)$", f"; {wanted}", says)


def imports(says: str, kernel: bool) -> str:
    """What is said of a module that is missing, with those that are not.

    >>> imports("ModuleNotFoundError: No module named 'torch'", kernel=False)
    "ModuleNotFoundError: No module named 'torch'; only numpy and Python's own modules can be imported here"
    """
    there = "only numpy and iosim.memory" if kernel else "only numpy and Python's own modules"
    return f"{says}; {there} can be imported here" if NO_MODULE.match(says) else says
