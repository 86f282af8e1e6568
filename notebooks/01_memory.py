# %% [markdown]
# # 1 Why bytes, and not arithmetic
#
# **Question.** In 2022 the authors of FlashAttention timed attention on a GPU that makes 312,000,000,000,000 floating-point
# operations a second. PyTorch took 16.47 ms for a batch of sequences of 4,096 elements. How long should it have taken, if arithmetic
# were all there is to it?
#
# You need to know what a matrix product is. You need to know nothing about GPUs.
#
# Every notebook begins with a cell that fetches its tools. What a cell takes from `iosim` is explained where it is first used. Some names
# only make pictures look well: `GRID`, `INK`, `QUIET` and `style` give colours, and `bare` leaves out a picture's frame. Cells with lines
# that begin with `assert` check what the text says. Run them with the others; you need not read them.

# %%
# %matplotlib inline
from math import ceil

import matplotlib.pyplot as plt
import numpy as np

from iosim import Attention, Machine, simulate
from iosim.core.hardware import device
from iosim.show.plots.figures import GRID, INK, QUIET, bare, style
from iosim.study.published import cells, table

# %% [markdown]
# ## Arithmetic alone
#
# Attention takes three matrices: queries Q, keys K and values V. Each has **N** rows, one for each element of the sequence, and **d**
# columns. It computes $O = \mathrm{softmax}(QK^T / \sqrt d)\,V$, where $K^T$ is K with rows and columns exchanged. Dividing by
# $\sqrt d$ keeps the numbers from growing with d. The softmax then turns every row into weights that add up to 1; notebook 2 is about it.
#
# A **flop** is one floating-point operation, an addition or a multiplication. $QK^T$ has $N^2$ elements, and each is a sum of $d$
# products: $2N^2d$ flops. The product with V takes as many again, which makes $4N^2d$.
#
# **Write down a number before you run the next cell:** how many milliseconds do these flops take, for N = 4,096, d = 64 and the
# 16 x 8 = 128 independent problems that were timed? (There were 16 sequences in the batch. A model computes attention several times beside
# each other for one sequence, and each time is called a *head*; here there were 8.)
#
# iosim keeps the data of devices and of papers. `device` looks up a GPU, here the A100 that was timed; its `fp16_tensor_rate` is how many
# flops a second it makes in products of matrices whose numbers have 16 bits. `table(18).setup` says under which conditions Table 18 of
# the FlashAttention paper was measured, and `cells(18, ...)` are its entries.

# %%
a100 = device("a100-40gb")
setup = table(18).setup
N, d, problems = 4096, setup.d, setup.batch * setup.heads
published = {cell.n: cell.value for cell in cells(18, method="PyTorch Attention")}[N]

flops = 4 * N**2 * d * problems
arithmetic = 1e3 * flops / a100.fp16_tensor_rate
print(f"{flops:,} flops at {a100.fp16_tensor_rate:,} a second: {arithmetic:.2f} ms")
print(f"measured (FlashAttention paper, Table 18): {published:.2f} ms, {published / arithmetic:.1f} times as long")

# %% tags=["check"]
assert (N, d, setup.batch, setup.heads) == (4096, 64, 16, 8)
assert a100.fp16_tensor_rate == 312 * 10**12
assert flops == 549_755_813_888
assert published == 16.47
assert published > 9 * arithmetic

# %% [markdown]
# Something else takes the time. It is the memory.
#
# ## Two memories
#
# A GPU has a large memory and many small ones.
#
# - **HBM** (high-bandwidth memory), the large one, holds everything: the three matrices, the result, and whatever is too big to be kept
#   elsewhere. It lies beside the chip. How many bytes a second cross over is its *bandwidth*.
# - **SRAM** (static memory), the small one, lies on the chip beside the arithmetic. The chip has many units that compute, called *SMs*
#   (streaming multiprocessors), and each has an SRAM of its own. What is to be added or multiplied must be here.
#
# A **byte** is 8 bits. Numbers are stored in 2 bytes (float16) or 4 (float32). We call one stored number a **word**, and **M** is how many
# words one SRAM holds. (`words(itemsize=2)` converts: how many words of 2 bytes.)

