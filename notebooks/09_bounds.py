# %% [markdown]
# # 9 How few words could there be?
#
# **Question.** FlashAttention moves far fewer words than standard attention. Could another algorithm, one that nobody has written yet, move
# fewer still? And what happens when the SRAM is so small that a tile of a few rows hardly fits?
#
# Words as before: **N** queries and keys of **d** numbers; a **word** is one stored number; **SRAM** holds **M** words, **HBM** the rest.
# A **lower bound** is a number of words below which no schedule can stay: no choice of tiles, no order of loops, no cleverness about what
# is kept, stored or computed again.

# %%
# %matplotlib inline
import inspect
from math import sqrt

import matplotlib.pyplot as plt

from iosim import Attention, regime_map, simulate
from iosim.kernels.small_cache.square_tiles import score_tiles
from iosim.plots import bounds as draw_bounds
from iosim.plots.figures import GRID, INK, QUIET, STYLES, bare
from iosim.regimes import places
from iosim.theory.io_bounds import bounds, least_words

N, d = 4096, 64
problem = Attention(n=N, d=d)

# %% [markdown]
# ## The easy bound
#
# Who has not read Q, K and V cannot know O, and O must be written: $4Nd$ words, whatever M is. We call them *compulsory*.
#
# FlashAttention-2 in its best blocks, N = 4,096, d = 64: **write down** how far from $4Nd$ you think it is for M = 16,384 words (64 KiB of
# float32), and for a thousand times as many.

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
# Here is the idea, for one product of matrices (Hong and Kung 1981; Irony, Toledo and Tiskin 2004). Cut the run of *any* program into
# pieces of T loads and stores. In a piece it can work with what it found in SRAM, at most M words, and with what it loaded, at most T. Now
# the geometry: a multiply-add needs one element of A, one of B and one of C. With x, y and z elements of the three, at most $\sqrt{xyz}$
# different multiply-adds can be made (Loomis and Whitney 1949). So a piece makes at most a certain number, there must be so and so many
# pieces, and each of them costs T. (Sums that begin in a piece, and need not be loaded, take some care; `docs/bounds.md` has every step.)
#
# For the product of two n x n matrices this gives $2n^3/\sqrt M - 2M$ (notebook 3). Attention is two products over the same pairs of a
# query and a key. `docs/bounds.md` counts both together and derives:
#
# - $4N^2d/\sqrt M - N^2 - 2M$ for $M < 4d^2$,
# - $4N^2d^2/M \cdot (1 - 1/2M)^2 - 2M + 1$ from $M = 4d^2$ on.
#
# **Predict**: 64 KiB is $M = 4d^2$. By what factor does FlashAttention-2 miss the bound there?

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

# %% [markdown]
# A handful of rows. There is a better idea, which is older: the square tiles of notebook 3. Do not keep whole rows. Keep a *square* of S,
# and let slices of Q and K pass, a few columns wide; send S through HBM; then make O in squares as well (Saha and Ye 2024). It is nearly
# standard attention! Its first half:

# %%
print(inspect.getsource(score_tiles))

# %% [markdown]
# (`blocked_scores` sums a tile of S over slices of Q and K that are `deep` columns wide. m and l are kept as in online softmax.)
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

# %% [markdown]
# $4d/\sqrt M + 1 = 9$ in the leading terms, and the bound has $4d/\sqrt M - 1 = 7$. Where rows do not fit, squares come close to the
# best that there is. And the result is right, too: here is a smaller problem, run with numbers and compared with attention in float64.

# %%
right = simulate("square-tiles", Attention(n=128, d=32), sram=256, blocks="best", depth="one")
print(f"{right.blocks}: {right.total:,} words, {', '.join(road for road, equal in right.agreed.items() if equal)}: equal;", end=" ")
print(f"largest error {right.max_error:.1e}, bound {right.error_bound:.1e}")

# %% tags=["check"]
assert right.sound

# %% [markdown]
# ## Where they cross
#
# Words fall like $1/\sqrt M$ for square tiles, and like $1/M$ for FlashAttention. **Predict**: at about which M do the curves cross? Saha
# and Ye say that it is about $d^2$.
#
# `regime_map` finds every crossing exactly, by merging the steps of both curves.

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

# %% [markdown]
# The printed variant, whose slices are as wide as the tile is high, loses earlier, because it needs room for three squares. With single
# columns the change comes between 0.74 and $0.78\,d^2$, to and fro, because rounding to whole tiles decides there.
#
# The picture shows everything that was counted, over all M, with the largest bound as the strong line.

