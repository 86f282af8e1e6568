# %% [markdown]
# # 9 How few words could there be?
#
# **Question.** FlashAttention moves far fewer words than standard attention. Could another algorithm, one that nobody has written yet, move
# fewer still? And what happens when the SRAM is so small that a tile of a few rows hardly fits?
#
# Words as before: **N** queries and keys of **d** numbers; a **word** is one stored number; **SRAM** holds **M** words, **HBM** the rest
# ([notebook 1](01_memory.ipynb)). A **lower bound** is a number of words below which no schedule can stay: no choice of tiles, no order of
# loops, no cleverness about what is kept, stored or computed again.
#
# We write $\Theta(x)$ for what lies between two constants times x, whatever the sizes: it grows as x does, and we do not say how large the
# constants are.

# %%
# %matplotlib inline
import inspect
from math import sqrt

import matplotlib.pyplot as plt
import numpy as np

from iosim import Attention, regime_map, simulate
from iosim.attention.kernels.small_cache.square_tiles import score_tiles
from iosim.predict.bounds import bounds, least_words
from iosim.show.plots.figures import GRID, INK, QUIET, bare, style
from iosim.study.regimes import places

N, d = 4096, 64
problem = Attention(n=N, d=d)

# %% [markdown]
# ## The easy bound
#
# Who has not read Q, K and V cannot know O, and O must be written: $4Nd$ words, whatever M is. We call them *compulsory*.
#
# FlashAttention-2 (`flash2`, queries outside) in its best blocks ([notebook 6](06_blocks.ipynb)), N = 4,096, d = 64: **write down** how far
# from $4Nd$ you think it is for M = 16,384 words (64 KiB of float32), and for a thousand times as many. Hint: with $B_r$ queries on chip
# it reads K and V $N/B_r$ times, and Q and O take $2 B_r d$ words of M.

# %%
for sram in (16384, 1000 * 16384):
    run = simulate("flash2", problem, sram=sram, blocks="best", execute=False, replay=False)
    print(f"M = {sram:>10,}: {run.total:>10,} words, {run.total / run.compulsory:5.2f} times 4Nd = {run.compulsory:,}")

# %% tags=["check"]
assert run.compulsory == 4 * N * d
assert run.total == 4 * N * d + N  # LSE, one number a row
small_sram = simulate("flash2", problem, sram=16384, blocks="best", execute=False, replay=False)
assert f"{small_sram.total / small_sram.compulsory:.1f}" == "17.5"

# %% [markdown]
# With room for everything it moves each word once (and one number a row for the backward pass). With 64 KiB it is many times that. Is it
# FlashAttention's fault, or the SRAM's?
#
# ## A bound that knows M
#
# Here is the idea, for one product of matrices C = AB (Hong and Kung 1981; Irony, Toledo and Tiskin 2004). Cut the run of *any* program
# into pieces of T loads and stores. In a piece it can work with what it found in SRAM, at most M words, and with what it loaded, at most T.
# Now the geometry: a multiply-add needs one element of A, one of B and one of C. With x, y and z elements of the three, at most
# $\sqrt{xyz}$ different multiply-adds can be made (Loomis and Whitney 1949). So a piece makes at most a certain number, there must be so
# and so many pieces, and each of them costs T. (Sums that begin in a piece, and need not be loaded, take some care;
# [Lower bounds](../docs/bounds.md) has every step.)
#
# For the product of two n x n matrices this gives $2n^3/\sqrt M - 2M$ ([notebook 3](03_tiling.ipynb)). Attention is two products over the
# same pairs of a query and a key. [Both products at once](../docs/bounds.md#both-products-at-once) counts them together and derives:
#
# - $4N^2d/\sqrt M - N^2 - 2M$ for $M < 4d^2$,
# - $4N^2d^2/M \cdot (1 - 1/2M)^2 - 2M + 1$ from $M = 4d^2$ on.
#
# **Predict**: M = 16,384 is $4d^2$. The first term of the second line is the large one, and $4d^2/M$ is 1; how large is it?
# FlashAttention-2 moved 18.4 million words above. By what factor does it miss the bound?
#
# `bounds` gives every bound that iosim knows, for any sizes, with its formula. There **N_q** and **N_k** are the numbers of queries and
# keys (here both N), **d_v** is the number of columns of V and O (here d), and **E** the number of pairs of a query and a key that attend
# (here $N^2$; a mask leaves fewer). The bound *small cache* has its name from the small M for which it was made. We need the largest only.