# %%
M = a100.sram.words(itemsize=2)
square = 2 * N**2
print(f"{a100.name}")
print(f"HBM        {a100.memory:>19,} bytes, {a100.bandwidth:,} bytes a second")
print(f"SRAM       {a100.shared_memory_per_sm:>19,} bytes in each of {a100.sms} SMs, or M = {M:,} words")
print(f"arithmetic {a100.fp16_tensor_rate:>19,} flops a second")
print(f"N x N words of 2 bytes: {square:>6,} bytes, {square // a100.shared_memory_per_sm} times such an SRAM")

# %% [markdown]
# ## How many flops a byte?
#
# In the time that one byte takes to cross, the GPU can make so many flops:

# %%
balance = a100.fp16_tensor_rate / a100.bandwidth
print(f"{a100.fp16_tensor_rate:,} / {a100.bandwidth:,} = {balance:.1f} flops a byte")

# %% [markdown]
# This number is the *balance* of the device. A computation has a number like it: its flops divided by the bytes that it moves between HBM
# and SRAM. It is called the **arithmetic intensity**. Below the balance, the arithmetic waits for the memory, and we say that the
# computation is *memory-bound*. Above it, the memory waits for the arithmetic: it is *compute-bound*.
#
# Take the simplest computation, the sum of two vectors of a million float16 words. **Write down its arithmetic intensity** before you run
# the next cell, which runs the sum on iosim's model of the two memories, `Machine`. It works like this:
#
# - `m.input` and `m.output` declare an array in HBM: its name, its shape, and the type of its words.
# - `m.tiles(n, 1000)` walks over n rows, 1,000 at a time. `X[i]` are the rows of one turn.
# - `m.load` is the way from HBM to SRAM, `m.store` the way back. There is no other, and the machine counts what crosses.
# - `m.finish()` hands out the counts: `arrays`, the words that were read and written of each array, and `flops`, of which `elementwise`
#   are those outside of matrix products.
# - `mode="count"` says that only the counts are wanted, and no sums of real numbers.


# %%
def add(m, X, Y, Z):
    """Z = X + Y, a thousand words at a time."""
    for i in m.tiles(X.shape[0], 1000):
        m.store(Z[i], m.load(X[i]) + m.load(Y[i]))


m = Machine(sram=a100.sram, mode="count")
shape = (1_000_000, 1)
X, Y = m.input("X", shape, dtype="float16"), m.input("Y", shape, dtype="float16")
add(m, X, Y, m.output("Z", shape, dtype="float16"))
counts = m.finish()
added = sum(a.reads + a.writes for a in counts.arrays.values()) * 2
sums = counts.flops.elementwise
print(f"{sums:,} flops, {added:,} bytes: {sums / added:.3f} flops a byte")
print(f"{balance * added / sums:,.0f} times less than the balance")

# %% tags=["check"]
assert (sums, added) == (1_000_000, 6_000_000)

# %% [markdown]
# Each sum needs two numbers in and one out, 6 bytes. No matter how the vectors are cut, no reordering makes that better.
#
# A product of two n x n matrices is different: $2n^3$ flops, on $3n^2$ words that must move at least once. In words of 2 bytes that makes
# at most $2n^3 / 6n^2 = n/3$ flops a byte: the larger the matrices, the more there can be. Whether a small SRAM lets us have them is the
# subject of notebook 3.

# %%
enough = ceil(3 * balance)  # the first n for which n/3 reaches the balance
for n in (64, 256, enough, 4096):
    print(f"n = {n:>5,}: at most {2 * n**3 / (2 * 3 * n**2):>7,.1f} flops a byte{', the balance' * (n == enough)}")

