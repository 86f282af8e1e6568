# %% [markdown]
# # 8 Leaving tiles out: causal and block-sparse attention
#
# **Question.** A causal mask hides half of all pairs of a query and a key. Does half of the traffic go away? And if a mask keeps one pair
# in a hundred, are there a hundred times fewer words?
#
# Words as before: **N** queries and N keys of **d** numbers; a **word** is one stored number; **HBM** is the slow memory, **SRAM** the fast
# one of M words. A **tile** is a rectangle of $B_r$ queries by $B_c$ keys. FlashAttention works tile by tile (notebook 5), and whoever
# leaves out a whole tile need not load what it needs.

# %%
# %matplotlib inline
import math

import matplotlib.pyplot as plt
import numpy as np

from iosim import Attention, BlockMask, simulate
from iosim.masks import patterns
from iosim.plots.figures import GRID, INK, QUIET, STYLES, bare

N, d, B = 1024, 64, 64
SRAM = "256KiB"  # room enough for every tile below


def run(kernel, blocks=(B, B), execute=False, replay=False, **asked):
    """One kernel on one head."""
    problem = Attention(**{"n": N, "d": d, **asked})
    blocks = "fit" if problem.block_mask is not None else blocks
    return simulate(kernel, problem, sram=SRAM, blocks=blocks, execute=execute, replay=replay)


# %% [markdown]
# ## Causal
#
# In a language model a query may attend to its own position and earlier ones only. With N = 1,024 and tiles of 64 x 64 there are
# 16 x 16 = 256 tiles. Three kinds of them: *full* (all pairs may attend), *partial* (some may), *empty* (none may: skipped).
#
# **Write down:** how many tiles are visited? And what share of the words of K does `flash2` still read? (In `flash2` the queries are
# outside, and K and V pass once for each tile of queries.)

# %%
mask = patterns.causal(N, N, B, B)
dense, causal = run("flash2"), run("flash2", causal=True, execute=True, replay=True)
print(f"{mask.nnz} of {mask.grid[0] * mask.grid[1]} tiles are visited, {mask.partial} of them partial")
for name in dense.arrays:
    before, after = (one.arrays[name].reads + one.arrays[name].writes for one in (dense, causal))
    print(f"{name:<4} {before:>9,} words without a mask, {after:>9,} causal: {after / before:.1%}")

