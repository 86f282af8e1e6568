# %% [markdown]
# # 7 Backward: more arithmetic, fewer bytes, less time
#
# **Question.** Training needs gradients, and the gradient of a softmax needs its N x N weights P. FlashAttention never stored them. It
# computes them again, which is more arithmetic than before. How can that be faster?
#
# Words as before: **N** queries and keys of **d** numbers; a **word** is one stored number; **HBM** is the slow memory that holds
# everything, **SRAM** the small fast one on the chip ([notebook 1](01_memory.ipynb)). A **flop** is one addition or multiplication.
# FlashAttention works in **tiles** of $B_r$ queries by $B_c$ keys, and there are $T_c = N/B_c$ tiles of keys
# ([notebook 5](05_flash.ipynb)).
#
# Two sizes of SRAM occur: 100 KiB, as in [notebook 4](04_standard.ipynb), which are 25,600 words of 4 bytes (float32), and 320 KiB, 81,920
# words. A run that needs more than it is given is refused, unless it says `overflow="record"`.

# %%
# %matplotlib inline
import inspect
from itertools import product as pairs
from math import prod

import matplotlib.pyplot as plt

from iosim import Attention, both, simulate
from iosim.attention.kernels.backward.flash_backward import flash_backward
from iosim.core.hardware import device
from iosim.show.plots import bars
from iosim.show.plots.figures import GRID, INK, bare, style
from iosim.study.paper import figure2, load
from iosim.study.published import cells, table

N, d = 1024, 64
problem = Attention(n=N, d=d)
SMALL, LARGE = "100 KiB", "320 KiB"
STANDARD, FLASH = style("standard").colour, style("flash").colour

# %% [markdown]
# ## What the chain rule asks for
#
# Forward: $S = QK^T/\sqrt d$, $P = \mathrm{softmax}(S)$, $O = PV$. Somebody computes a loss from O, and hands back **dO**, the derivative
# of the loss by each element of O (N x d). We want **dQ**, **dK** and **dV**, the derivatives by the inputs. With the chain rule:
#
# - $dV = P^T dO$ and $dP = dO\,V^T$, since $O = PV$;
# - $dS_{ij} = P_{ij}\,(dP_{ij} - D_i)$ with $D_i = \sum_j P_{ij}\,dP_{ij}$: the derivative of a softmax;
# - $dQ = dS\,K/\sqrt d$ and $dK = dS^TQ/\sqrt d$.
#
# P, dP and dS are N x N; all others are N x d, but for D, which is one number a row. Standard attention keeps P in HBM from the forward
# pass, and makes one step after the other (the paper's Algorithm 3):
#
# | step | reads | writes |
# |---|---|---|
# | $dV = P^T dO$ | P, dO | dV |
# | $dP = dO\,V^T$ | dO, V | dP |
# | dS from P and dP, row by row (D stays on chip) | P, dP | dS |
# | $dQ = dS\,K/\sqrt d$ | dS, K | dQ |
# | $dK = dS^TQ/\sqrt d$ | dS, Q | dK |
#
# **Write down**: count the matrices of N x N in the table, and those of N x d. How many words is that for N = 1,024 and d = 64, where
# $N^2$ is about a million and $Nd$ about 65,000?
#
# `both` runs the forward and the backward pass. `reuse="ideal"` counts as the table does, whatever a step needs moves once
# ([notebook 4](04_standard.ipynb) has the small print): a step keeps one whole matrix of N x d on chip. In 100 KiB there is no room for
# that, so here M is 320 KiB.

# %%
standard = both("standard", problem, sram=LARGE, reuse="ideal")
standard.reports[1]

