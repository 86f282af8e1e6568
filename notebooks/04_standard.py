# %% [markdown]
# # 4 Standard attention, counted
#
# **Question.** Attention reads three matrices of N x d and writes one: 4Nd words. How many words does the usual way of
# computing it before FlashAttention (2022) move, and which matrices do they belong to?
#
# A **word** is one stored number. Words move between HBM, the slow memory that holds everything, and SRAM, the fast memory on the chip,
# which holds **M** words (notebook 1).

# %%
# %matplotlib inline
import inspect

import matplotlib.pyplot as plt

from iosim import Attention, simulate
from iosim.devices import device
from iosim.kernels.standard import scores_ideal, softmax_rows
from iosim.plots import bars
from iosim.plots.figures import GRID, INK, QUIET, STYLES, bare
from iosim.published import cells
from iosim.roofline import roofline

# %% [markdown]
# ## Three steps
#
# There are **N** queries and N keys, and each is a row of **d** numbers: the matrices Q and K. Each key has a value, a row of V. Standard
# attention has three steps (the FlashAttention paper calls it Algorithm 0):
#
# 1. $S = QK^T$ times a constant: how well each query matches each key. S has N x N elements. **Write S to HBM.**
# 2. **Read S**, take the softmax of every row: P, the weights, N x N again. **Write P to HBM.**
# 3. **Read P**, compute $O = PV$, write O.
#
# Each step is a program of its own, which is why its result goes through HBM. Here are the first two as they run on iosim's machine;
# `m.load` reads, `m.store` writes, and there is no other way between the memories.

# %%
print(inspect.getsource(scores_ideal))
print(inspect.getsource(softmax_rows))

# %% [markdown]
# (`seen` and `mask` leave out pairs that may not attend; here all may. `finite` and `nonzero` are for rows that may attend to nothing.)
#
# ## The prediction
#
# Take N = 1,024 and d = 64. Go through the three steps, and **write down** for each of Q, K, V, S, P and O how often its elements are
# read and written. How many words are that in all?
#
# The option `reuse="ideal"` counts as the paper does: whatever a step needs moves once. The machine notes that this takes more SRAM than
# there is (we come back to that).

# %%
N, d = 1024, 64
report = simulate("standard", Attention(n=N, d=d), sram="100KiB", reuse="ideal")
report

# %% [markdown]
# Read the table from the left. Q, K and V are read once, O is written once: $4Nd$ words. S and P are each written once and read once:
# $4N^2$ words. In all $4N^2 + 4Nd$.
#
# *predicted* is that formula, array by array. *counts* says that three roads gave the same numbers: the run that computed real
# numbers, the closed form, and a recount of the run's trace. The last line compares the result with attention in float64.

# %% tags=["check"]
assert report.total == 4 * N**2 + 4 * N * d == 4_456_448
assert report.sound
moved = {name: array.reads + array.writes for name, array in report.arrays.items()}
assert moved == {"Q": N * d, "K": N * d, "V": N * d, "S": 2 * N * N, "P": 2 * N * N, "O": N * d}

# %%
bars([report])

# %% [markdown]
# ## What N does
#
# N = 1,024 is short. **Predict**: how large is the share of S and P in all words there, and at N = 16,384? And by what factor do all words
# grow when N doubles?

# %%
lengths = [128 * 2**k for k in range(8)]
reports = [simulate("standard", Attention(n=n, d=d), reuse="ideal", execute=False, replay=False) for n in lengths]
for n, run in zip(lengths, reports, strict=True):
    square = sum(run.arrays[name].reads + run.arrays[name].writes for name in "SP")
    print(f"N = {n:>6,}: {run.total:>13,} words, S and P {square / run.total:>6.1%}, {run.total / run.compulsory:>5.0f} times 4Nd")

# %% tags=["check"]
assert all(run.total == 4 * n * n + 4 * n * d and run.compulsory == 4 * n * d for n, run in zip(lengths, reports, strict=True))