# %%
draw_bounds(found)

# %% [markdown]
# ## So: is there a tighter bound in M?
#
# The FlashAttention paper proves that no exact algorithm does better than $N^2d^2/M$ for *all* M at once, by looking at M = Nd only
# (Proposition 3), and leaves the rest open. Saha and Ye closed it up to a constant in 2024: the least traffic grows like
# $N^2d/\sqrt M$ for $M < d^2$, and like $N^2d^2/M$ above. With constants worked out of their proofs, theirs is the column *published*
# below. The next one counts both products together. **Predict** which is larger, and by how much.

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

# %% [markdown]
# Yes: eight times larger at $M = 4d^2$, and two to six times at every other M of the table up to 65,536. And at $4d^2$ it cannot be raised
# by much: an algorithm within 10 % of it is known. Open are a factor of 1.3 to 1.6 around $M = d^2$ and below, and one of 2 where nearly
# everything fits:
# cutting a run into pieces costs the $-2M$.
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
# It goes to 1. Without all lower-order terms, in words for each pair of a query and a key, the picture of this notebook is simple:

# %%
_, axes = plt.subplots(figsize=(8, 4.2))
xs = [10 ** (k / 40) for k in range(-60, 61)]  # d / sqrt(M)
curves = {
    "flash2": ("4x²", [4 * x * x for x in xs]),
    "flash": ("6x²", [6 * x * x for x in xs]),
    "square-tiles": ("4x + 1", [4 * x + 1 for x in xs]),
}
labels = {"flash2": (0.033, 33, "left"), "flash": (0.07, 110, "left"), "square-tiles": (20, 2.6, "left")}
for name, (formula, values) in curves.items():
    axes.loglog([1 / (x * x) for x in xs], values, color=STYLES[name].colour)
    across, up, side = labels[name]
    axes.text(across, up, f"{name}: {formula}", color=STYLES[name].colour, fontsize=9, ha=side)
lowest = [4 * x * x if x <= 0.5 else 4 * x - 1 for x in xs]
axes.loglog([1 / (x * x) for x in xs], lowest, color=INK, linewidth=2.2)
axes.text(0.033, 1.2, "bound: 4x - 1 below M = 4d²,\n4x² above (where flash2 lies on it)", fontsize=9, color=INK)
axes.axvline(4, color=QUIET, linestyle=":")
axes.set_ylim(0.01, 300)
axes.set_xlim(0.03, 300)
axes.set_xlabel("M / d²")
axes.set_ylabel("words a pair")
axes.set_title("Leading terms, x = d / √M", loc="left", fontsize=11, fontweight="bold", color=INK)
axes.grid(color=GRID, linewidth=0.6)
bare(axes)

# %% [markdown]
# ## Is a GPU a small cache?
#
# A thread block of a GPU has at least 48 KiB of shared memory (more if the program asks for it). **Predict**: for which of d = 64, 128
# and 256 is that a small cache, $M < d^2$, in float32?

# %%
for width in (64, 128, 256):
    least = places(regime_map(Attention(n=N, d=width)))[0]
    who, where = least.row.rival.name, least.row.regime.name
    print(f"d = {width:>3}: {least.size} = {least.row.sram:,} words, d² = {width**2:>6,}: {where}; fewest: {who}")

# %% tags=["check"]
assert (who, where, least.row.sram) == ("square-tiles (one)", "small cache", 12288)

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
# Exercise 14, `small-cache`: write a kernel that beats `flash` below $M = d^2$. The file is made by `iosim exercise start small-cache`.
#
# ## Summary

# %%
last, edge = found.leaders()[-1], least_words(problem, 16384)
print(f"1. At M = 4d² nobody can move fewer than {edge:,} words; flash2 moves {run.total:,}, {tight.ratio:.2f} times as many.")
print(f"2. Below M = {last.sram:,} ({last.sram / d**2:.2f} d²) square tiles, which send S through HBM, move fewer words than flash2.")
print(
    f"3. A tighter bound in M: {larger[4 * d * d]:.1f} times what was published, at 4d²; at d = 256, flash2 is within {gaps[256] - 1:.1%}."
)

# %% tags=["check"]
assert f"{tight.ratio:.2f}" == "1.10"
assert (last.sram, edge) == (3187, 16_743_426)