# %% tags=["check"]
T = N // B
assert (mask.nnz, mask.partial) == (T * (T + 1) // 2, T) == (136, 16)
assert causal.arrays["K"].reads == causal.arrays["V"].reads == mask.nnz * B * d
assert causal.total == 2 * mask.nnz * B * d + 2 * N * d + N
assert causal.sound
assert causal.flops.matmul * T * T == dense.flops.matmul * mask.nnz

# %% [markdown]
# $T(T+1)/2$ of $T^2$ tiles, with T = 16: a little more than half, because a tile that the diagonal cuts is visited as a whole. What moves
# once anyway (Q and O) moves as before. Inside a partial tile the mask is computed from the positions of query and key, so that it
# moves no words itself.
#
# Larger tiles save passes (notebook 6), and waste more along the diagonal. **Predict** the share of visited tiles for tiles of 512 x 512.

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
# mask is aligned at the **bottom right**. Query i sees key j if $j \le i + N_k - N_q$. FlashAttention does so since version 2.1.
# (PyTorch's `is_causal` aligns at the top left, where the first query sees the first key only.)
#
# All queries and keys below are 1 and 0, 1, 2, 3, 4; the values are 1 to 5. **Predict**, roughly: is the first output near 1 or near 4?

# %%
q, k, v = np.ones((2, 1)), np.arange(5.0)[:, None], np.arange(1.0, 6.0)[:, None]
few = simulate("flash2", Attention(n=2, nk=5, d=1, scale=1.0, causal=True, dtype="float64"), sram=1000, blocks=(1, 2), inputs=(q, k, v))
print("O  ", few.output.ravel().round(6))
print("LSE", few.lse.ravel().round(6))

# %% tags=["check"]
assert np.allclose(few.output.ravel(), [3.492653, 4.451942], atol=5e-7)
assert np.allclose(few.lse.ravel(), [3.440190, 4.451914], atol=5e-7)
assert few.sound

# %% [markdown]
# With more queries than keys the same rule leaves the first queries without any key. Their sum of exponentials is empty; by the
# formula that is 0/0. By convention O is 0 there, and the logarithm of the sum (LSE) is minus infinity:

# %%
many = simulate("flash2", Attention(n=4, nk=2, d=8, causal=True), sram=1000, blocks=(1, 1))
print("O of the first query:", many.output[0], "  LSE:", many.lse.ravel().round(3))

# %% tags=["check"]
assert (many.output[:2] == 0).all()
assert np.isneginf(many.lse[:2]).all()
assert many.sound

# %%
shapes = [("4 queries, 4 keys", 4, 4), ("2 queries, 5 keys", 2, 5), ("4 queries, 2 keys", 4, 2)]
figure, panels = plt.subplots(1, 4, figsize=(10, 3.4), width_ratios=[1, 1.2, 0.7, 1.6], layout="constrained")
for axes, (name, queries, keys) in zip(panels, shapes, strict=False):
    states = patterns.causal(queries, keys, 1, 1).states()
    axes.pcolormesh(states, cmap="Blues", vmin=0, vmax=3, edgecolors="white", linewidth=2)
    axes.set(title=name, xlabel="key", ylabel="query", aspect="equal")
states = mask.states()
panels[3].pcolormesh(states, cmap="Blues", vmin=0, vmax=3, edgecolors="white", linewidth=0.5)
panels[3].set(title=f"tiles of {N:,} x {N:,}: dark full, light partial", xlabel="key tile", ylabel="query tile", aspect="equal")
for axes in panels:
    axes.invert_yaxis()
    axes.set(xticks=[], yticks=[])
    axes.title.set(fontsize=10)

# %% [markdown]
# ## Block-sparse
#
# Why not leave out more? A **block mask** says for every tile whether it is kept. The paper's Algorithm 5 (`block-sparse`) is
# FlashAttention with an `if` around the inner loop: a tile that is not kept loads no Q, O, l or m. Let s be the share that is kept, the
# **density**.
#
# It computes something else than attention over all pairs: the softmax runs over the kept pairs. Whether a model can live with that is
# a question for those who train it. Ours is what moves.
#
# Here the keys are outside, as in Algorithm 1: K and V move once; O, l and m are filled first; and every kept tile moves $B_r$ rows of
# Q (read) and of O (read and written), and l and m. **Write down** the words for s = 0.25, as a share of those for s = 1.

# %%
long = {"n": 4096}
full = run("flash", **long)
densities = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0]
drawn = {s: run("block-sparse", block_mask=patterns.random(4096, 4096, B, B, s, seed=1), **long) for s in densities}
for s, one in drawn.items():
    kept = one.problem.block_mask
    print(f"s = {s:<4}: {kept.nnz:>5,} tiles ({kept.density:.1%}), {one.total:>11,} words, {one.total / full.total:>6.1%} of flash")


# %% tags=["check"]
def sparse_words(n, kept, size=B):
    """Algorithm 5 as printed, tiles of size x size that cut n evenly."""
    return 2 * n * d + kept * size * (3 * d + 4) + n * (d + 2)


assert all(one.total == sparse_words(4096, one.problem.block_mask.nnz) for one in drawn.values())
assert all(one.sound for one in drawn.values())
assert drawn[1.0].total == full.total

# %% [markdown]
# A straight line in the number of kept tiles, and it does not start at 0: K and V are loaded whatever the mask says, and O is filled
# for every query. At 1 % that fixed part is the larger one. This is the paper's Proposition 4: $\Theta(Nd + s\,N^2d^2/M)$.
#
# Two other patterns. A *band* keeps tiles near the diagonal. The *butterfly* keeps tile (r, c) if r = c, or if the numbers r and c differ
# in one binary digit: each row keeps $\log_2 T + 1$ of T tiles, and any tile reaches any other in $\log_2 T$ steps.
# (Dao, Chen and others, 2022, Pixelated Butterfly; the paper's experiments use it.)

# %%
named = {
    "butterfly": patterns.butterfly(4096, 4096, B, B),
    "band": patterns.local_band(4096, 4096, B, B, 2),
    "causal tiles": patterns.causal(4096, 4096, B, B).filled(),
}
shaped = {name: run("block-sparse", block_mask=kept, **long) for name, kept in named.items()}
fast = run("flash2", **long)
for name, one in shaped.items():
    print(f"{name:<13} s = {named[name].density:6.1%}: {one.total:>11,} words, {one.total / full.total:.1%} of flash")