# %%
_, axes = plt.subplots(figsize=(8, 4.2))
axes.loglog(lengths, [run.total for run in reports], "s-", color=STYLES["standard"].colour)
axes.loglog(lengths, [4 * n * n for n in lengths], ":", color=STYLES["standard"].colour)
axes.loglog(lengths, [run.compulsory for run in reports], "-", color=QUIET)
axes.text(
    lengths[-1] * 1.1, reports[-1].total, "standard, counted\n(dotted: 4N²)", fontsize=9, color=STYLES["standard"].colour, va="center"
)
axes.text(lengths[-1] * 1.1, reports[-1].compulsory, "4Nd must move", fontsize=9, color=QUIET, va="center")
axes.set_xlim(100, 90_000)
axes.set_xticks(lengths, [f"{n:,}" for n in lengths], fontsize=9)
axes.minorticks_off()
axes.set_xlabel("sequence length N")
axes.set_ylabel("words moved")
axes.set_title(f"d = {d}: the gap is a factor of N/d + 1", loc="left", fontsize=11, fontweight="bold", color=INK)
axes.grid(axis="y", color=GRID, linewidth=0.6)
bare(axes)

# %% [markdown]
# The gap between the curves is $(4N^2 + 4Nd)/4Nd = N/d + 1$. It is what S and P cost, and it has no limit.
#
# ## Not only traffic
#
# S and P must also lie somewhere. **Write down** how many bytes of HBM they take for N = 16,384 in float16, 2 bytes a word, for 16
# sequences of 8 heads each. (A *head* is one attention problem; models compute many beside each other.) An A100 has 40 GB.

# %%
big = simulate("standard", Attention(n=16384, d=64, dtype="float16", batch=16, heads=8), reuse="ideal", execute=False, replay=False)
four = 4 * 16384 * 64 * 2 * 128
print(f"{big.peak_hbm_bytes:,} bytes, of which Q, K, V and O {four:,}; the {device('a100-40gb').name} has {device('a100-40gb').memory:,}")

# %% tags=["check"]
assert big.peak_hbm_bytes == 128 * 2 * (2 * 16384**2 + 4 * 16384 * 64)

# %% [markdown]
# ## The small print
#
# `reuse="ideal"` keeps all of K and all of V on chip, which no SRAM of this size can. An honest run cuts them into tiles and reads them
# again for every tile of queries (notebook 3). **Predict**: does that change the picture?

# %%
honest = simulate("standard", Attention(n=N, d=d), sram="100KiB")
print(f"ideal:  {report.total:,} words, peak SRAM {report.peak_sram:,} of {report.sram.amount:,} bytes")
print(f"honest: {honest.total:,} words, peak SRAM {honest.peak_sram:,} of {honest.sram.amount:,} bytes, blocks {honest.blocks}")
for name in "KVSP":
    before, after = (run.arrays[name].reads + run.arrays[name].writes for run in (report, honest))
    print(f"   {name}: {before:>9,} ideal, {after:>9,} honest")

