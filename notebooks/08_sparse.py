# %% [markdown]
# # 8 Leaving tiles out: causal and block-sparse attention
#
# **Question.** A causal mask hides half of all pairs of a query and a key. Does half of the traffic go away? And if a mask keeps one pair
# in a hundred, are there a hundred times fewer words?
#
# Words as before: **N** queries and N keys of **d** numbers (where their numbers differ, there are $N_q$ queries and $N_k$ keys); a
# **word** is one stored number; **HBM** is the slow memory, **SRAM** the fast one of M words. A **tile** is a rectangle of $B_r$ queries
# by $B_c$ keys. FlashAttention works tile by tile ([notebook 5](05_flash.ipynb)), and whoever leaves out a whole tile need not load what
# it needs.

# %%
# %matplotlib inline
import math

import matplotlib.pyplot as plt
import numpy as np

from iosim import Attention, BlockMask, simulate
from iosim.core.masks import patterns
from iosim.show.plots.figures import GRID, INK, QUIET, bare, style

N, d, B = 1024, 64, 64
SRAM = "256KiB"  # room enough for every tile below


def run(kernel, n=N, check=False, **asked):
    """What a kernel moves in tiles of 64 x 64, or in those of a block mask; with ``check`` it computes with numbers, too."""
    problem = Attention(n=n, d=d, **asked)
    blocks = (B, B) if problem.block_mask is None else "fit"  # a block mask brings its tiles with it
    return simulate(kernel, problem, sram=SRAM, blocks=blocks, execute=check, replay=check)


# %% [markdown]
# ## Causal
#
# In a language model a query may attend to its own position and earlier ones only. With N = 1,024 and tiles of 64 x 64 there are
# 16 x 16 = 256 tiles. Three kinds of them: *full* (all pairs may attend), *partial* (some may), *empty* (none may: skipped).
#
# **Write down:** how many tiles are visited? And what share of the words of K does `flash2` still read? (`flash2` is FlashAttention-2. The
# queries are outside, and K and V pass once for each tile of queries.)
#
# `patterns.causal` takes the numbers of queries and keys, then $B_r$ and $B_c$; its `nnz` is the number of tiles that are visited.

# %%
mask = patterns.causal(N, N, B, B)
dense, causal = run("flash2"), run("flash2", causal=True, check=True)
print(f"{mask.nnz} of {mask.grid[0] * mask.grid[1]} tiles are visited, {mask.partial} of them partial")
for name in dense.arrays:
    before, after = (one.arrays[name].reads + one.arrays[name].writes for one in (dense, causal))
    print(f"{name:<4} {before:>9,} words without a mask, {after:>9,} causal: {after / before:.1%}")