print(f"flash2, all pairs:         {fast.total:>11,} words, {fast.total / full.total:.1%} of flash")

# %% tags=["check"]
assert named["butterfly"].nnz == 64 * (int(math.log2(64)) + 1)
assert all(one.total == sparse_words(4096, named[name].nnz) for name, one in shaped.items())

# %%
_, axes = plt.subplots(figsize=(8, 4.4))
colour = STYLES["block-sparse"].colour
share = [0, 1]
axes.plot(share, [sparse_words(4096, s * 64 * 64) for s in share], color=colour, linewidth=1)
axes.plot([one.problem.block_mask.density for one in drawn.values()], [one.total for one in drawn.values()], "D", color=colour)
axes.text(0.78, sparse_words(4096, 0.75 * 4096) - 1.5e6, "random masks", color=colour, fontsize=9)
for name, one in shaped.items():
    axes.plot(named[name].density, one.total, "o", color=INK, markersize=6)
    axes.annotate(name, (named[name].density, one.total), (9, -9) if name != "band" else (-30, 5), textcoords="offset points", fontsize=9)
for kernel, one in (("flash", full), ("flash2", fast)):
    axes.axhline(one.total, color=STYLES[kernel].colour, linestyle="--", linewidth=1)
    axes.text(0.01, one.total * 1.02, f"{kernel}, all pairs", color=STYLES[kernel].colour, fontsize=9)
axes.plot(0, sparse_words(4096, 0), "o", color=QUIET, markersize=6)
axes.annotate("what moves for s = 0", (0, sparse_words(4096, 0)), (12, -7), textcoords="offset points", fontsize=9, color=QUIET)
axes.set(xlim=(-0.01, 1.02), ylim=(-1e6, 5.7e7), xlabel="density: share of the tiles that are kept", ylabel="words moved")
axes.yaxis.set_major_formatter(lambda at, _: f"{at / 1e6:.0f} M")
axes.set_title(f"N = 4,096, d = {d}, tiles of {B} x {B}", loc="left", fontsize=11, fontweight="bold", color=INK)
axes.grid(axis="y", color=GRID, linewidth=0.6)
bare(axes)

# %% [markdown]
# One more line is in the picture: `flash2` over *all* pairs. A block-sparse kernel in the order of Algorithm 1 must leave out a good part
# of the tiles before it moves fewer words than that. The better loop order is worth as much as leaving out a third of the tiles:

# %%
even = (fast.total - sparse_words(4096, 0)) / (full.total - sparse_words(4096, 0))
print(f"at s = {even:.2f} both move {fast.total:,} words")

# %% tags=["check"]
assert 0.6 < even < 0.7

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

# %% [markdown]
# A little more than twice. For N = 65,536 the mask keeps one tile in a hundred.
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
assert scattered.arrays["mask"].reads == N * N
assert scattered.total == run("flash").total + N * N

# %% [markdown]
# None. A tile of 4,096 pairs is empty only if all of them are, which has a chance of $0.99^{4096}$. And such a mask must be read itself,
# N x N words of it (one byte each). Sparsity saves words when it has the shape of tiles.
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
print(
    f"as printed: K {printed.arrays['K'].reads:,} words; skip_empty: K {asked.arrays['K'].reads:,}; saved {printed.total - asked.total:,}"
)

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
    print(
        f"{one.problem.block_mask.nnz:,} tiles of {size} x {size}: {one.total:,} words, {least / one.total:.0%} of them whatever the mask"
    )


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
#
# ## Summary

# %%
fixed, last = sparse_words(4096, 0) / drawn[0.01].total, growing[lengths[-1]].problem.block_mask.density
print(f"1. Causal, {T} x {T} tiles: {mask.nnz} are visited, {mask.density:.0%}; the last query sees the last key, whatever N_q and N_k.")
print(f"2. Block-sparse words are a line in the density; at 1 % of the tiles, {fixed:.0%} of the words do not depend on it.")
print(f"3. 1 % of the pairs at random leaves {tiles.nnz} of {T * T} tiles; a butterfly over {lengths[-1]:,} keeps {last:.1%}.")

# %% tags=["check"]
assert f"{mask.density:.0%}" == "53%"
assert sparse_words(4096, 0) > drawn[0.01].total / 2
