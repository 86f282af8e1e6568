# %% [markdown]
# # 7 Backward: more arithmetic, fewer bytes, less time
#
# **Question.** Training needs gradients, and the gradient of a softmax needs its N x N weights P. FlashAttention never stored them. It
# computes them again, which is more arithmetic than before. How can that be faster?
#
# Words as before: **N** queries and keys of **d** numbers; a **word** is one stored number; **HBM** is the slow memory that holds
# everything, **SRAM** the small fast one on the chip (notebook 1). A **flop** is one addition or multiplication.

# %%
# %matplotlib inline
import inspect

import matplotlib.pyplot as plt

from iosim import Attention, both, simulate
from iosim.kernels.backward.flash_backward import flash_backward
from iosim.paper import figure2, load
from iosim.plots import bars
from iosim.plots.figures import GRID, INK, STYLES, bare

N, d = 1024, 64
problem = Attention(n=N, d=d)

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
# P, dP and dS are N x N. Standard attention keeps P in HBM from the forward pass, and sends dP and dS through HBM as well.
#
# **Write down**, for N = 1,024 and d = 64: how many words does the standard backward pass move? Count each matrix once for every step that
# reads or writes it: dV; dP; dS; dQ; dK.

# %%
standard = both("standard", problem, reuse="ideal")
standard.reports[1]

# %% tags=["check"]
assert standard.sound
assert standard.reports[0].total == 4 * N**2 + 4 * N * d
assert standard.reports[1].total == 7 * N**2 + 8 * N * d == 7_864_320

# %% [markdown]
# $7N^2 + 8Nd$: P is read by two steps, dP is written and read, dS is written and read by two steps. (`reuse="ideal"` counts as the paper
# does, whatever a step needs moves once; notebook 4 has the small print.)
#
# ## Throwing away, and making again
#
# FlashAttention keeps no P. What it keeps of the forward pass is two numbers a row: the maximum m and the sum l (notebook 5). They are all
# one needs to make any tile of P again: $P_{ij} = \exp(S_{ij} - m_i)/l_i$, with $S_{ij} = Q_iK_j^T/\sqrt d$ from tiles of Q and K that are
# on chip anyway.
#
# And $D_i$? It is a sum over a whole row of P, but the sum can be had without P: $\sum_j P_{ij}\,dP_{ij} = \sum_x dO_{ix}\,O_{ix}$, a
# product of two rows of d numbers. Here is the loop; `m.load` and `m.store` are the only ways between the memories.

# %%
code = inspect.getsource(flash_backward)
print(code[code.index("    for j in m.tiles(N_k") :])

# %% [markdown]
# Five products of tiles stand in the inner loop: S again, dV, dP, dQ and dK. Keys are outside; dK and dV of a tile of keys are summed on
# chip while the queries pass. (`scores`, `dropped`, `finite` and `nonzero` take care of masks, dropout and rows that see nothing;
# `first_pass="create"` makes dQ on chip at a query's first visit, as released code does, where the printed algorithm reads zeros.)
#
# **Predict**: standard attention makes two products forward and four backward. How many does FlashAttention make in both passes, and how
# many times fewer words does it move? Take tiles of 256 keys, which the first released code used.

# %%
flash = both("flash", problem, blocks=(16, 256), overflow="record", first_pass="create")
product = 2 * N * N * d
for name, run in (("standard", standard), ("flash", flash)):
    for one in (*run.reports, run):
        what = one.pass_ if one is not run else "both"
        print(f"{name:<9} {what:<9} {one.flops.matmul // product} products, {one.flops.matmul:>11,} flops {one.total:>11,} words")

# %% tags=["check"]
assert flash.sound
assert [one.flops.matmul for one in (*standard.reports, *flash.reports)] == [2 * product, 4 * product, 2 * product, 5 * product]
Tc = N // 256
data = [sum(a.reads + a.writes for name, a in one.arrays.items() if name not in ("l", "m", "D")) for one in flash.reports]
assert data == [(3 * Tc + 1) * N * d, (4 * Tc + 4) * N * d]
assert flash.total == sum(data) + N * (4 * Tc - 2) + N * 3 * Tc

# %% [markdown]
# Seven products instead of six, and several times fewer words. The run also computed the gradients and compared them with gradients in
# float64:

# %%
for one in flash.reports:
    for name, error in one.errors.items():
        print(f"{name:<4} largest error {error:.1e}, bound {one.bounds[name]:.1e}")

# %% tags=["check"]
assert all(error <= one.bounds[name] for one in flash.reports for name, error in one.errors.items())

# %%
bars([standard.reports[1], flash.reports[1]])

# %% [markdown]
# For a tile of P there is a choice: fetch $B_r \times B_c$ words, or spend $2 B_r B_c d$ flops on making it again, from tiles that are on
# chip anyway. An A100 makes 201 flops in the time that one byte crosses (notebook 1). A word of P costs 2d = 128 flops to make, and has to
# be written once and read twice, 2 bytes each time, if it is stored.
#
# **Work it out**: how many flops' time does storing a word of P cost?

# %%
again, stored = 2 * d, 3 * 2 * 201
print(f"make it again: {again} flops; store it and read it twice: the time of {stored:,} flops, {stored / again:.1f} times as long")

# %% [markdown]
# ## Figure 2 of the paper
#
# The left panel of Figure 2 in the FlashAttention paper shows this on an A100: GPT-2 medium, N = 1,024, d = 64, 64 sequences of 16 heads,
# forward and backward. *Standard* is PyTorch's attention with dropout and a mask, which makes more passes over N x N than the textbook
# does.
#
# | | standard | FlashAttention |
# |---|--:|--:|
# | GFLOPs | 66.6 | 75.2 |
# | HBM reads and writes (GB) | 40.3 | 4.4 |
# | runtime (ms) | 41.7 | 7.3 |
#
# **Predict** the two numbers of the middle row. For FlashAttention you have all you need: $(3T_c + 1) + (4T_c + 4)$ passes over N x d,
# with $T_c = 4$, 2 bytes a word, 1,024 heads. For PyTorch, count 18 passes over N x N and 12 over N x d.

# %%
made = figure2(load())
for column in made.left[:2]:
    square, tall = (sum(column.work.passes(width).values()) for width in (N, d))
    print(f"{column.row.method:<15} {square:g} passes over N x N, {tall:g} over N x d: {column.work.data_bytes:,} bytes")
    print(f"{'':<15} published: {column.row.gigabytes} GB")

# %% tags=["check"]
unfused, fused = (column.work for column in made.left[:2])
assert unfused.data_bytes == 2 * 1024 * (18 * N * N + 12 * N * d) == 40_265_318_400
assert fused.data_bytes == 2 * 1024 * (3 * 4 + 1 + 4 * 4 + 4) * N * d == 4_429_185_024
assert round(unfused.data_bytes / 1e9, 1) == made.left[0].row.gigabytes == 40.3
assert round(fused.data_bytes / 1e9, 1) == made.left[1].row.gigabytes == 4.4

# %% [markdown]
# Both are counted here by running listings on the machine: `pytorch`, which sends every step through HBM, and `flash`. The paper leaves
# the statistics (l, m, D) out of its count, and so do we here. Where do 18 passes come from? Every matrix of N x N, and how often it moves:

# %%
for name, times in unfused.passes(N).items():
    print(f"{name:<4} {times:g}" + ("   (dropout's decisions, one byte each: written and read, they make one pass)" if name == "R" else ""))

# %% [markdown]
# ## The other two rows
#
# Not every published number can be reproduced, and it is worth knowing which. **Before you run the next cell**: one product of N x N x d
# is $2N^2d$ flops, and there are 1,024 heads and 6 or 7 products. Are 66.6 and 75.2 GFLOP plausible?

# %%
for found in made.findings[:6]:
    for row in found.rows:
        print(f"{row.labels['method']:<15} {row.unit:<5} published {row.published:>6g}, ours {row.ours:>7.1f}: {row.verdict}")

# %% tags=["check"]
assert (unfused.flops, fused.flops) == (6 * 1024 * product, 7 * 1024 * product)
assert [found.verdict for found in made.findings[:6]] == ["agrees", "no fit", "agrees", "agrees", "no fit", "no fit"]