# %% tags=["check"]
T = N // B
assert (mask.nnz, mask.partial) == (T * (T + 1) // 2, T) == (136, 16)
assert mask.grid == (16, 16)
assert causal.arrays["K"].reads == causal.arrays["V"].reads == mask.nnz * B * d
assert causal.total == 2 * mask.nnz * B * d + 2 * N * d + N
assert causal.sound
assert causal.flops.matmul * T * T == dense.flops.matmul * mask.nnz

# %% [markdown]
# $T(T+1)/2$ of $T^2$ tiles, with T = 16: a little more than half, because a tile that the diagonal cuts is visited as a whole. What moves
# once anyway (Q, O and LSE, the logarithm of a row's sum of exponentials) moves as before. Inside a partial tile the mask is computed from
# the positions of query and key, so that it moves no words itself.
#
# Larger tiles save passes ([notebook 6](06_blocks.ipynb)), and waste more along the diagonal. **Predict** the share of visited tiles for
# tiles of 512 x 512.

# %%
for size in (8, 32, 128, 512, 1024):
    shape = patterns.causal(N, N, size, size)
    print(f"{size:>5} x {size:<5} {shape.nnz:>6,} of {shape.grid[0] * shape.grid[1]:>6,} tiles visited: {shape.density:.1%}")

# %% tags=["check"]
shares = {size: patterns.causal(N, N, size, size).density for size in (8, 512, 1024)}
assert shares == {8: 129 / 256, 512: 0.75, 1024: 1.0}

# %% [markdown]
# ## Which corner?
#
# When a model writes text, it keeps the keys of everything that it has read, and asks with the newest queries only. Then there are fewer
# queries than keys. Which keys may they see?
#
# Take 2 queries and 5 keys. They are the *newest* two positions, so the last query sees all keys, and the one before all but the last: the
# mask is aligned at the **bottom right**. Of $N_q$ queries and $N_k$ keys, query i sees key j if $j \le i + N_k - N_q$. FlashAttention does
# so since version 2.1. (PyTorch's `is_causal` aligns at the top left, where the first query sees the first key only.)
#
# To see which rule the machine follows we give it numbers. d is 1; both queries are 1, the keys are 0, 1, 2, 3, 4, so that these are the
# scores, too (`scale=1.0`: they are not divided by $\sqrt d$); the values are 1 to 5. A query that sees the first key only gets its value,
# 1. One that sees four of them gets their mean with the weights $e^0, e^1, e^2, e^3$, divided by their sum. **Predict**, roughly: is the
# first output near 1 or near 4?

# %%
q, k, v = np.ones((2, 1)), np.arange(5.0)[:, None], np.arange(1.0, 6.0)[:, None]
newest = Attention(n=2, nk=5, d=1, scale=1.0, causal=True, dtype="float64")
few = simulate("flash2", newest, sram=1000, blocks=(1, 2), inputs=(q, k, v))
print("O  ", few.output.ravel().round(6))
print("LSE", few.lse.ravel().round(6))

# %% tags=["check"]
weights = np.exp(np.arange(5.0))
means = [weights[:seen] @ v[:seen, 0] / weights[:seen].sum() for seen in (4, 5)]
assert np.allclose(few.output.ravel(), means, rtol=0, atol=1e-14)
assert np.allclose(few.lse.ravel(), [np.log(weights[:seen].sum()) for seen in (4, 5)], rtol=0, atol=1e-14)
assert few.sound

# %% [markdown]
# With more queries than keys the same rule leaves the first queries without any key. Their sum of exponentials is empty; by the
# formula that is 0/0. By convention O is 0 there, and LSE, the logarithm of the sum, is minus infinity. Here are 4 queries and 2 keys:

# %%
many = simulate("flash2", Attention(n=4, nk=2, d=8, causal=True), sram=1000, blocks=(1, 1))
print("O of the first query:", many.output[0], "  LSE:", many.lse.ravel().round(3))

# %% tags=["check"]
assert (many.output[:2] == 0).all()
assert np.isneginf(many.lse[:2]).all()
assert many.sound

# %%
shapes = [(4, 4), (2, 5), (4, 2)]
_, panels = plt.subplots(1, 4, figsize=(11, 4), width_ratios=[4, 5, 2, 5], layout="constrained")
for axes, (queries, keys) in zip(panels, shapes, strict=False):
    axes.pcolormesh(patterns.causal(queries, keys, 1, 1).states(), cmap="Blues", vmin=0, vmax=3, edgecolors="white", linewidth=2)
    axes.set_title(f"$N_q$ = {queries}, $N_k$ = {keys}", loc="left", fontsize=12, color=INK)
    axes.set(xlabel="key", ylabel="query", xticks=np.arange(keys) + 0.5, yticks=np.arange(queries) + 0.5)
    axes.set(xticklabels=range(keys), yticklabels=range(queries))
panels[3].pcolormesh(mask.states(), cmap="Blues", vmin=0, vmax=3, edgecolors="white", linewidth=0.5)
panels[3].set_title(f"N = {N:,}, in tiles\ndark: full, light: partial", loc="left", fontsize=12, color=INK)
panels[3].set(xlabel="tile of keys", ylabel="tile of queries", xticks=[0.5, 8.5, 15.5], yticks=[0.5, 8.5, 15.5])
panels[3].set(xticklabels=[0, 8, 15], yticklabels=[0, 8, 15])
for axes in panels:
    axes.set_aspect("equal", anchor="N")
    axes.invert_yaxis()
    axes.tick_params(length=0, colors=INK)

# %% [markdown]
# ## Block-sparse
#
# Why not leave out more? A **block mask** says for every tile whether it is kept. The FlashAttention paper's Algorithm 5 (`block-sparse`)
# is FlashAttention with an `if` around the inner loop: a tile that is not kept loads no Q, O, l or m. Let s be the share that is kept,
# the **density**.
#
# It computes something else than attention over all pairs: the softmax runs over the kept pairs. Whether a model can live with that is
# a question for those who train it. Ours is what moves.
#
# Here the keys are outside, as in Algorithm 1: K and V move once; O, l and m are filled first; and every kept tile moves $B_r$ rows of
# Q (read) and of O (read and written), and l and m. **Write down** the words for s = 0.25, as a share of those for s = 1. (A tile that is
# kept costs about $3 B_r d$ words, and there are $N^2 / B_r B_c$ tiles. How much is $2Nd$ for K and V beside all of them?)
#
# The masks keep tiles at random, each with probability s (`patterns.random(queries, keys, Br, Bc, s)`).

# %%
long = 4096
full = run("flash", n=long)
densities = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0]
drawn = {s: run("block-sparse", n=long, block_mask=patterns.random(long, long, B, B, s, seed=1)) for s in densities}
for s, one in drawn.items():
    kept = one.problem.block_mask
    share = f"{one.total / full.total:>6.1%} of flash without a mask"
    print(f"s = {s:<4}: {kept.nnz:>5,} tiles ({kept.density:>6.1%}), {one.total:>11,} words, {share}")