# %% tags=["check"]
tiles = -(-N // honest.blocks.rows)
assert honest.total == 4 * N**2 + 2 * N * d + 2 * tiles * N * d
assert honest.peak_sram <= honest.sram.amount < report.peak_sram
assert honest.sound

# %% [markdown]
# A little: K and V are read once for each tile of queries. S and P stay what they are, and they dominate. A larger SRAM would help K and
# V; nothing helps S and P, for they are written *because the three steps are apart*.
#
# ## Does a mask help?
#
# In a *causal* model a query may attend to earlier keys only, so that half of the scores are never used. **Predict**: does half of the
# traffic go away?

# %%
causal = simulate("standard", Attention(n=N, d=d, causal=True), sram="100KiB", blocks=honest.blocks)
for name in "QKVSPO":
    before, after = honest.arrays[name], causal.arrays[name]
    print(f"   {name}: read {before.reads:>9,} -> {after.reads:>9,}   written {before.writes:>9,} -> {after.writes:>9,}")
print(f"words: {causal.total / honest.total:.0%} of before; flops of the products: {causal.flops.matmul / honest.flops.matmul:.0%}")

# %% tags=["check"]
assert causal.sound
assert [causal.arrays[name].writes for name in "SP"] == [N * N, N * N]

# %% [markdown]
# Products are saved (fewer than half of them, since a tile that the diagonal cuts is computed whole), and some reads with them. But S
# and P are written whole, zeros and all.
#
# ## And the time?
#
# Divide the bytes by the bandwidth and the flops by the rate of the arithmetic; the longer of the two is the time, roughly. `roofline`
# takes rates that programs are known to reach, 65 % of the bandwidth among them. The FlashAttention paper measured PyTorch's attention
# for N = 4,096 and 128 heads in float16. **Predict** which side is the longer one.

# %%
a100 = device("a100-40gb")
timed = simulate(
    "standard", Attention(n=4096, d=64, dtype="float16", batch=16, heads=8), sram=a100.sram, reuse="ideal", execute=False, replay=False
)
time = roofline(
    a100,
    read_bytes=timed.read_bytes,
    write_bytes=timed.write_bytes,
    matmul_flops=timed.flops.matmul,
    other_flops=timed.flops.elementwise + timed.flops.exp,
)
published = next(cell.value for cell in cells(18, method="PyTorch Attention") if cell.n == 4096)
print(f"{timed.bytes:,} bytes: {1e3 * time.memory:.1f} ms; arithmetic: {1e3 * time.compute:.1f} ms; bound by {time.bound}")
print(f"measured (FlashAttention paper, Table 18): {published} ms")
print(f"if only Q, K, V and O moved: {2 * timed.compulsory:,} bytes, {1e3 * 2 * timed.compulsory / time.bandwidth:.2f} ms")

# %% tags=["check"]
assert timed.bytes == 128 * 2 * (4 * 4096**2 + 4 * 4096 * 64)
assert time.bound == "memory"

# %% [markdown]
# The bytes explain the time, and nearly all of them belong to S and P. Notebook 5 computes the same O without ever writing S or P.
#
# ## Move N and d yourself


# %%
def tell(N=1024, d=64):
    """What standard attention moves, as the paper counts it."""
    run = simulate("standard", Attention(n=N, d=d), reuse="ideal", execute=False, replay=False)
    print(f"N = {N:,}, d = {d}: {run.total:,} words, {run.total / run.compulsory:.1f} times 4Nd; S and P {4 * N * N / run.total:.1%}")


tell()

# %% [markdown]
# With ipywidgets the next cell makes two sliders; without, change its numbers and run it again.

# %%
try:
    from ipywidgets import interact
except ImportError:
    tell(N=512, d=128)
else:
    interact(tell, N=(64, 8192, 64), d=(16, 256, 16))

# %% [markdown]
# ## Exercise
#
# Exercise 6, `standard`: write the three steps for the machine, tile by tile. The file is made by `iosim exercise start standard`.
#
# ## Summary

# %%
square, again = sum(moved[name] for name in "SP"), honest.total - report.total
saved, spared = 1 - causal.flops.matmul / honest.flops.matmul, 1 - causal.total / honest.total
print(f"1. N = {N:,}, d = {d}: {report.total:,} words; S and P are {square:,} of them, {square / report.total:.0%}.")
print(f"2. That is {report.total // report.compulsory} times the 4Nd that must move, N/d + 1; K and V, read once a tile, add {again:,}.")
print(f"3. A causal mask saves {saved:.0%} of the products and {spared:.0%} of the words: S and P are stored whole.")

# %% tags=["check"]
assert (square, 4 * N * d) == (4_194_304, 262_144)
assert report.total == (N // d + 1) * report.compulsory