# %% [markdown]
# - **GFLOPs**: neither number fits the caption; the two differ by one product of 64 heads, so that they seem to be those of fewer heads.
#   What they say is right all the same: FlashAttention makes *more* flops, 7 products for 6.
# - **Time of standard attention**: the counted bytes at one bandwidth, 0.97 TB/s, which was fitted on another table. It is bound by memory.
# - **Time of FlashAttention**: 7.3 ms would be faster than the GPU multiplies elsewhere in the same paper. Its Table 7 has the same heads
#   at half the length, and gives about 11 ms here; another version of the paper prints 11.7.
#
# Our own times follow from counts and two rates: bytes at that bandwidth, and for FlashAttention the flops, if they take longer.

# %%
STANDARD, FLASH = STYLES["standard"].colour, STYLES["flash"].colour
ours = {
    "flops (10¹²)": (unfused.flops / 1e12, fused.flops / 1e12),
    "HBM (GB)": (unfused.data_bytes / 1e9, fused.data_bytes / 1e9),
    "time (ms)": (made.times.memory(unfused), made.times.predicted(fused, made.data.left.setup, "FlashAttention")),
}
published = {"HBM (GB)": (40.3, 4.4), "time (ms)": (41.7, 7.3)}
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
# longer bound by memory, which is why the time does not fall as far as the bytes do.
#
# ## Does it get better with N?
#
# **Predict**: as N grows and the tiles stay as they are, what happens to the ratio of the words? (Standard: about $11N^2$. FlashAttention:
# about $7T_cNd$, with $T_c = N/B_c$.)


# %%
def trained(n, forward, **options):
    """Words of both passes of a kernel."""
    asked = Attention(n=n, d=d)
    passes = (forward, f"{forward}-backward")
    given = {"blocks": (16, 256), "overflow": "record", "execute": False, "replay": False}
    return sum(simulate(name, asked, **given, **options).total for name in passes)


ratios = {}
for n in (256, 1024, 4096, 16384, 65536):
    more, fewer = trained(n, "standard", reuse="ideal"), trained(n, "flash", first_pass="create")
    ratios[n] = more / fewer
    print(f"N = {n:>6,}: {more:>14,} and {fewer:>13,} words, {ratios[n]:.2f} times fewer")

# %% [markdown]
# It tends to $11 B_c/7d$: the number of keys in a tile, against the width of a row. Not N, but the SRAM decides how much is saved.
#
# ## Which backward pass moves the fewest words?
#
# Your turn. `flash2-backward` computes D in a pass of its own; `dq_pass="own"` makes dQ in a second kernel, which makes S and dP a third
# time instead of reading and writing dQ again and again (and spares programs that run side by side from adding to the same dQ). Which
# moves the fewest words depends on M.


# %%
def tell(N=1024, d=64, M=49152):
    """The backward passes in their best blocks."""
    asked = Attention(n=N, d=d)
    options = {"flash-backward": {"first_pass": "create"}, "flash2-backward": {}, "flash2-backward, own": {"dq_pass": "own"}}
    for name, given in options.items():
        run = simulate(name.partition(",")[0], asked, sram=M, blocks="best", execute=False, replay=False, **given)
        products = run.flops.matmul // (2 * N * N * d)
        print(
            f"{name:<21} {run.blocks!s:>8} {products} products, {run.total:>11,} words, {run.total / run.lower_bound:.2f} times the bound"
        )


tell()

# %% [markdown]
# With ipywidgets the next cell makes three sliders; without, change its numbers and run it again. (*bound*: fewer words nobody can move;
# notebook 9.)

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
# `iosim exercise start backward`. (`iosim paper fig2` shows all three panels of Figure 2 beside our numbers.)
#
# ## Summary

# %%
made_here, made_there = (run.flops.matmul // product for run in (flash, standard))
print(f"1. N = {N:,}, d = {d}: {made_here} products instead of {made_there}, and {standard.total / flash.total:.2f} times fewer words.")
kept = flash.reports[0].arrays["l"].writes // Tc + flash.reports[0].arrays["m"].writes // Tc
print(f"2. m and l, {kept:,} words, are kept in place of the {N * N:,} of P; any tile of P is made again from them.")
print(f"3. With PyTorch's passes: {unfused.data_bytes / 1e9:.1f} against {fused.data_bytes / 1e9:.1f} GB, as the paper's Figure 2 has it.")

# %% tags=["check"]
assert kept == 2 * N
assert standard.total == 11 * N**2 + 12 * N * d == 12_320_768
assert all(abs(ratio * 7 * d / (11 * 256) - 1) < 0.1 for n, ratio in ratios.items() if n >= 16384)