# %%
run = simulate("flash2", problem, sram=16384, blocks="best", execute=False, replay=False)
for bound in bounds(problem, 16384):
    print(f"{bound.name:<13} {bound.words:>10,} words at least   {bound.formula}")
print(f"flash2 {run.blocks} moves {run.total:,}: {run.total / run.lower_bound:.2f} times the largest")

# %% tags=["check"]
found = {bound.name: bound.words for bound in bounds(problem, 16384)}
assert found == {"compulsory": 1_048_576, "Saha-Ye": 2_080_768, "small cache": 491_520, "two products": 16_743_426}
assert run.lower_bound == least_words(problem, 16384) == found["two products"]
assert run.total == 18_354_176
assert 16384 == 4 * d * d == 64 * 1024 // 4
s, r = d + d, min(2 * d, d + d)  # the formula of "two products", and the second of the two lines
assert r * (2 * s - r) * N * N // 16384 == 4 * N * N * d * d // 16384 == 2**24
assert f"{run.total / run.lower_bound:.2f}" == "1.10"

# %% [markdown]
# Ten per cent. It is the SRAM's fault: *nobody* can do better than that here, by more than these ten per cent.
#
# Why are there two lines? A score is an element of $S = QK^T$ and a factor of $PV$, so that one word on chip serves both products. For
# large M it pays to keep rows of Q and O, and to use each score at once. For small M rows are too long, and it pays to store scores and
# read them again. The two lines meet at $M = 4d^2$.
#
# ## When M is small
#
# Let us make M small: M = 1,024 words, less than $d^2$ = 4,096. A tile of K takes whole rows of 64 words, and so do Q, V and O.
#
# **Predict**: how many rows of Q and O can FlashAttention-2 keep? How often does it read K and V?

# %%
small = simulate("flash2", problem, sram=1024, blocks="best", execute=False, replay=False)
print(f"blocks {small.blocks}: K is read {small.arrays['K'].reads // (N * d)} times; {small.total:,} words")
print(f"lower bound {small.lower_bound:,}: {small.total / small.lower_bound:.2f} times")