# %% tags=["check"]
def sparse_words(n, kept, size=B):
    """Algorithm 5 as printed, tiles of size x size that cut n evenly."""
    return 2 * n * d + kept * size * (3 * d + 4) + n * (d + 2)


assert all(one.total == sparse_words(long, one.problem.block_mask.nnz) for one in drawn.values())
assert all(one.sound for one in drawn.values())
assert drawn[1.0].total == full.total
assert sparse_words(long, 0) > drawn[0.01].total / 2

# %% [markdown]
# A straight line in the number of kept tiles, and it does not start at 0: K and V are loaded whatever the mask says, and O is filled for
# every query. At 1 % that fixed part is the larger one. This is the paper's Proposition 4: the words are $\Theta(Nd + s\,N^2d^2/M)$.
# (Read $\Theta(x)$ as "between two constants times x": it grows as x does. $N^2d^2/M$ stands there because the largest tiles that fit in
# M words have about $M/d$ rows.)
#
# Two other patterns. A *band* keeps tiles near the diagonal. The *butterfly* keeps tile (r, c) if r = c, or if the numbers r and c differ
# in one binary digit: each row keeps $\log_2 T + 1$ of T tiles, and any tile reaches any other in $\log_2 T$ steps.
# (Dao, Chen and others, 2022, Pixelated Butterfly; the paper's experiments use it.)

# %%
named = {
    "butterfly": patterns.butterfly(long, long, B, B),
    "band": patterns.local_band(long, long, B, B, 2),  # two tiles to each side
    "causal tiles": patterns.causal(long, long, B, B).filled(),  # those of the diagonal kept whole
}
shaped = {name: run("block-sparse", n=long, block_mask=kept) for name, kept in named.items()}
fast = run("flash2", n=long)
for name, one in shaped.items():
    print(f"{name:<13} s = {named[name].density:6.1%}: {one.total:>11,} words, {one.total / full.total:.1%} of flash")
print(f"flash2, all pairs:         {fast.total:>11,} words, {fast.total / full.total:.1%} of flash")

# %% tags=["check"]
assert named["butterfly"].nnz == 64 * (int(math.log2(64)) + 1)
assert all(one.total == sparse_words(long, named[name].nnz) for name, one in shaped.items())
assert named["band"].nnz == 5 * 64 - 2 - 4

