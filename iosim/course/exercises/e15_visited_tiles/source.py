"""Exercise 15: the tiles that causal attention visits, and those in which every pair attends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iosim.course.answers import first_wrong
from iosim.course.predicted import in_a_head
from iosim.course.spec import Array, Exercise, FunctionCheck, Given, Mistake, Wrong


def visited_tiles(n: int, nk: int, Br: int, Bc: int) -> NDArray[np.int64]:
    """For every tile of n queries by nk keys under a causal mask: 0 where no pair attends, 1 where some do, 2 where all do.

    Query i may attend to key j where j <= i + nk - n, counted from 0: the last query sees every key (aligned bottom-right). With more
    queries than keys the first n - nk queries see nothing. Query tile I has the queries I * Br, ..., at most Br of them, key tile J the
    keys J * Bc, ..., at most Bc; the last tiles are shorter where the blocks do not divide n and nk, and pairs beyond them do not exist.
    All arguments are integers >= 1; blocks may be larger than n and nk.
    Returns an int64 array of shape (ceil(n / Br), ceil(nk / Bc)), query tiles down and key tiles across.
    """
    reach = np.arange(0, n, Br)[:, None] + nk - n  # the last key that a tile's first query sees
    left = np.arange(0, nk, Bc)
    right = np.minimum(left + Bc, nk) - 1
    return (left < reach + Br).astype(np.int64) + (right <= reach)


def draw(rng: np.random.Generator) -> list[Given]:
    """More keys, more queries, as many; one query; single pairs; one large tile. Sizes are drawn too."""
    Br, Bc, tiles = int(rng.integers(2, 6)), int(rng.integers(2, 6)), int(rng.integers(3, 6))
    tail, low, high = int(rng.integers(1, Bc)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    n, few = Br * tiles + 1, int(rng.integers(3, 9))
    nk = Bc * -(-(n + Bc) // Bc) + tail
    return [
        Given("more keys than queries, one query in the last tile", (n, nk, Br, Bc)),
        Given("more queries than keys: some see nothing", (nk, n, Bc, Br)),
        Given("as many queries as keys", (3 * (low + high) + tail, 3 * (low + high) + tail, low + high, low)),
        Given("one query", (1, nk, 1, Bc)),
        Given("tiles of one pair", (few, few + 2, 1, 1)),
        Given("one tile, larger than the problem", (few, few + 1, few + Br, few + Bc + 1)),
        Given("one query and one key", (1, 1, 1, 1)),
    ]


def judge(given: Given, results: tuple[Array, ...]) -> Wrong | None:
    """The very numbers, asked of every pair."""
    n, nk, Br, Bc = (int(size) for size in given.args)
    wrong = first_wrong("tiles", results[0], kinds(n, nk, Br, Bc).astype(np.float64), 0.0)
    if wrong is None or not wrong.where:
        return wrong
    I, J = wrong.where
    pairs = f"queries {I * Br}..{min(n, I * Br + Br) - 1}, keys {J * Bc}..{min(nk, J * Bc + Bc) - 1} of {n} x {nk}"
    return Wrong(f"{wrong.says} ({pairs})", wrong.where, wrong.found, wrong.wanted)


def kinds(n: int, nk: int, Br: int, Bc: int) -> NDArray[np.int64]:
    """0, 1 or 2 for each tile, from a table of all pairs."""
    attend = np.arange(nk) <= np.arange(n)[:, None] + nk - n
    down, across = np.arange(0, n, Br), np.arange(0, nk, Bc)
    some, every = (of.reduceat(of.reduceat(attend, down, axis=0), across, axis=1) for of in (np.logical_or, np.logical_and))
    return some.astype(np.int64) + every


TILES = visited_tiles(4096, 4096, 64, 64)

EXERCISE = Exercise(
    number=15,
    name="visited-tiles",
    title="Which tiles does causal attention visit?",
    solution=visited_tiles,
    header="import numpy as np\nfrom numpy.typing import NDArray",
    learn="This one is best done before exercise 10. Whether a tile is empty, partial or full follows from its corners alone, before "
    "anything is loaded. Empty tiles cost nothing, full ones need no mask. The rule must say how queries and keys are "
    "aligned where their numbers differ.",
    formula="query i sees key j  <=>  j <= i + N_k - N_q;  a tile is empty if its last query does not see its first key, full if its first "
    "query sees its last key",
    paper="FlashAttention-2 (Dao 2023, arXiv 2307.08691), on causal masking: tiles above the diagonal are skipped, and about one tile in a "
    "row of tiles needs the mask. Bottom-right is how its code has aligned since version 2.1; PyTorch's is_causal aligns top-left.",
    why=f"At N = 4096 in tiles of 64 x 64, {np.count_nonzero(TILES):,} of {TILES.size:,} tiles are visited and "
    f"only {np.count_nonzero(TILES == 1)} of them need a mask; with d = 64, FlashAttention-2's order moves "
    f"{in_a_head('flash2', causal=True):,} words instead of {in_a_head('flash2'):,}.",
    hints=(
        "Draw 3 queries and 5 keys and mark who sees whom; the last query sees all keys. Which corner of a tile is the first to be "
        "allowed, and which the last?",
        "A tile holds an allowed pair exactly if its last query sees its first key: its bottom-left corner. It is full exactly if its "
        "first query sees its last key: its top-right corner. Mind that the last key tile may end before (J + 1) * Bc.",
        "Let reach be the last key that a tile's first query sees, np.arange(0, n, Br)[:, None] + nk - n. left and right are the first "
        "and last key of a key tile, right at most nk - 1. Compare left with reach + Br, and right with reach; add the two answers.",
    ),
    check=FunctionCheck(draw, judge, dtypes=("int64",)),
    mistakes=(
        Mistake(
            "causal off by the offset",
            "The mask is aligned top-left: query i sees the keys up to i. With n != nk the diagonal is shifted by nk - n, so that the last "
            "query sees the last key. Try one query and five keys: it sees all of them.",
            (("[:, None] + nk - n", "[:, None]"),),
        ),
        Mistake(
            "offset with the wrong sign",
            "The diagonal is shifted the wrong way, by n - nk. Try one query and five keys: the query comes last and sees all of them.",
            (("[:, None] + nk - n", "[:, None] + n - nk"),),
        ),
        Mistake(
            "own key hidden",
            "Query i sees key i + nk - n itself; the rule is <=, not <. In tiles of a single pair, those on the diagonal are full.",
            (("left < reach + Br", "left < reach + Br - 1"), ("right <= reach", "right < reach")),
        ),
        Mistake(
            "full one key too late",
            "The first query sees the key that its reach falls on, too: a tile whose last key is that one is full. The rule is <=, not <.",
            (("right <= reach", "right < reach"),),
        ),
        Mistake(
            "visited one key too late",
            "The last query sees the key that its reach falls on, too: a tile whose first key is that one is visited, for a single pair.",
            (("left < reach + Br", "left < reach + Br - 1"),),
        ),
        Mistake(
            "visited one key too early",
            "A tile of Br queries ends with the one at I * Br + Br - 1, and not with the next: a key that only that one would see is not "
            "visited.",
            (("left < reach + Br", "left <= reach + Br"),),
        ),
        Mistake(
            "tail keys counted",
            "The last key tile is taken to be Bc wide, and so is never full. Keys beyond nk - 1 do not exist and cannot be hidden: a last "
            "query alone in its tile sees every key there is.",
            (("np.minimum(left + Bc, nk) - 1", "left + Bc - 1"),),
        ),
        Mistake(
            "full too early",
            "Tiles are called full as soon as their last query sees all of their keys. The first query sees the fewest: if it is not "
            "asked, a partial tile runs without its mask.",
            (("right <= reach", "right < reach + Br"),),
        ),
        Mistake(
            "partial tiles skipped",
            "Tiles are visited only if their first query sees something there. The queries below it see further: ask the last one.",
            (("left < reach + Br", "left <= reach"),),
        ),
        Mistake(
            "partial taken for full",
            "Every tile that is visited is called full, so that no mask is ever applied. On the diagonal only some pairs attend.",
            (("(left < reach + Br).astype(np.int64) + (right <= reach)", "2 * (left < reach + Br).astype(np.int64)"),),
        ),
        Mistake(
            "rows and columns exchanged",
            "The table is transposed: query tiles go down and key tiles across. With one query there is a single row.",
            (("(left < reach + Br).astype(np.int64) + (right <= reach)", "((left < reach + Br).astype(np.int64) + (right <= reach)).T"),),
        ),
    ),
)