# %% tags=["check"]
assert standard.sound
assert standard.reports[0].total == 4 * N**2 + 4 * N * d
assert standard.reports[1].total == 7 * N**2 + 8 * N * d == 7_864_320
assert 100 * 1024 < 4 * N * d < standard.reports[1].peak_sram <= 320 * 1024
assert {one.overflow for one in standard.reports} == {0}
assert (100 * 1024 // 4, 320 * 1024 // 4) == (25_600, 81_920)

# %% [markdown]
# $7N^2 + 8Nd$: P is read by two steps, dP is written and read, dS is written and read by two steps.
#
# ## Throwing away, and making again
#
# FlashAttention keeps no P. What it keeps of the forward pass is two numbers a row: the maximum m and the sum l. They are all one needs to
# make any tile of P again: $P_{ij} = \exp(S_{ij} - m_i)/l_i$, with $S_{ij} = Q_iK_j^T/\sqrt d$ from tiles of Q and K that are on chip
# anyway.
#
# And $D_i$? It is a sum over a whole row of P, but the sum can be had without P: $\sum_j P_{ij}\,dP_{ij} = \sum_x dO_{ix}\,O_{ix}$, a
# product of two rows of d numbers. Here is the loop; `m.load` and `m.store` are the only ways between the memories.

# %%
code = inspect.getsource(flash_backward)
print(code[code.index("    for j in m.tiles(N_k") :])

# %% [markdown]
# Five products of tiles stand in the inner loop: S again, dV, dP, dQ and dK. Keys are outside; dK and dV of a tile of keys are summed on
# chip while the queries pass. (`scores`, `dropped`, `finite` and `nonzero` take care of masks, dropout and rows that see nothing; here all
# pairs attend. `create` stands for `first_pass="create"`: at a query's first visit dQ is made on chip and D is computed from O and stored,
# as the released code does; at later visits both are loaded.)
#
# Now read the loop with $T_c$ in mind. What stands in the outer loop passes once; what stands in the inner loop passes once for each tile
# of keys. For $T_c$ tiles:
#
# | matrix (N x d) | K, V | O | Q, dO | dQ | dK, dV |
# |---|---|---|---|---|---|
# | read | once each | once, for D | $T_c$ times each | $T_c - 1$ times | |
# | written | | | | $T_c$ times | once each |
#
# **Predict**, for tiles of 256 keys, which the first released code used: $T_c$ is 4. How often do matrices of N x d pass in all, in the
# backward pass? The forward pass adds $3T_c + 1$. (Notebook 5 counted $3T_c + 3$ for it. Here the first visit makes O on chip, which spares
# two passes: O is not filled beforehand, and not read at that visit.) Standard attention moves $11N^2 + 12Nd$ words in both passes: how
# many times fewer does FlashAttention move? (N is 16d here, so that $N^2$ is $16Nd$.) And how many products does it make, where standard
# attention makes two forward and four backward?

# %%
flash = both("flash", problem, sram=LARGE, blocks=(16, 256), first_pass="create")
Tc, product = N // 256, 2 * N * N * d  # tiles of keys; the flops of one product of N x N x d
for name, run in (("standard", standard), ("flash", flash)):
    for one in (*run.reports, run):
        what = one.pass_ if one is not run else "both"
        print(f"{name:<9} {what:<9} {one.flops.matmul // product} products, {one.flops.matmul:>11,} flops {one.total:>11,} words")
print(f"In {LARGE} FlashAttention moves {standard.total / flash.total:.2f} times fewer words")

# %% tags=["check"]
assert flash.sound
assert [one.flops.matmul for one in (*standard.reports, *flash.reports)] == [2 * product, 4 * product, 2 * product, 5 * product]
data = [sum(a.reads + a.writes for name, a in one.arrays.items() if name not in ("l", "m", "D")) for one in flash.reports]
assert data == [(3 * Tc + 1) * N * d, (4 * Tc + 4) * N * d] == [13 * N * d, 20 * N * d]
assert {name: (a.reads // (N * d), a.writes // (N * d)) for name, a in flash.reports[1].arrays.items() if name not in ("l", "m", "D")} == {
    **dict.fromkeys("KVO", (1, 0)),
    **dict.fromkeys(("Q", "dO"), (Tc, 0)),
    "dQ": (Tc - 1, Tc),
    **dict.fromkeys(("dK", "dV"), (0, 1)),
}
assert flash.total == sum(data) + N * (4 * Tc - 2) + N * 3 * Tc

# %% [markdown]
# 20 passes backward and 13 forward: 33 against $11 \cdot 16 + 12 = 188$ of the same size, and a few words for l, m and D. Seven products
# instead of six, and several times fewer words, in an SRAM of 320 KiB. (In a smaller one? We come to that.) The run also computed the
# gradients and compared them with gradients in float64:

# %%
for one in flash.reports:
    for name, error in one.errors.items():
        print(f"{name:<4} largest error {error:.1e}, bound {one.bounds[name]:.1e}")

# %% tags=["check"]
assert all(error <= one.bounds[name] for one in flash.reports for name, error in one.errors.items())
assert {name for one in flash.reports for name in one.errors} == {"O", "LSE", "dQ", "dK", "dV"}
assert (N // d, 11 * 16 + 12) == (16, standard.total // (N * d)) == (16, 188)

# %% [markdown]
# Here are both backward passes, array by array, in the colours that the two have everywhere.

# %%
bars([standard.reports[1], flash.reports[1]])

# %% [markdown]
# For a tile of P there is a choice: fetch $B_r \times B_c$ words, or spend $2 B_r B_c d$ flops on making it again, from tiles that are on
# chip anyway. A word of P costs 2d flops to make. If it is stored, it has to be written once and read twice, 2 bytes each time in float16.
#
# An A100 makes about 200 flops in the time that one byte crosses (its peak divided by its bandwidth, [notebook 1](01_memory.ipynb)).
# **Work it out**: how many flops' time does storing a word of P cost? Is it more than making it again?

# %%
a100 = device("a100-40gb")
balance = a100.fp16_tensor_rate / a100.bandwidth
again, stored = 2 * d, 3 * 2 * balance
print(f"{a100.name}: {a100.fp16_tensor_rate:.3g} flops a second / {a100.bandwidth:.4g} bytes a second = {balance:.0f} flops a byte")
print(f"make it again: {again} flops; store it and read it twice: the time of {stored:,.0f} flops, {stored / again:.1f} times as long")

# %% tags=["check"]
assert 195 < balance < 205
assert stored > 9 * again

# %% [markdown]
# ## What fits
#
# How much room do those tiles of 256 keys take? **Write down** the words on chip in the backward pass: the tiles of K, V, dK and dV (256
# rows of d), those of Q, dO, dQ and O (16 rows of d), and one tile of S and one of dP. Would they fit in 100 KiB?

# %%
for one in flash.reports:
    peak = one.peak_sram
    print(f"{one.pass_:<9} at most {peak // 4:,} words on chip, {peak:,} bytes: {peak / (100 * 1024):.2f} times 100 KiB")

# %% tags=["check"]
assert [one.peak_sram for one in flash.reports] == [156_160, 311_488]
assert flash.reports[1].peak_sram == 4 * (4 * (16 + 256) * d + 2 * 16 * 256 + 3 * 16) > 3 * 100 * 1024
assert {one.overflow for one in flash.reports} == {0}

# %% [markdown]
# They would not, by a factor of three. In 100 KiB both kernels need smaller tiles: FlashAttention reads Q, dO and dQ more often, and
# standard attention reads K, V and dO again for every tile of queries. So the number above is that of an SRAM of 320 KiB.
#
# [Notebook 6](06_blocks.ipynb) has two rules for tiles that fit: `fit`, the largest of the paper's shape, and `best`, those that move the
# fewest words. **Predict** how many times fewer words FlashAttention moves in 100 KiB. Is it still more than five?


# %%
def trained(sram, rule, n=N):
    """The runs of both passes of both kernels in tiles that fit, counted only."""
    asked, counted = Attention(n=n, d=d), {"sram": sram, "blocks": rule, "execute": False, "replay": False}
    kernels = {"standard": {}, "flash": {"first_pass": "create"}}
    return {
        name: [simulate(kernel, asked, **counted, **options) for kernel in (name, f"{name}-backward")] for name, options in kernels.items()
    }


def total(runs):
    """The words of both passes."""
    return sum(run.total for run in runs)


fitting = {case: trained(*case) for case in pairs((SMALL, LARGE), ("fit", "best"))}
saved = {case: total(runs["standard"]) / total(runs["flash"]) for case, runs in fitting.items()}
for (sram, rule), runs in fitting.items():
    print(f"{sram}, {rule}: {saved[sram, rule]:.2f} times fewer")
    for name, (forward, backward) in runs.items():
        peak, tiles = max(forward.peak_sram, backward.peak_sram), f"tiles {forward.blocks} and {backward.blocks}"
        print(f"   {name:<9} {forward.total + backward.total:>11,} words, {tiles:<25} {peak:>8,} of {forward.sram.amount:>8,} bytes")

# %% tags=["check"]
every = [run for runs in fitting.values() for both_passes in runs.values() for run in both_passes]
assert all(run.sound and run.overflow == 0 and run.peak_sram <= run.sram.amount for run in every)
assert (total(fitting[SMALL, "fit"]["standard"]), total(fitting[SMALL, "fit"]["flash"])) == (15_859_712, 9_364_480)
assert {case: f"{ratio:.2f}" for case, ratio in saved.items()} == {
    (SMALL, "fit"): "1.69",
    (SMALL, "best"): "3.36",
    (LARGE, "fit"): "5.23",
    (LARGE, "best"): "7.48",
}

# %% [markdown]
# In 100 KiB it is less: below two in tiles of the paper's shape, and more than three in the best ones. What FlashAttention saves depends on
# the room it has, and the backward pass needs the most, because K, V, dK and dV stay on chip together.
#
# ## Figure 2 of the paper
#
# The left panel of Figure 2 in the FlashAttention paper (arXiv 2205.14135, version 2) shows this on an A100: GPT-2 medium, N = 1,024,
# d = 64, 64 sequences of 16 heads, so 1,024 attention problems, in float16, forward and backward. *Standard* is PyTorch's attention with
# dropout and a mask, which makes more passes over N x N than the textbook does. *FlashAttention* is the first release, with its tiles of 16
# queries and 256 keys.
#
# | | standard | FlashAttention |
# |---|--:|--:|
# | GFLOPs | 66.6 | 75.2 |
# | HBM reads and writes (GB) | 40.3 | 4.4 |
# | runtime (ms) | 41.7 | 7.3 |
#
# Do such tiles fit there? Not in the SRAM alone, as the next cell shows: in float16, 2 bytes a word, with sums in float32, they need more
# than an A100 has. A GPU also has *registers*, which hold numbers of a single thread. A real kernel keeps some of its tiles there; this
# model has SRAM only, and charges all of them to it. The words that cross are those of the tiles, wherever on chip these lie.

# %%
released = {"sram": a100.sram, "blocks": (16, 256), "overflow": "record", "first_pass": "create", "execute": False, "replay": False}
charged = [simulate(name, Attention(n=N, d=d, dtype="float16"), **released) for name in ("flash", "flash-backward")]
for run in charged:
    print(f"{run.kernel:<15} {run.peak_sram:>8,} bytes on chip; the SRAM of an A100 has {run.sram.amount:,}")

# %% tags=["check"]
assert charged[0].overflow == 0 < charged[1].overflow
assert [run.total for run in charged] == [run.total for run in flash.reports]

# %% [markdown]
# **Predict** the two numbers of the middle row. FlashAttention makes the 33 passes over N x d that you know. PyTorch makes 18 over N x N
# and 12 over N x d (below we see which). The next cell says what one pass is, for all heads; the rest is two multiplications.

# %%
heads = 64 * 16
print(f"one pass over N x N: {2 * heads * N * N / 1e9:.3f} GB; one over N x d: {2 * heads * N * d / 1e9:.3f} GB")

# %% [markdown]
# `load()` has the published numbers, and `figure2` runs the listings that belong to them: `pytorch`, which sends every step through HBM,
# and `flash`. `column.row` is what was published, `column.work` what was counted, and its `passes(width)` says how often each matrix of
# N x width moves.

# %%
made = figure2(load())
for column in made.left[:2]:
    square, tall = (sum(column.work.passes(width).values()) for width in (N, d))
    print(f"{column.row.method:<15} {square:g} passes over N x N, {tall:g} over N x d: {column.work.data_bytes:,} bytes")
    print(f"{'':<15} published: {column.row.gigabytes} GB")

# %% tags=["check"]
unfused, fused = (column.work for column in made.left[:2])
rows = [(column.row.gflops, column.row.gigabytes, column.row.milliseconds) for column in made.left[:2]]
assert rows == [(66.6, 40.3, 41.7), (75.2, 4.4, 7.3)]  # the table above
assert unfused.data_bytes == 2 * 1024 * (18 * N * N + 12 * N * d) == 40_265_318_400
assert fused.data_bytes == 2 * 1024 * (3 * 4 + 1 + 4 * 4 + 4) * N * d == 4_429_185_024
assert round(unfused.data_bytes / 1e9, 1) == made.left[0].row.gigabytes
assert round(fused.data_bytes / 1e9, 1) == made.left[1].row.gigabytes
assert sum(unfused.passes(N).values()) == 18
assert sum(unfused.passes(d).values()) == 12

# %% [markdown]
# Both agree to the digits that were printed. (The paper leaves l, m and D out of its count, and so do we here.) Where do 18 passes come
# from? Every matrix of N x N, and how often it is written or read:

# %%
said = {
    "S": "scores: written, masked in place, read by the softmax",
    "P": "the softmax: written, read by dropout, and once more backward",
    "Pd": "P after dropout: written, read for O and for dV",
    "R": "dropout's decisions, one byte each: written and read, they make one pass",
    "dP": "written and read",
    "dS": "written and read twice",
    "dPd": "written and read: the derivative by Pd",
}
for name, times in unfused.passes(N).items():
    print(f"{name:<4} {times:g}   {said[name]}")

# %% tags=["check"]
assert unfused.passes(N) == {"S": 4, "P": 3, "Pd": 3, "R": 1, "dP": 2, "dS": 3, "dPd": 2}

# %% [markdown]
# ## The other two rows
#
# Not every published number can be reproduced, and it is worth knowing which. **Before you run the next cell**: one product of N x N x d
# is $2N^2d$ flops; there are 1,024 heads, and 6 or 7 products. Are 66.6 and 75.2 GFLOP ($10^9$ flops) plausible?

# %%
one = heads * product / 1e9
print(f"one product of all heads: {one:.1f} GFLOP; six {6 * one:.1f}, seven {7 * one:.1f}; published {rows[0][0]} and {rows[1][0]}")
print(f"published difference {rows[1][0] - rows[0][0]:.1f}; one product of 64 heads {64 * product / 1e9:.1f}")

# %% tags=["check"]
assert (unfused.flops, fused.flops) == (6 * heads * product, 7 * heads * product)
assert rows[0][0] < one
assert round(rows[1][0] - rows[0][0], 1) == round(64 * product / 1e9, 1)

# %% [markdown]
# They are not: a single product makes more. The two differ by one product of 64 heads, so that they seem to be those of fewer heads. What
# they say is right all the same: FlashAttention makes *more* flops, 7 products for 6.
#
# And the times? If standard attention waits for memory, its time is its bytes divided by a bandwidth. Which bandwidth does a program like
# this reach? Another table of the paper tells: Table 18 has the times of the forward pass without dropout and mask, of 128 heads. There we
# count $4N^2 + 4Nd$ words of 2 bytes ([notebook 4](04_standard.ipynb)).

# %%
there = table(18).setup.instances
timed = [one for one in cells(18) if one.method in ("PyTorch Attention", "Megatron") and 1024 <= one.n <= 4096]
speeds = []
for one in timed:
    moved = there * 2 * (4 * one.n**2 + 4 * one.n * d)
    speeds.append(moved / (one.value / 1e3))
    print(f"{one.method:<17} N = {one.n:>5,}: {moved / 1e9:>6.2f} GB in {one.value:>5.2f} ms: {speeds[-1] / 1e12:.2f} TB/s")
bandwidth = prod(speeds) ** (1 / len(speeds))  # their geometric mean
print(f"mean {bandwidth / 1e12:.3f} TB/s, {bandwidth / a100.bandwidth:.0%} of the {a100.bandwidth / 1e12:.3f} TB/s on the data sheet")

# %% tags=["check"]
assert (there, table(18).setup.d, table(7).setup.instances) == (128, d, heads)
assert len(timed) == 5
assert abs(bandwidth / made.times.bandwidth - 1) < 1e-12  # the fit that iosim's paper figures use
assert 0.97e12 < bandwidth < 0.98e12

# %% [markdown]
# **Predict** the time of standard attention in Figure 2 from its 40.3 GB. And try FlashAttention's in the same way: would its 4.4 GB take
# the 7.3 ms that were published?
#
# FlashAttention may wait for its arithmetic instead. The rate of the first release follows from Table 18 as well, from N = 4,096 on:
# `made.times.rate` is what all multiprocessors would reach together (`made.times` knows that 128 heads leave many of them idle, and 1,024
# heads few).

# %%
by_bytes = [1e3 * work.bytes / bandwidth for work in (unfused, fused)]
expected = (by_bytes[0], made.times.predicted(fused, made.data.left.setup, "FlashAttention"))
print(f"standard: {unfused.bytes / 1e9:.1f} GB take {by_bytes[0]:.1f} ms; published {rows[0][2]} ms")
print(f"flash: {fused.bytes / 1e9:.1f} GB, with l, m and D, take {by_bytes[1]:.1f} ms; its flops {expected[1]:.1f}; published {rows[1][2]}")
print(f"{rows[1][2]} ms would be {fused.flops / rows[1][2] / 1e9:.0f} TFLOP/s, and the fitted rate is {made.times.rate / 1e12:.0f}")
(half,) = [one for one in cells(7, method="FlashAttention") if (one.n, one.pass_) == (N // 2, "fwd+bwd")]
other = made.left[3].row
print(f"Table 7, the same heads at N = {half.n}: {half.value} ms, and four times that is {4 * half.value:.1f}")
print(f"another version of the paper prints {other.milliseconds} ms in Figure 2")

# %% tags=["check"]
assert [found.verdict for found in made.findings[:6]] == ["agrees", "no fit", "agrees", "agrees", "no fit", "no fit"]
assert abs(expected[0] / rows[0][2] - 1) < 0.01
assert by_bytes[1] < rows[1][2] < expected[1] < 4 * half.value < other.milliseconds
assert fused.flops / (rows[1][2] / 1e3) > 1.15 * made.times.rate
assert (other.version, other.method, other.milliseconds, half.value) == ("other", "FlashAttention", 11.7, 2.81)

# %% [markdown]
# - **Standard attention** takes the time of its bytes: it waits for memory.
# - **FlashAttention** does not. Its flops take longer than its bytes, and 7.3 ms are too few for them, unless it runs faster here than in
#   the paper's own tables. The other two numbers speak for 11 to 12 ms: more than ours, which knows nothing of the time that dropout takes.
#
# Flops, bytes and times, ours and the published ones:

# %%
ours = {
    "flops (10¹²)": (unfused.flops / 1e12, fused.flops / 1e12),
    "HBM (GB)": (unfused.data_bytes / 1e9, fused.data_bytes / 1e9),
    "time (ms)": expected,
}
published = {name: [row[place] for row in rows] for place, name in ((1, "HBM (GB)"), (2, "time (ms)"))}
_, panels = plt.subplots(1, 3, figsize=(9.6, 3.8), layout="constrained")
for axes, (name, values) in zip(panels, ours.items(), strict=True):
    axes.bar(["standard", "flash"], values, color=[STANDARD, FLASH], width=0.6)
    for place, value in enumerate(values):
        axes.text(place, value, f"{value:.3g}", ha="center", va="bottom", fontsize=10, color=INK)
    if name in published:
        axes.plot([0.2, 1.2], published[name], "o", color=INK, markerfacecolor="white", markersize=8)
    axes.set_ylim(0, 1.15 * max(values))
    axes.set_title(name, loc="left", fontsize=11, fontweight="bold", color=INK)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    bare(axes)
_ = panels[1].text(0.5, 30, "bars: counted here\ncircles: published", fontsize=9, color=INK)

# %% [markdown]
# More flops, fewer bytes, less time: from left to right. FlashAttention moves a ninth of the bytes and makes a sixth more flops. It is no
# longer bound by memory, which is why the time does not fall as far as the bytes do. ([The papers' numbers](../docs/paper.md) has the other
# panels and tables.)

# %% tags=["check"]
assert round(unfused.data_bytes / fused.data_bytes) == 9
assert 6 * fused.flops == 7 * unfused.flops
assert unfused.data_bytes / fused.data_bytes > expected[0] / expected[1]

# %% [markdown]
# ## Does it get better with N?
#
# The SRAM stays as it is, N grows, and both kernels have their best tiles. FlashAttention makes $(3T_c + 1) + (4T_c + 4)$ passes of Nd
# words. Each pass has a $T_c = N/B_c$ of its own, and $B_c$ is what the SRAM has room for: so its words grow as $N^2$. So do those of
# standard attention, $11N^2$ and more.
#
# **Predict**: what happens to the ratio as N grows from 1,024 to 65,536? And what if the SRAM grows from 100 to 320 KiB?

# %%
lengths = (1024, 4096, 16384, 65536)
longer = {(sram, n): trained(sram, "best", n) for sram in (SMALL, LARGE) for n in lengths}
ratios = {case: total(runs["standard"]) / total(runs["flash"]) for case, runs in longer.items()}
for (sram, n), runs in longer.items():
    more, fewer = (total(runs[name]) / n**2 for name in ("standard", "flash"))
    print(f"{sram}, N = {n:>6,}: {more:>5.2f} N² and {fewer:>5.2f} N² words, {ratios[sram, n]:>5.2f} times fewer")
for sram in (SMALL, LARGE):
    print(
        f"{sram}: from N = {lengths[0]:,} to {lengths[-1]:,} the ratio grows by a factor of {ratios[sram, 65536] / ratios[sram, 1024]:.2f}"
    )
for n in (lengths[0], lengths[-1]):
    print(f"N = {n:,}: from {SMALL} to {LARGE} it grows by a factor of {ratios[LARGE, n] / ratios[SMALL, n]:.2f}")

# %% tags=["check"]
assert all(run.sound and run.overflow == 0 for runs in longer.values() for passes in runs.values() for run in passes)
for (_, n), runs in longer.items():
    front, back = (-(-n // run.blocks.cols) for run in runs["flash"])  # Tc of each pass
    passes, numbers = 3 * front + 1 + 4 * back + 4, 4 * front - 2 + 3 * back  # N x d; and l, m and D, one number a row
    assert total(runs["flash"]) == passes * n * d + numbers * n
for sram in (SMALL, LARGE):
    assert ratios[sram, 65536] < 1.7 * ratios[sram, 1024]
    assert longer[sram, 65536]["standard"][1].arrays["P"].reads == 3 * 65536**2  # a row does not fit: it is read once more
    assert longer[sram, 1024]["standard"][1].arrays["P"].reads == 2 * 1024**2
assert all(ratios[LARGE, n] > 2.2 * ratios[SMALL, n] for n in lengths)

# %% [markdown]
# N does little: with 64 times the length the ratio is less than twice as large, and part of that is because a row of N numbers no longer
# fits on chip, so that standard attention reads P and dP once more. The SRAM does more: about three times the room raises the ratio to more
# than twice what it was. (For long sequences the words of FlashAttention fall nearly as 1/M, those of standard attention not below
# $11N^2$.)
#
# ## Which backward pass moves the fewest words?
#
# Your turn. `flash2-backward` computes D in a pass of its own; `dq_pass="own"` makes dQ in a second kernel, which makes S and dP a third
# time instead of reading and writing dQ again and again (and spares programs that run side by side from adding to the same dQ). Which
# moves the fewest words depends on M. Each runs in its best blocks ([notebook 6](06_blocks.ipynb)); *the bound* is a number of words below
# which nobody can stay ([notebook 9](09_bounds.ipynb)).


# %%
def tell(N=1024, d=64, M=49152):
    """The backward passes in their best blocks."""
    asked = Attention(n=N, d=d)
    options = {"flash-backward": {"first_pass": "create"}, "flash2-backward": {}, "flash2-backward, own": {"dq_pass": "own"}}
    for name, given in options.items():
        run = simulate(name.partition(",")[0], asked, sram=M, blocks="best", execute=False, replay=False, **given)
        products, times = run.flops.matmul // (2 * N * N * d), run.total / run.lower_bound
        print(f"{name:<21} {run.blocks!s:>8} {products} products, {run.total:>11,} words, {times:.2f} times the bound")


tell()

# %% [markdown]
# With ipywidgets the next cell makes three sliders; without, change its numbers and run it again.

# %%
try:
    from ipywidgets import interact
except ImportError:
    tell(N=2048, d=64, M=8192)
else:
    interact(tell, N=(256, 4096, 256), d=(16, 128, 16), M=(4096, 131072, 4096))

# %% [markdown]
# ## Exercise
#
# Exercise 12, `backward`: write the backward pass with P made again, for the machine. The file is made by
# `iosim exercise start backward`; [the exercises](../docs/exercises.md) has the rest. (`iosim paper fig2` shows all three panels of
# Figure 2 beside our numbers, and [flash-backward](../docs/kernels/flash-backward.md) the closed form.) Next:
# [notebook 8](08_sparse.ipynb), where tiles are left out.
#
# ## Summary

# %%
made_here, made_there = (run.flops.matmul // product for run in (flash, standard))
fit, best, more = (saved[case] for case in ((SMALL, "fit"), (SMALL, "best"), (LARGE, "best")))
print(
    f"1. N = {N:,}, d = {d}: {made_here} products, not {made_there}; in 100 KiB {fit:.2f} times fewer words, "
    f"{best:.2f} in the best tiles, {more:.2f} in 320 KiB."
)
kept = flash.reports[0].arrays["l"].writes // Tc + flash.reports[0].arrays["m"].writes // Tc
print(f"2. m and l, {kept:,} words, are kept in place of the {N * N:,} of P; any tile of P is made again from them.")
print(f"3. With PyTorch's passes: {unfused.data_bytes / 1e9:.1f} against {fused.data_bytes / 1e9:.1f} GB, as the paper's Figure 2 has it.")

# %% tags=["check"]
assert kept == 2 * N
assert standard.total == 11 * N**2 + 12 * N * d == 12_320_768
assert flash.total == 2_189_312
assert fit < best < more
