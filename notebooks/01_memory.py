# %% [markdown]
# # 1 Why bytes, and not arithmetic
#
# **Question.** In 2022 the authors of FlashAttention timed attention on a GPU that makes 312,000,000,000,000 floating-point
# operations a second. PyTorch took 16.47 ms for a batch of sequences of 4,096 elements. How long should it have taken, if arithmetic
# were all there is to it?
#
# You need to know what a matrix product is. You need to know nothing about GPUs.

# %%
# %matplotlib inline
import matplotlib.pyplot as plt
import numpy as np

from iosim import Attention, Machine, simulate
from iosim.devices import device
from iosim.plots.figures import GRID, INK, QUIET, STYLES, bare
from iosim.published import cells, table

# %% [markdown]
# ## Arithmetic alone
#
# Attention takes three matrices: queries Q, keys K and values V. Each has **N** rows, one for each element of the sequence, and **d**
# columns. It computes $O = \mathrm{softmax}(QK^T / \sqrt d)\,V$. The softmax turns every row of $QK^T$ into weights that add up to 1;
# notebook 2 is about it.
#
# A **flop** is one floating-point operation, an addition or a multiplication. $QK^T$ has $N^2$ elements, and each is a sum of $d$
# products: $2N^2d$ flops. The product with V takes as many again, which makes $4N^2d$.
#
# **Write down a number before you run the next cell:** how many milliseconds do these flops take, for N = 4,096, d = 64 and the
# 16 x 8 = 128 independent problems that were timed?

# %%
a100 = device("a100-40gb")
setup = table(18).setup
N, d, problems = 4096, setup.d, setup.batch * setup.heads
published = next(cell.value for cell in cells(18, method="PyTorch Attention") if cell.n == N)

flops = 4 * N**2 * d * problems
arithmetic = 1e3 * flops / a100.fp16_tensor_rate
print(f"{flops:,} flops at {a100.fp16_tensor_rate:,} a second: {arithmetic:.2f} ms")
print(f"measured (FlashAttention paper, Table 18):                          {published:.2f} ms, {published / arithmetic:.1f} times as long")

# %% tags=["check"]
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
# - **HBM**, the large one, holds everything: the three matrices, the result, and whatever is too big to be kept elsewhere. It lies beside
#   the chip. How many bytes a second cross over is its *bandwidth*.
# - **SRAM**, the small one, lies on the chip beside the arithmetic. There is one for each *SM*, the unit that computes. What is to be
#   added or multiplied must be here.
#
# A **byte** is 8 bits. Numbers are stored in 2 bytes (float16) or 4 (float32). We call one stored number a **word**, and **M** is how many
# words one SRAM holds.

# %%
words = a100.sram.words(itemsize=2)
print(f"{a100.name}")
print(f"HBM        {a100.memory:>17,} bytes, {a100.bandwidth:,} bytes a second")
print(f"SRAM       {a100.shared_memory_per_sm:>17,} bytes in each of {a100.sms} SMs, or M = {words:,} words of 2 bytes")
print(f"arithmetic {a100.fp16_tensor_rate:>17,} flops a second")
print(f"one matrix of N x N words of 2 bytes: {2 * N**2:,} bytes, {2 * N**2 // a100.shared_memory_per_sm} times such an SRAM")

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
# the next cell, which runs the sum on iosim's model of the two memories. `load` is the way from HBM to SRAM, `store` the way back; the
# machine counts what crosses.


# %%
def add(m, X, Y, Z):
    """Z = X + Y, a thousand words at a time."""
    for i in m.tiles(X.shape[0], 1000):
        m.store(Z[i], m.load(X[i]) + m.load(Y[i]))


m = Machine(sram=a100.sram, mode="count")
shape = (1_000_000, 1)
add(m, m.input("X", shape, dtype="float16"), m.input("Y", shape, dtype="float16"), m.output("Z", shape, dtype="float16"))
counts = m.finish()
added = sum(a.reads + a.writes for a in counts.arrays.values()) * 2
print(f"{counts.flops.elementwise:,} flops, {added:,} bytes: {counts.flops.elementwise / added:.3f} flops a byte")
print(f"{balance * added / counts.flops.elementwise:,.0f} times less than the balance")

# %% tags=["check"]
assert (counts.flops.elementwise, added) == (1_000_000, 6_000_000)

# %% [markdown]
# Each sum needs two numbers in and one out, 6 bytes. No matter how the vectors are cut, no reordering makes that better.
#
# A product of two n x n matrices is different: $2n^3$ flops, on $3n^2$ words that must move at least once. The larger the matrices, the
# more flops a byte there can be. Whether a small SRAM lets us have them is the subject of notebook 3.

