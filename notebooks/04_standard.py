# %% [markdown]
# # 4 Standard attention, counted
#
# **Question.** Attention reads three matrices of N x d and writes one: 4Nd words. How many words does the usual way of
# computing it before FlashAttention (2022) move, and which matrices do they belong to?
#
# A **word** is one stored number. Words move between HBM, the slow memory that holds everything, and SRAM, the fast memory on the chip,
# which holds **M** words (notebook 1).
#
# `simulate`, `Attention` and `device` are those of notebook 1. `bars` and `roofline` are explained where they are used.

# %%
# %matplotlib inline
import inspect
from itertools import pairwise

import matplotlib.pyplot as plt

from iosim import Attention, simulate
from iosim.attention.kernels.standard import scores_ideal, softmax_rows
from iosim.core.hardware import device
from iosim.predict.roofline import roofline
from iosim.show.plots import bars
from iosim.show.plots.figures import GRID, INK, QUIET, bare, style
from iosim.study.published import cells

# %% [markdown]
# ## Three steps
#
# There are **N** queries and N keys, and each is a row of **d** numbers: the matrices Q and K. Each key has a value, a row of V. Standard
# attention has three steps (the FlashAttention paper calls it Algorithm 0):
#
# 1. $S = QK^T$ times a constant, $1/\sqrt d$: how well each query matches each key. S has N x N elements. **Write S to HBM.**
# 2. **Read S**, take the softmax of every row: P, the weights, N x N again. **Write P to HBM.**
# 3. **Read P**, compute $O = PV$, write O.
#
# Each step is a program of its own, which is why its result goes through HBM. Here are the first two as they run on iosim's machine;
# `m.load` reads, `m.store` writes, and there is no other way between the memories. (`inspect.getsource` fetches a function's source.)

# %%
print(inspect.getsource(scores_ideal))
print(inspect.getsource(softmax_rows))

# %% [markdown]
# `m.tiles(N, b)` walks over N rows or columns, b at a time; **Br** is how many queries are taken at a time, and `m.tiles(N_k, N_k)` takes
# all keys at once. `scores` makes a tile of S on chip, `scale` is the constant of step 1, and `s[...] = ` writes into the room that s has.
#
# The rest is for problems that we do not have yet. `seen` and `mask` leave out pairs of query and key; here every query may *attend* to
# every key, that is, take part of its value. `finite` and `nonzero` are for queries that may attend to nothing.
#
# ## The prediction
#
# Take N = 1,024 and d = 64. Go through the three steps, and **write down** for each of Q, K, V, S, P and O how often its elements are
# read and written. How many words are that in all?
#
# The option `reuse="ideal"` counts as the paper does: whatever a step needs moves once. The machine notes that this takes more SRAM than
# there is (we come back to that). `sram="100KiB"` is 100 x 1,024 bytes, and a word has 4 bytes here (float32).

# %%
N, d = 1024, 64
report = simulate("standard", Attention(n=N, d=d), sram="100KiB", reuse="ideal")
report

# %% [markdown]
# Read the table from the left. Q, K and V are read once, O is written once: $4Nd$ words. S and P are each written once and read once:
# $4N^2$ words. In all $4N^2 + 4Nd$.
#
# *predicted* is that formula, array by array. Below the table:
#
# - *words moved* compares the total with the $4Nd$ words of Q, K, V and O, which must move whatever one does.
# - *peak SRAM* is how much was on chip at most, and *peak HBM* how much lay in the large memory.
# - *flops* are the operations: *matmul* in matrix products, *exp* exponentials, *elementwise* all others.
# - *counts* says that three roads gave the same numbers: *executed* is the run that computed real numbers, *predicted* the formula, and
#   *replayed* a recount of everything that the run noted down.
# - The last line compares the result with attention in float64, and says how large an error rounding may make.

# %% tags=["check"]
assert report.total == 4 * N**2 + 4 * N * d == 4_456_448
assert report.compulsory == 4 * N * d
assert report.agreed == {"executed": True, "predicted": True, "replayed": True}
assert report.sound
moved = {name: array.reads + array.writes for name, array in report.arrays.items()}
assert moved == {"Q": N * d, "K": N * d, "V": N * d, "S": 2 * N * N, "P": 2 * N * N, "O": N * d}

# %% [markdown]
# `bars` draws the table: k are thousands, and M are millions.

# %%
bars([report])

# %% [markdown]
# ## What N does
#
# N = 1,024 is short. **Predict**: how large is the share of S and P in all words there, and at N = 16,384? And by what factor do all words
# grow when N doubles?
#
# `execute=False` and `replay=False` leave out the run with real numbers and the recount, which take longer than counting. What remains
# is checked against the formula. `compulsory` are the words that must move, $4Nd$.