# %%
_, axes = plt.subplots(figsize=(9, 5))
colour = style("block-sparse").colour
axes.plot([0, 1], [sparse_words(long, s * 64 * 64) for s in (0, 1)], color=colour, linewidth=1)
axes.plot([one.problem.block_mask.density for one in drawn.values()], [one.total for one in drawn.values()], "D", color=colour)
axes.text(0.78, sparse_words(long, 0.75 * 64 * 64) - 1.5e6, "random masks", color=colour, fontsize=10)
beside = {"butterfly": (10, -12), "band": (-34, 6), "causal tiles": (10, -12)}
for name, one in shaped.items():
    axes.plot(named[name].density, one.total, "o", color=INK, markersize=6)
    axes.annotate(name, (named[name].density, one.total), beside[name], textcoords="offset points", fontsize=10, color=INK)
for kernel, one in (("flash", full), ("flash2", fast)):
    axes.axhline(one.total, color=style(kernel).colour, linestyle="--", linewidth=1)
    axes.text(0.01, one.total + 7e5, f"{kernel}, all pairs", color=style(kernel).colour, fontsize=10)
axes.plot(0, sparse_words(long, 0), "o", color=QUIET, markersize=6)
axes.annotate("moves whatever the mask", (0, sparse_words(long, 0)), (14, -11), textcoords="offset points", fontsize=10, color=QUIET)
axes.set(xlim=(-0.015, 1.02), ylim=(-2e6, 5.7e7), xlabel="density: share of the tiles that are kept", ylabel="words moved")
axes.yaxis.set_major_formatter(lambda at, _: f"{at / 1e6:.0f} M")
axes.set_title(f"N = {long:,}, d = {d}, tiles of {B} x {B}", loc="left", fontsize=11, fontweight="bold", color=INK)
axes.grid(axis="y", color=GRID, linewidth=0.6)
bare(axes)

# %% [markdown]
# One more line is in the picture: `flash2` over *all* pairs. A block-sparse kernel in the order of Algorithm 1 must leave out a good part
# of the tiles before it moves fewer words than that. The better loop order is worth as much as leaving out a third of the tiles:

# %%
even = (fast.total - sparse_words(long, 0)) / (full.total - sparse_words(long, 0))
print(f"at s = {even:.2f} both move {fast.total:,} words")

# %% tags=["check"]
assert 0.6 < even < 0.7
assert round(1 / (1 - even)) == 3

# %% [markdown]
# ## N log N
#
# Since the butterfly keeps $\log_2 T + 1$ tiles a row, its density falls as N grows. **Predict**: when N doubles, dense attention
# moves four times the words. And the butterfly?

# %%
lengths = [2**power for power in range(10, 17)]
growing = {n: run("block-sparse", n=n, block_mask=patterns.butterfly(n, n, B, B)) for n in lengths}
words = {}
for n, one in growing.items():
    words[n] = one.total
    kept, times = one.problem.block_mask.density, f"{words[n] / words[n // 2]:.2f} times N/2" if n // 2 in words else ""
    print(f"N = {n:>6,}: s = {kept:>6.2%}, {one.total:>11,} words, {one.total / (n * math.log2(n)):.1f} N log2 N  {times}")