# %% [markdown]
# ## And attention?
#
# Attention is two matrix products with a softmax between them. The way in which it was computed for years is called *standard attention*:
# compute $S = QK^T$, write S to HBM; read S, take the softmax, write the weights P to HBM; read P, multiply by V.
#
# **Predict:** as N grows, does standard attention become compute-bound, like a matrix product? Write down yes or no, and a number of flops
# a byte.
#
# `simulate` runs a way to compute attention, which it knows by name, and counts. `Attention` is the problem: its N, its d, and the type of
# its words. `sram` is the fast memory that there is. The other options keep this first count simple:
#
# - `reuse="ideal"` counts in the kindest way for standard attention: each step reads what it needs once, as if there were room for it.
#   Notebook 4 also counts in the other way.
# - `execute=False` leaves out the real numbers, as `mode="count"` did above.
# - `replay=False` leaves out a recount of the run from its record; notebooks 4 and 5 have it.
#
# `report.sound` says whether the count equals iosim's closed form, a formula that gives the words from the sizes alone.


# %%
def intensity(kernel, n, d=64, chip=a100, **options):
    """Flops of the matrix products for each byte that crosses between HBM and SRAM, counted."""
    problem = Attention(n=n, d=d, dtype="float16")
    report = simulate(kernel, problem, sram=chip.sram, execute=False, replay=False, **options)
    assert report.sound
    return report.flops.matmul / report.bytes


lengths = [256, 1024, 4096, 16384]
standard = [intensity("standard", n, reuse="ideal") for n in lengths]
for n, flops_a_byte in zip(lengths, standard, strict=True):
    print(f"N = {n:>6,}: {flops_a_byte:.2f} flops a byte")

# %% tags=["check"]
assert standard == [4 * n**2 * d / (2 * (4 * n**2 + 4 * n * d)) for n in lengths]

# %% [markdown]
# No. However long the sequence, it stays below 32 flops a byte, which is d/2. The reason is in the counts, array by array:

# %%
problem = Attention(n=N, d=d, dtype="float16")
report = simulate("standard", problem, sram=a100.sram, reuse="ideal", execute=False, replay=False)
for name, array in report.arrays.items():
    print(f"{name}  read {array.reads:>11,} words, written {array.writes:>11,}")
moved = {name: array.reads + array.writes for name, array in report.arrays.items()}
print(f"S and P: {(moved['S'] + moved['P']) / report.total:.1%} of all words")

# %% tags=["check"]
assert moved == {"Q": N * d, "K": N * d, "V": N * d, "S": 2 * N * N, "P": 2 * N * N, "O": N * d}
assert report.flops.matmul == 4 * N**2 * d

# %% [markdown]
# S and P have N x N elements each, and each is written and read. So $4N^2$ words cross, 2 bytes each, for $4N^2d$ flops: d/2 flops a byte.
# Q, K, V and O are $4Nd$ words more, which keep it a little below. Both the work and the traffic grow with $N^2$; their ratio hardly grows.
#
# Now the time that was measured makes sense. **Write down** how long these words take to cross, for all 128 problems, and compare.

# %%
crossing = 1e3 * report.bytes * problems / a100.bandwidth
print(f"arithmetic alone: {arithmetic:>5.2f} ms")
print(f"bytes alone:      {crossing:>5.2f} ms, at the full nominal bandwidth")
print(f"measured:         {published:>5.2f} ms")

# %% tags=["check"]
assert report.bytes == 2 * (4 * N**2 + 4 * N * d)
assert arithmetic < crossing < published

# %% [markdown]
# ## The roofline
#
# How many flops a second can a computation have? At most the peak of the arithmetic, and at most its intensity times the bandwidth. Drawn
# over the intensity, these two limits look like a roof. The dots are counted: the sum of two vectors, and attention at N = 4,096, computed
# in three ways. `flash` is FlashAttention and `flash2` FlashAttention-2: the same result without S and P in HBM. Notebook 5 leads to them.
# `np.geomspace` makes points that are equally far apart on a logarithmic axis; the rest of `draw` is where things stand in the picture.

# %%
found = {
    "sum of two vectors": counts.flops.elementwise / added,
    "standard attention": intensity("standard", N, reuse="ideal"),
    "flash": intensity("flash", N),
    "flash2": intensity("flash2", N),
}


def roof(chip, x):
    """The most flops a second at an intensity of ``x``."""
    return np.minimum(chip.fp16_tensor_rate, chip.bandwidth * np.asarray(x))