# %%
def counted(problem):
    """Standard attention as the paper counts it, without real numbers."""
    return simulate("standard", problem, sram="100KiB", reuse="ideal", execute=False, replay=False)


def square_words(run):
    """The words of S and P that were read or written."""
    return sum(run.arrays[name].reads + run.arrays[name].writes for name in "SP")


lengths = [128 * 2**k for k in range(8)]
reports = [counted(Attention(n=n, d=d)) for n in lengths]
for n, run in zip(lengths, reports, strict=True):
    share, times = square_words(run) / run.total, run.total / run.compulsory
    print(f"N = {n:>6,}: {run.total:>13,} words, S and P {share:>6.1%}, {times:>5.0f} times 4Nd")
growth = [after.total / before.total for before, after in pairwise(reports)]
print(f"when N doubles, all words grow by a factor of {growth[0]:.2f} at first, and {growth[-1]:.2f} at last")

# %% tags=["check"]
for n, run in zip(lengths, reports, strict=True):
    assert (run.total, run.compulsory) == (4 * n * n + 4 * n * d, 4 * n * d)
    assert run.total * d == run.compulsory * (n + d)

# %%
_, axes = plt.subplots(figsize=(8, 4.2))
axes.loglog(lengths, [run.total for run in reports], "s-", color=style("standard").colour)
axes.loglog(lengths, [4 * n * n for n in lengths], ":", color=style("standard").colour)
axes.loglog(lengths, [run.compulsory for run in reports], "-", color=QUIET)
right, said = lengths[-1] * 1.1, "standard, counted\n(dotted: 4N²)"
axes.text(right, reports[-1].total, said, fontsize=9, color=style("standard").colour, va="center")
axes.text(right, reports[-1].compulsory, "4Nd must move", fontsize=9, color=QUIET, va="center")
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
# S and P must also lie somewhere. **Write down** how many bytes of HBM they take for N = 16,384 in float16, 2 bytes a word, for a `batch`
# of 16 sequences with 8 `heads` each. (A *head* is one attention problem; models compute several beside each other for one sequence.) An
# A100 has 40 GB.

# %%
a100 = device("a100-40gb")
long = 16384
big = counted(Attention(n=long, d=64, dtype="float16", batch=16, heads=8))
four = 4 * long * 64 * 2 * 16 * 8
print(f"{big.peak_hbm_bytes:,} bytes, of which Q, K, V and O {four:,} and S and P {big.peak_hbm_bytes - four:,}")
print(f"the {a100.name} has {a100.memory:,}")

# %% tags=["check"]
assert big.peak_hbm_bytes == 128 * 2 * (2 * long**2 + 4 * long * 64)
assert big.peak_hbm_bytes > 3 * a100.memory == 3 * 40 * 10**9

# %% [markdown]
# ## The small print
#
# `reuse="ideal"` keeps all of K on chip in the first step, and all of V in the third. One of them at a time is already too much for an SRAM
# of this size. An honest run cuts them into tiles and reads them again for every tile of queries (notebook 3). **Predict**: does that
# change the picture?
#
# Without the option, `simulate` looks for the largest tiles that fit, and reports them as `blocks`: Br queries times Bc keys.

# %%
honest = simulate("standard", Attention(n=N, d=d), sram="100KiB")
print(f"ideal:  {report.total:,} words, peak SRAM {report.peak_sram:,} of {report.sram.amount:,} bytes")
print(f"honest: {honest.total:,} words, peak SRAM {honest.peak_sram:,} of {honest.sram.amount:,} bytes")
print(f"        in tiles of {honest.blocks} (Br x Bc), so {-(-N // honest.blocks.rows)} tiles of queries")
for name in "KVSP":
    before, after = (run.arrays[name].reads + run.arrays[name].writes for run in (report, honest))
    print(f"   {name}: {before:>9,} ideal, {after:>9,} honest")