# %% tags=["check"]
assert small.arrays["K"].reads == -(-N // small.blocks.rows) * N * d
assert small.total > 2 * small.lower_bound
assert small.blocks.rows == 6

# %% [markdown]
# Six rows. There is a better idea, which is older: the square tiles of [notebook 3](03_tiling.ipynb). Do not keep whole rows. Keep a
# *square* of S, and let slices of Q and K pass, a few columns wide; send S through HBM; then make O in squares as well (Saha and Ye 2024,
# arXiv 2402.07443). It is nearly standard attention! Here is the loop of its first half:

# %%
listing = inspect.getsource(score_tiles)
print(listing[listing.index("    for i in m.tiles(") :])

# %% [markdown]
# (`blocked_scores` sums a tile of S over slices of Q and K that are `deep` columns wide. `l_i` and `m_i` are kept as in online softmax
# ([notebook 2](02_softmax.ipynb)); their arrays in HBM are called L and M here, and this M is no capacity. `mask`, `seen` and `finite` are
# for masks.)
#
# In tiles of B x B it moves about $4N^2d/B$ words for Q, K, V and the passes over S, and $N^2$ to store S. With one column at a time
# (`depth="one"`), the room is little more than the tile: $B \approx \sqrt M$. **Predict** the words for M = 1,024, as a number of $N^2$.

# %%
square = simulate("square-tiles", problem, sram=1024, blocks="best", depth="one", execute=False, replay=False)
print(f"blocks {square.blocks}: {square.total:,} words, {square.total / N**2:.2f} N²; flash2: {small.total / N**2:.2f} N²")
print(f"lower bound {square.lower_bound:,}, {square.lower_bound / N**2:.2f} N²: {square.total / square.lower_bound:.2f} times")
for name, array in square.arrays.items():
    print(f"   {name}: read {array.reads:>11,}, written {array.writes:>11,}")

# %% tags=["check"]
assert square.total == 161_234_944
assert square.arrays["S"].writes == N * N
assert square.total < small.total
assert 4 * d / sqrt(1024) + 1 == 9  # the leading terms, in units of N²

assert f"{square.lower_bound / N**2:.2f}" == "7.00"

# %% [markdown]
# $4d/\sqrt M + 1 = 9$ in the leading terms, and the bound has $4d/\sqrt M - 1 = 7$. Where rows do not fit, squares come close to the
# best that there is. And the result is right, too: here is a smaller problem, run with numbers and compared with attention in float64.

# %%
right = simulate("square-tiles", Attention(n=128, d=32), sram=256, blocks="best", depth="one")
print(f"{right.blocks}: {right.total:,} words, equal: {', '.join(road for road, equal in right.agreed.items() if equal)}")
print(f"largest error {right.max_error:.1e}, bound {right.error_bound:.1e}")

# %% tags=["check"]
assert right.sound

# %% [markdown]
# ## Where they cross
#
# Words fall like $1/\sqrt M$ for square tiles, and like $1/M$ for FlashAttention. **Predict**: at about which M do the curves cross? Saha
# and Ye say that it is about $d^2$.
#
# `regime_map` knows the words of every algorithm at every M, in its best blocks, and finds every crossing exactly; `versus` tells who of
# two moves fewer words, and from which M on. `square-tiles (one)` is the variant with single columns; `square-tiles` is as printed, with
# slices that are as wide as the tile is high.

# %%
found = regime_map(problem)
for first in ("square-tiles", "square-tiles (one)"):
    wins = found.versus(first, "flash2")
    print(f"{first} against flash2:", "; ".join(f"from M = {win.sram:,} on {win.name}" for win in wins))
print(f"d² = {d * d:,}")

# %% tags=["check"]
assert [(win.sram, win.name) for win in found.versus("square-tiles", "flash2")] == [(5, "square-tiles"), (1591, "flash2")]
assert found.leaders()[-1].name == "flash2"
assert d * d / 3 < found.leaders()[-1].sram < d * d
turns = [win.sram for win in found.versus("square-tiles (one)", "flash2")][1:]
assert [int(100 * turn / d**2) for turn in turns] == [74, 76, 77]

# %% [markdown]
# The printed variant loses earlier, because it needs room for three squares. With single columns the change comes between 0.74 and
# $0.78\,d^2$, to and fro, because rounding to whole tiles decides there.
#
# The picture shows three of them over M: above the words that each moves, and below how many times the largest bound that is. Everything
# is in logarithms. Three ranges of M have names, which stand at the top: a *small cache* has no room for d rows of d words, and where
# *everything fits*, all of K does. Beside the names stands what Saha and Ye say about the least traffic.

# %%
at = np.unique(np.geomspace(512, 2**20, 600).astype(int))
floor = np.array([least_words(problem, int(sram)) for sram in at])
moved = {one.name: one.words_at(at) for one in found.curves}
shown = {"flash": "flash", "flash2": "flash2", "square-tiles (one)": "square tiles, single columns"}
_, (top, bottom) = plt.subplots(2, 1, figsize=(9.4, 7.6), sharex=True, height_ratios=[1.6, 1], layout="constrained")
for axes, unit in ((top, 1), (bottom, floor)):
    axes.loglog(at, floor / unit, color=INK, linewidth=2.4)
    for name in shown:
        axes.loglog(at, moved[name] / unit, color=style(name.partition(" ")[0]).colour)
    for one in found.regimes[1:]:
        axes.axvline(one.start, color=QUIET, linestyle=":", linewidth=1)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    bare(axes)
for name, place, side in (("flash", 1400, 1.3), ("flash2", 545, 0.42), ("square-tiles (one)", 20_000, 1.3)):
    here = moved[name][np.searchsorted(at, place)]
    top.text(place, here * side, shown[name], color=style(name.partition(" ")[0]).colour, fontsize=11)
top.text(580, 0.35 * floor[0], "the largest bound", color=INK, fontsize=11)
for one in found.regimes:
    left, right = max(one.start, at[0]), one.stop or at[-1]
    top.text(sqrt(left * right), 5e9, f"{one.name}\n{one.condition}\n{one.theta}", ha="center", va="top", fontsize=10, color=INK)
top.set(ylim=(6e5, 6e9), xlim=(at[0], at[-1]))
top.set_ylabel("words moved")
top.set_title(f"N = {N:,}, d = {d}: best blocks, and what nobody can go below", loc="left", fontsize=12, fontweight="bold", color=INK)
bottom.set_ylim(0.9, 40)
bottom.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
bottom.set_ylabel("times the largest bound")
bottom.set_xscale("log", base=2)
sizes = [2**k for k in range(9, 21)]
bottom.set_xticks(sizes[::2], [f"{size:,}" for size in sizes[::2]])
bottom.minorticks_off()
bottom.set_xlabel("SRAM capacity M (words)")

# %% tags=["check"]
assert all((words >= floor).all() for name, words in moved.items() if name in shown)
ahead = np.argmin([moved[name] for name in shown], axis=0)
assert [*shown][ahead[0]] == "square-tiles (one)"
assert {[*shown][who] for who in ahead[at >= turns[-1]]} == {"flash2"}

# %% [markdown]
# ## So: is there a tighter bound in M?
#
# The FlashAttention paper proves that no exact algorithm does better than $N^2d^2/M$ for *all* M at once, by looking at M = Nd only
# (Proposition 3), and leaves the rest open. Saha and Ye closed it up to a constant in 2024 (Theorem 3.1): the least traffic is
# $\Theta(N^2d/\sqrt M)$ for $M < d^2$, and $\Theta(N^2d^2/M)$ above. With constants worked out of their proofs, theirs is the column
# *published* below: the largest of the first three bounds above. The next column counts both products together. **Predict** which is
# larger at $M = 4d^2$, and by how much: the four numbers are above.

# %%
print(f"{'M':>9} {'M/d²':>6} {'published':>10} {'both products':>14} {'fewest words':>13}   in units of N²")
published = {}
for row in found.rows:
    words = {bound.name: bound.words / N**2 for bound in bounds(problem, row.sram)}
    published[row.sram] = max(words["compulsory"], words["Saha-Ye"], words["small cache"])
    both = max(words["two products"], words["compulsory"])
    print(f"{row.sram:>9,} {row.sram / d**2:>6.3g} {published[row.sram]:>10.3f} {both:>14.3f} {row.words / N**2:>13.3f}", end="   ")
    print(f"{row.ratio:.2f} times the larger bound, {row.rival.name}")

# %% tags=["check"]
assert all(row.words >= row.bound.words for row in found.rows)
assert all(row.counted for row in found.rows)  # each number was also counted on the machine
tight = min(found.rows, key=lambda row: row.ratio if d * d <= row.sram <= 16 * d * d else 9)
assert tight.sram == 4 * d * d
larger = {row.sram: row.bound.words / N**2 / published[row.sram] for row in found.rows}
assert max(larger, key=larger.get) == 4 * d * d
assert round(larger[4 * d * d], 1) == 8.0
assert all(2 < larger[m] < 6.2 for m in larger if m <= 65536 and m != 4 * d * d)
assert [round(f([row.ratio for row in found.rows if row.sram <= d * d]), 1) for f in (min, max)] == [1.3, 1.6]
assert (max(found.rows, key=lambda row: row.ratio).sram, round(max(row.ratio for row in found.rows), 1)) == (N * d, 2.0)

# %% [markdown]
# Yes: eight times larger at $M = 4d^2$, and two to six times at every other M of the table up to 65,536. And at $4d^2$ it cannot be raised
# by much: an algorithm within 10 % of it is known. Open are a factor of 1.3 to 1.6 up to $M = d^2$, and one of 2 where nearly everything
# fits: cutting a run into pieces costs the $-2M$.
#
# How large is the gap when d grows? Lower-order terms (the tile S, statistics, ragged tiles) become small against $d^2$. **Predict** the
# factor at $M = 4d^2$ for d = 256.

# %%
gaps = {}
for width, length in ((16, 2**14), (64, 2**16), (256, 2**20)):
    row = regime_map(Attention(n=length, d=width), ["flash2"], sram=[4 * width**2]).rows[0]
    gaps[width] = row.ratio
    print(f"d = {width:>3}, N = {length:>9,}: {row.words:>20,} words, {row.ratio:.3f} times the bound, blocks {row.blocks}")

# %% tags=["check"]
assert gaps[16] > gaps[64] > gaps[256] > 1
assert round(gaps[256], 3) == 1.013

# %% [markdown]
# It goes to 1. Without all lower-order terms, in words for each pair of a query and a key, and with $x = d/\sqrt M$, the picture of this
# notebook is simple. ($M = d^2$ is x = 1, and $M = 4d^2$ is x = 1/2.)

# %%
_, axes = plt.subplots(figsize=(9, 5))
xs = [10 ** (k / 40) for k in range(-60, 61)]
sizes = [1 / (x * x) for x in xs]  # M / d²
curves = {
    "flash": ("6x²", [6 * x * x for x in xs], (0.085, 95)),
    "flash2": ("4x²", [4 * x * x for x in xs], (0.034, 30)),
    "square-tiles": ("4x + 1", [4 * x + 1 for x in xs], (14, 2.7)),
}
for name, (formula, values, at) in curves.items():
    axes.loglog(sizes, values, color=style(name).colour)
    axes.text(*at, f"{name}: {formula}", color=style(name).colour, fontsize=11, va="center")
lowest = [4 * x * x if x <= 0.5 else 4 * x - 1 for x in xs]
axes.loglog(sizes, lowest, color=INK, linewidth=2.2)
below = "no schedule is below the black line:\n4x - 1 up to M = 4d², then 4x²,\nwhere flash2 lies on it"
axes.text(0.034, 0.6, below, fontsize=11, color=INK)
axes.axvline(4, color=QUIET, linestyle=":")
axes.text(4.3, 150, "M = 4d²", fontsize=11, color=QUIET)
axes.set_ylim(0.01, 300)
axes.set_xlim(0.03, 300)
axes.set_xlabel("M / d²")
axes.set_ylabel("words for each pair of a query and a key")
axes.set_title("Leading terms, x = d / √M", loc="left", fontsize=12, fontweight="bold", color=INK)
axes.grid(color=GRID, linewidth=0.6)
bare(axes)

# %% [markdown]
# ## Is a GPU a small cache?
#
# On a GPU, what runs together (a thread block, of which [notebook 10](10_cuda.ipynb) tells more) has 48 KiB of fast memory on chip, and
# more only if the program asks for it. **Predict**: for which of d = 64, 128 and 256 is that a small cache, $M < d^2$, in float32 (4
# bytes a word)?
#
# `places` looks up the memories of all GPUs that iosim knows on the map, the smallest first.

# %%
least = {width: places(regime_map(Attention(n=N, d=width)))[0] for width in (64, 128, 256)}
for width, place in least.items():
    who, where = place.row.rival.name, place.row.regime.name
    print(f"d = {width:>3}: {place.size} = {place.row.sram:,} words, d² = {width**2:>6,}: {where}; fewest: {who}")

# %% tags=["check"]
assert all(str(place.size) == "48 KiB" and place.row.sram == 12288 for place in least.values())
assert [place.row.regime.name for place in least.values()] == ["middle", "small cache", "small cache"]
assert [place.row.rival.name for place in least.values()] == ["flash2", "flash2", "square-tiles (one)"]

# %% [markdown]
# From d = 128 on. At 128 FlashAttention-2 is still ahead; at 256, square tiles would move fewer words.
#
# ## Move M yourself


# %%
def tell(M=4096, d=64, N=4096):
    """Who moves the fewest words at M, beside the largest bound."""
    row = regime_map(Attention(n=N, d=d), sram=[M]).rows[0]
    print(f"M = {M:,} = {M / d**2:.3g} d²: {row.regime.name}; {row.rival.name} {row.blocks} moves {row.words:,} words")
    print(f"at least {row.bound.words:,} must move ({row.bound.name}): {row.ratio:.2f} times")


tell()

# %% [markdown]
# With ipywidgets the next cell makes three sliders; without, change its numbers and run it again.

# %%
try:
    from ipywidgets import interact
except ImportError:
    tell(M=1024, d=128)
else:
    interact(tell, M=(256, 65536, 256), d=(8, 128, 8), N=(512, 8192, 512))

# %% [markdown]
# ## Exercise
#
# Exercise 14, `small-cache`: write a kernel that beats `flash` below $M = d^2$. The file is made by `iosim exercise start small-cache`;
# [the exercises](../docs/exercises.md) has the rest. On tiny problems the least traffic can be found exactly, by search:
# [Pebbling](../docs/pebbling.md). Next: [notebook 10](10_cuda.ipynb), a real kernel.
#
# ## Summary

# %%
last, edge = found.leaders()[-1], least_words(problem, 16384)
print(f"1. At M = 4d² nobody can move fewer than {edge:,} words; flash2 moves {run.total:,}, {tight.ratio:.2f} times as many.")
here = f"{last.sram:,} ({last.sram / d**2:.2f} d²)"
print(f"2. From M = {here} on flash2 moves the fewest words; below {turns[0]:,}, square tiles, which send S through HBM.")
print(
    f"3. A tighter bound in M: {larger[4 * d * d]:.1f} times what was published, at 4d²; at d = 256, flash2 is within {gaps[256] - 1:.1%}."
)

# %% tags=["check"]
assert f"{tight.ratio:.2f}" == "1.10"
assert (last.sram, edge) == (3187, 16_743_426)