def draw(chip, points):
    """The roofline of ``chip``, with one dot for each of ``points``."""
    _, axes = plt.subplots(figsize=(8, 4.2))
    x = np.geomspace(0.05, 10_000, 200)
    axes.loglog(x, roof(chip, x), color=INK)
    axes.axvline(chip.fp16_tensor_rate / chip.bandwidth, color=QUIET, linestyle=":")
    text = f" balance:\n {chip.fp16_tensor_rate / chip.bandwidth:.0f} flops a byte"
    axes.text(chip.fp16_tensor_rate / chip.bandwidth, 2e11, text, fontsize=9, color=QUIET)
    for place, (name, at) in enumerate(points.items()):
        colours = [QUIET, style("standard").colour, style("flash").colour, style("flash2").colour]
        axes.plot(at, roof(chip, at), "o", color=colours[place])
        left = name in ("flash", "standard attention")
        axes.annotate(
            f"{name}, {at:.2g}" if at < 100 else f"{name}, {at:.0f}",
            (at, roof(chip, at)),
            xytext=(-9 if left else 9, 5 if left else -15),
            textcoords="offset points",
            ha="right" if left else "left",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    axes.set_xlabel("arithmetic intensity (flops a byte)")
    axes.set_ylabel("flops a second, at most")
    axes.set_title(f"{chip.name}: what the memory allows", loc="left", fontsize=11, fontweight="bold")
    axes.grid(color=GRID, linewidth=0.6)
    bare(axes)


draw(a100, found)

# %% tags=["check"]
assert round(balance / found["standard attention"]) == 6
assert found["flash2"] > balance > found["flash"] > 4 * found["standard attention"]

# %% [markdown]
# Standard attention stands on the slope, at about a sixth of the peak, and there it stays for every N. The way up is not a faster
# multiplication. It is to move fewer bytes for the same flops.
#
# Does a newer GPU help? **Predict**, before you run the next cell: has the balance gone up or down over the years?

# %%
balances = {}
for key in ("v100", "a100-40gb", "h100", "b200"):
    chip = device(key)
    balances[key] = chip.fp16_tensor_rate / chip.bandwidth
    share = roof(chip, found["standard attention"]) / chip.fp16_tensor_rate
    print(f"{key:<10} {balances[key]:>4.0f} flops a byte; standard attention: at most {share:.0%} of the peak")

# %% tags=["check"]
assert balances["v100"] < balances["a100-40gb"] < balances["h100"]
assert abs(balances["b200"] / balances["h100"] - 1) < 0.02

# %% [markdown]
# These four came one after another. From the V100 to the H100, arithmetic grew faster than bandwidth: the slope reaches
# further to the right, and standard attention falls further below the peak. From there to the B200 the two have kept step.
#
# The next cell draws other devices. ipywidgets is a package that puts menus and sliders into a notebook. Where it is installed, you choose
# from a menu; where it is not, change the name in the cell and run it again.

# %%
try:
    from ipywidgets import interact
except ImportError:
    draw(device("h100"), found)
else:
    interact(lambda chip: draw(device(chip), found), chip=["h100", "v100", "a100-80gb", "rtx4090", "b200"])

# %% [markdown]
# (The dots of `flash` and `flash2` were counted with the SRAM of the A100; another device has another M.)
#
# ## Exercise
#
# Exercise 4, `count-standard`: write the number of words that standard attention moves as a function of its sizes. The file is made by
# `iosim exercise start count-standard`.
#
# ## Summary

# %%
print(f"1. In the time of one byte the {a100.name} makes {balance:.0f} flops: below that, bytes decide.")
reached = found["standard attention"]
print(f"2. Standard attention has {reached:.1f} flops a byte, below d/2 = {d // 2} for every N: bytes decide.")
print(f"3. Of {published} ms measured, flops explain {arithmetic:.2f}, bytes {crossing:.2f}: move fewer bytes.")

# %% tags=["check"]
assert round(balance) == 201
assert all(below < d / 2 for below in standard)
assert standard == sorted(standard)