# %%
for n in (64, 256, 602, 4096):
    print(f"n = {n:>5,}: at most {2 * n**3 / (2 * 3 * n**2):>7,.1f} flops a byte")

# %% [markdown]
# ## And attention?
#
# Attention is two matrix products with a softmax between them. The way in which it was computed for years is called *standard attention*:
# compute $S = QK^T$, write S to HBM; read S, take the softmax, write the weights P to HBM; read P, multiply by V.
#
# **Predict:** as N grows, does standard attention become compute-bound, like a matrix product? Write down yes or no, and a number of flops
# a byte.


# %%
def intensity(kernel, n, d=64, chip=a100, **options):
    """Flops of the matrix products for each byte that crosses between HBM and SRAM, counted."""
    report = simulate(kernel, Attention(n=n, d=d, dtype="float16"), sram=chip.sram, execute=False, replay=False, **options)
    assert report.sound  # the count equals its closed form
    return report.flops.matmul / report.bytes


lengths = [256, 1024, 4096, 16384]
standard = [intensity("standard", n, reuse="ideal") for n in lengths]
for n, flops_a_byte in zip(lengths, standard, strict=True):
    print(f"N = {n:>6,}: {flops_a_byte:.2f} flops a byte")

# %% [markdown]
# No. However long the sequence, it stays below 32 flops a byte, which is d/2. The reason is in the counts, array by array:

# %%
report = simulate("standard", Attention(n=4096, d=64, dtype="float16"), sram=a100.sram, reuse="ideal", execute=False, replay=False)
for name, array in report.arrays.items():
    print(f"{name}  read {array.reads:>11,} words, written {array.writes:>11,}")
print(f"S and P: {sum(report.arrays[x].reads + report.arrays[x].writes for x in 'SP') / report.total:.1%} of all words")

# %% tags=["check"]
moved = {name: array.reads + array.writes for name, array in report.arrays.items()}
assert moved == {"Q": N * d, "K": N * d, "V": N * d, "S": 2 * N * N, "P": 2 * N * N, "O": N * d}
assert report.flops.matmul == 4 * N**2 * d

# %% [markdown]
# S and P have N x N elements each, and each is written and read. So $4N^2$ words cross, 2 bytes each, for $4N^2d$ flops: d/2 flops a byte.
# Both the work and the traffic grow with $N^2$; their ratio does not grow at all.
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
        axes.plot(at, roof(chip, at), "o", color=[QUIET, STYLES["standard"].colour, STYLES["flash"].colour, STYLES["flash2"].colour][place])
        left = name in ("flash", "standard attention")
        axes.annotate(
            f"{name}\n{at:.2g}" if at < 100 else f"{name}, {at:.0f}",
            (at, roof(chip, at)),
            xytext=(-8 if left else 8, 6 if left else -18),
            textcoords="offset points",
            ha="right" if left else "left",
            fontsize=9,
        )
    axes.set_xlabel("arithmetic intensity (flops a byte)")
    axes.set_ylabel("flops a second, at most")
    axes.set_title(f"{chip.name}: what the memory allows", loc="left", fontsize=11, fontweight="bold")
    axes.grid(color=GRID, linewidth=0.6)
    bare(axes)


draw(a100, found)

# %% [markdown]
# Standard attention stands on the slope, at a sixth of the peak, and there it stays for every N. The way up is not a faster multiplication.
# It is to move fewer bytes for the same flops.
#
# Does a newer GPU help? **Predict**, before you run the next cell: has the balance gone up or down over the years?

# %%
for key in ("v100", "a100-40gb", "h100", "b200"):
    chip = device(key)
    share = roof(chip, found["standard attention"]) / chip.fp16_tensor_rate
    print(
        f"{key:<10} {chip.fp16_tensor_rate / chip.bandwidth:>4.0f} flops a byte; standard attention reaches at most {share:.0%} of its peak"
    )

# %% [markdown]
# From the V100 to the H100, arithmetic has grown faster than bandwidth: the slope reaches further to the right, and standard attention
# falls further below the peak. Since then the two have kept step.
#
# The next cell draws other devices. With ipywidgets you choose from a menu; without it, change the name and run the cell again.

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
print(f"1. In the time of one byte the {a100.name} makes {balance:.0f} flops: below that intensity, bytes decide.")
print(f"2. Standard attention has {found['standard attention']:.1f} flops a byte, below d/2 = {d // 2} for every N: it waits for bytes.")
print(f"3. Of {published} ms that were measured, flops explain {arithmetic:.2f} and bytes {crossing:.2f}: bytes must become fewer.")

# %% tags=["check"]
assert round(balance) == 201
assert all(below < d / 2 for below in standard)
assert standard == sorted(standard)
assert found["flash2"] > found["flash"] > 4 * found["standard attention"]