# %% tags=["check"]
tiles = -(-N // honest.blocks.rows)
assert honest.total == 4 * N**2 + 2 * N * d + 2 * tiles * N * d
assert honest.peak_sram <= honest.sram.amount < 4 * N * d < report.peak_sram < 2 * 4 * N * d  # K or V has 4Nd bytes, and both twice that
assert honest.sound

# %% [markdown]
# A little: K and V are read once for each tile of queries. S and P stay what they are, and they dominate. A larger SRAM would help K and
# V; nothing helps S and P, for they are written *because the three steps are apart*.
#
# ## Does a mask help?
#
# In a *causal* model a query may attend to its own key and earlier ones only, so that about half of the scores are never used.
# **Predict**: does half of the traffic go away?

# %%
causal = simulate("standard", Attention(n=N, d=d, causal=True), sram="100KiB", blocks=honest.blocks)
for name in "QKVSPO":
    before, after = honest.arrays[name], causal.arrays[name]
    reads, writes = f"{before.reads:>9,} -> {after.reads:>9,}", f"{before.writes:>9,} -> {after.writes:>9,}"
    print(f"   {name}: read {reads}   written {writes}")
words, products = causal.total / honest.total, causal.flops.matmul / honest.flops.matmul
print(f"words: {words:.0%} of before; flops of the products: {products:.0%}")

# %% tags=["check"]
assert causal.sound
assert [causal.arrays[name].writes for name in "SP"] == [N * N, N * N]
rows, cols = honest.blocks.rows, honest.blocks.cols
reach = [min(N, start + rows) for start in range(0, N, rows)]  # of each query tile: the keys that its last query sees
keys = [-(-last // cols) * cols for last in reach]  # and those in the tiles that are read for it
heights = [min(N, start + rows) - start for start in range(0, N, rows)]
assert causal.arrays["K"].reads == causal.arrays["V"].reads == d * sum(keys)
assert causal.arrays["P"].reads == sum(height * key for height, key in zip(heights, keys, strict=True))
assert causal.flops.matmul == 4 * d * causal.arrays["P"].reads
assert 0.5 < products < 1

# %% [markdown]
# Products are saved (fewer than half of them, since a tile that the diagonal cuts is computed whole), and some reads with them. But S
# and P are written whole, zeros and all, and S is read whole.
#
# ## And the time?
#
# Divide the bytes by the bandwidth and the flops by the rate of the arithmetic; the longer of the two is the time, roughly. `roofline`
# does that, with rates that programs are known to reach: no program reaches all of the bandwidth. The FlashAttention paper measured
# PyTorch's attention for N = 4,096 and 16 x 8 heads in float16; `cells(18, ...)` are the entries of its Table 18. **Predict** which side is
# the longer one.

# %%
timed = counted(Attention(n=4096, d=64, dtype="float16", batch=16, heads=8))
time = roofline(
    a100,
    read_bytes=timed.read_bytes,
    write_bytes=timed.write_bytes,
    matmul_flops=timed.flops.matmul,
    other_flops=timed.flops.elementwise + timed.flops.exp,
)
published = {cell.n: cell.value for cell in cells(18, method="PyTorch Attention")}[4096]
least = 2 * timed.compulsory
print(f"{timed.bytes:,} bytes at {time.bandwidth / a100.bandwidth:.0%} of the bandwidth: {1e3 * time.memory:.1f} ms")
print(f"arithmetic: {1e3 * time.compute:.1f} ms; so the time is that of the {time.bound}")
print(f"measured (FlashAttention paper, Table 18): {published} ms")
print(f"if only Q, K, V and O moved: {least:,} bytes, {1e3 * least / time.bandwidth:.2f} ms")

# %% tags=["check"]
assert timed.bytes == 128 * 2 * (4 * 4096**2 + 4 * 4096 * 64)
assert time.bound == "memory"
assert abs(1e3 * time.memory / published - 1) < 0.1
assert square_words(timed) > 0.98 * timed.total

# %% [markdown]
# The bytes explain the time, and nearly all of them belong to S and P. Notebook 5 computes the same O without ever writing S or P.
#
# ## Move N and d yourself


# %%
def tell(N=1024, d=64):
    """What standard attention moves, as the paper counts it."""
    run = counted(Attention(n=N, d=d))
    print(f"N = {N:,}, d = {d}: {run.total:,} words, {run.total / run.compulsory:.1f} times 4Nd")
    print(f"of these, S and P are {square_words(run) / run.total:.1%}")


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
square, again = square_words(report), honest.total - report.total
times = report.total // report.compulsory
print(f"1. N = {N:,}, d = {d}: {report.total:,} words; S and P are {square:,} of them, {square / report.total:.0%}.")
print(f"2. That is N/d + 1 = {times} times the 4Nd that must move; K and V, read once a tile, add {again:,}.")
saved, spared = 1 - products, 1 - words
print(f"3. A causal mask saves {saved:.0%} of the products, {spared:.0%} of the words: S and P are stored whole.")

# %% tags=["check"]
assert (square, 4 * N * d) == (4_194_304, 262_144)
assert report.total == (N // d + 1) * report.compulsory