# %% tags=["check"]
assert all(one.total == sparse_words(n, n // B * int(math.log2(n // B) + 1)) for n, one in growing.items())
assert all(2 < words[2 * n] / words[n] < 2.5 for n in lengths[:-1])
assert round(1 / growing[65536].problem.block_mask.density) == 93

# %% [markdown]
# A little more than twice. For N = 65,536 the mask keeps about one tile in a hundred. (Here the tiles stay as they are. The paper's
# Proposition 4 says $\Theta(N \log N)$ for such a density.)
#
# ## Pairs are not tiles
#
# Now a mask that keeps one *pair* in a hundred, at random, wherever it likes. **Predict**: how many of the 64 x 64 tiles can be skipped?

# %%
chance = np.random.default_rng(0).random((N, N)) < 0.01
tiles = BlockMask.from_elements(chance, B, B)
scattered = run("flash", mask=chance)
print(f"{chance.mean():.2%} of the pairs, {tiles.nnz} of {tiles.grid[0] * tiles.grid[1]} tiles")
print(f"flash, all pairs: {run('flash').total:,} words")
print(f"with this mask:   {scattered.total:,} words, of which {scattered.arrays['mask'].reads:,} are the mask's own")

# %% tags=["check"]
assert tiles.nnz == 256
assert 0.99 ** (B * B) < 1e-17
assert scattered.arrays["mask"].reads == N * N
assert scattered.total == run("flash").total + N * N

# %% [markdown]
# None. A tile of 64 x 64 = 4,096 pairs is empty only if all of them are, which has a chance of $0.99^{4096}$, less than one in $10^{17}$.
# And such a mask must be read itself, N x N words of it (one byte each). Sparsity saves words when it has the shape of tiles.
#
# ## A column that nobody wants
#
# As printed, Algorithm 5 loads $K_j$ and $V_j$ before it asks the mask. **Predict** what a mask with one empty column of tiles costs, and
# what `skip_empty=True`, which asks first, saves.

# %%
keep = np.ones((T, T), bool)
keep[:, 3] = False
holed = Attention(n=N, d=d, block_mask=BlockMask.from_dense(keep, N, N, B, B))
asked, printed = (simulate("block-sparse", holed, sram=SRAM, skip_empty=skip) for skip in (True, False))
print(f"as printed: K {printed.arrays['K'].reads:,} words; skip_empty: K {asked.arrays['K'].reads:,}", end="; ")
print(f"saved, of K and V: {printed.total - asked.total:,}")

# %% tags=["check"]
assert printed.total - asked.total == 2 * B * d
assert printed.sound
assert asked.sound

# %% [markdown]
# ## Choose a mask yourself


# %%
def tell(density=0.1, size=64, n=4096):
    """A random block mask of some density in tiles of some size."""
    one = run("block-sparse", n=n, block_mask=patterns.random(n, n, size, size, density))
    least = run("block-sparse", n=n, block_mask=patterns.random(n, n, size, size, 0.0)).total
    kept = f"{one.problem.block_mask.nnz:,} tiles of {size} x {size}"
    print(f"{kept}: {one.total:,} words, {least / one.total:.0%} of them whatever the mask")


tell()

# %% [markdown]
# With ipywidgets the next cell makes three sliders; without, change its numbers and run it again.

# %%
try:
    from ipywidgets import interact
except ImportError:
    tell(density=0.02, size=128)
else:
    interact(tell, density=(0.0, 1.0, 0.01), size=(16, 128, 16), n=(1024, 8192, 1024))

# %% [markdown]
# ## Exercise
#
# Exercise 11, `block-sparse`: write the kernel that pays for kept tiles only (`iosim exercise start block-sparse`). Two smaller ones go
# before and after it: 10, `causal`, skips what no query sees, and 15, `visited-tiles`, counts the tiles by a formula, whatever the shapes.
# [The exercises](../docs/exercises.md) has the rest, [block-sparse](../docs/kernels/block-sparse.md) the closed form. Next:
# [notebook 9](09_bounds.ipynb), how few words there could be.
#
# ## Summary

# %%
fixed, last = sparse_words(long, 0) / drawn[0.01].total, growing[lengths[-1]].problem.block_mask.density
print(f"1. Causal, {T} x {T} tiles: {mask.nnz} are visited, {mask.density:.0%}; the last query always sees the last key.")
print(f"2. Block-sparse words are a line in the density; at 1 % of the tiles, {fixed:.0%} of the words do not depend on it.")
print(f"3. 1 % of the pairs at random leaves {tiles.nnz} of {T * T} tiles; a butterfly over {lengths[-1]:,} keeps {last:.1%}.")

# %% tags=["check"]
assert f"{mask.density:.0%}" == "53%"
assert f"{fixed:.0%}" == "62%"
