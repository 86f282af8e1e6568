# %% [markdown]
# # 2 Softmax, a piece at a time
#
# **Question.** A softmax divides every element of a row by a sum over the whole row. How, then, can anybody compute attention without
# ever holding a whole row?
#
# You need to know exponentials. This notebook ends with the one formula on which FlashAttention stands.
#
# From `iosim_reference` come functions in plain NumPy, which know nothing of memories. From `iosim` comes the machine that counts words,
# and colours for the picture.

# %%
# %matplotlib inline
from functools import reduce
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from iosim import Machine
from iosim.memory import exp, maximum
from iosim.show.plots.figures import GRID, INK, QUIET, bare
from iosim_reference.softmax import IDENTITY, merge, naive, safe, state

# %% [markdown]
# ## What a softmax is
#
# Take a row of numbers $x_1, \dots, x_N$, called *logits*; in attention they say how well one query matches each of N keys. The softmax
# makes weights of them: $y_i = e^{x_i} / l$ with $l = \sum_j e^{x_j}$. The weights are positive and add up to 1, and a logit that is
# larger by 1 gets $e \approx 2.718$ times the weight.

# %%
x = np.array([1.0, 3.0, 2.0, 5.0])
y = naive(x)
print("logits ", x)
print("weights", y.round(4), "which add up to", y.sum().round(12))
print("5 against 3:", (y[3] / y[1]).round(4), "= e^2 =", np.exp(2).round(4))

# %% tags=["check"]
assert abs(y.sum() - 1) < 8 * 2.0**-53
assert abs(y[3] / y[1] / np.exp(2) - 1) < 16 * 2.0**-53

# %% [markdown]
# ## Overflow
#
# The formula above is the *naive* softmax. **Write down** what it makes of the two logits 1000 and 1000; the weights must be 1/2 and 1/2.

# %%
print("naive:", naive([1000.0, 1000.0]))

# %% [markdown]
# `nan`, "not a number". A floating-point type has a largest number. $e^{1000}$ lies far above it and becomes infinity, and infinity
# divided by infinity is not a number. The fewer bits, the sooner this happens:

# %%
limits = {}
for kind in (np.float64, np.float32, np.float16):
    largest = float(np.finfo(kind).max)
    limits[kind.__name__] = np.log(largest)
    print(f"{kind.__name__}: largest number {largest:.4g}; exp(x) overflows for x above {np.log(largest):.1f}")

# %% tags=["check"]
assert limits["float16"] < 12 < limits["float32"] < 1000

# %% [markdown]
# A logit of 12 is nothing unusual, and in float16 it would already be too much.
#
# The remedy costs nothing in mathematics. Let **m** be the largest logit. Divide numerator and denominator by $e^m$:
#
# $$y_i = \frac{e^{x_i - m}}{l}, \qquad l = \sum_j e^{x_j - m}, \qquad m = \max_j x_j$$
#
# Now no exponent is above 0, so that nothing overflows, and one term of the sum is exactly 1, so that $l$ is at least 1. This is the
# *safe* softmax.

# %%
print("safe:", safe([1000.0, 1000.0]), safe([1000.0, 0.0]))

# %% tags=["check"]
assert np.isnan(naive([1000.0, 1000.0])).all()
assert (safe([1000.0, 1000.0]) == 0.5).all()

# %% [markdown]
# ## What it costs
#
# Suppose the row is too long for the fast memory on chip, the SRAM, so that it comes from the slow memory, HBM, a piece at a time
# (notebook 1). A **word** is one stored number. The naive softmax reads the row once for the sum and once more to divide; it writes the
# weights once.
#
# **Write down** how many words cross for a row of N = 1,000: naive, and safe.
#
# The next cell runs both on iosim's machine:
#
# - `X` and `Y` lie in HBM: the logits and the weights, matrices of one row. `X[:, j]` are the columns of one piece.
# - `m.tiles(N, b)` walks over N columns, b at a time.
# - `m.load` reads a piece into SRAM and `m.store` writes one back; the machine counts.
# - `m.full(0.0, 1, 1, name="l")` makes room on chip for 1 x 1 numbers that stay, filled with 0.0. The name is for messages.
# - `rowsum` and `rowmax` are the sum and the largest element of each row. `biggest[...] = ` writes into the room that `biggest` has.
#
# `run` builds a machine whose SRAM holds 64 words, far fewer than the row has, and which keeps sums in float64. Then it runs a listing.


# %%
def naive_listing(m, X, Y, b):
    """Sum; then divide."""
    (_, N) = X.shape
    l = m.full(0.0, 1, 1, name="l")
    for j in m.tiles(N, b):
        l += exp(m.load(X[:, j])).rowsum()
    for j in m.tiles(N, b):
        m.store(Y[:, j], exp(m.load(X[:, j])) / l)


def safe_listing(m, X, Y, b):
    """Maximum; sum; then divide."""
    (_, N) = X.shape
    l, biggest = m.full(0.0, 1, 1, name="l"), m.full(-np.inf, 1, 1, name="m")
    for j in m.tiles(N, b):
        biggest[...] = maximum(biggest, m.load(X[:, j]).rowmax())
    for j in m.tiles(N, b):
        l += exp(m.load(X[:, j]) - biggest).rowsum()
    for j in m.tiles(N, b):
        m.store(Y[:, j], exp(m.load(X[:, j]) - biggest) / l)


def run(listing, row, b=10):
    """The weights, and the words that were read and written."""
    m = Machine(sram=64, accumulator="float64")
    X, Y = m.input("x", (1, len(row)), row[None]), m.output("y", (1, len(row)))
    listing(m, X, Y, b)
    moved = m.finish().arrays
    return Y.data[0], moved["x"].reads, moved["y"].writes


row = np.random.default_rng(0).normal(size=1000)
for listing in (naive_listing, safe_listing):
    _, reads, writes = run(listing, row)
    each = (reads + writes) // len(row)
    print(f"{listing.__name__:<14} {reads:,} words read, {writes:,} written: {each} accesses an element")

# %% [markdown]
# Three accesses an element, and four: safety costs a third more. The maximum must be known before the sum can begin. Or must it?
#
# ## Online: maximum and sum in one pass
#
# Walk along the row. Keep the largest logit so far, $m$, and the sum of exponentials so far, *as if m were the maximum of all*. When a new
# logit raises the maximum to $m'$, the sum was taken relative to the wrong number. But every term of it is wrong by the same factor:
# $e^{x - m'} = e^{x - m} \cdot e^{m - m'}$. One multiplication puts the whole sum right:
#
# $$m' = \max(m, x), \qquad l' = l \cdot e^{m - m'} + e^{x - m'}$$
#
# The start is $m = -\infty$ and $l = 0$: nothing seen. Here are the numbers for the row 1, 3, 2, 5. **Before you run it**, at which of the
# four steps is the old sum multiplied by something other than 1?


# %%
def online_steps(x):
    """(m, l, factor on the old sum) after each logit."""
    m, l, steps = -np.inf, 0.0, []
    for logit in x:
        m_new = max(m, logit)
        factor = np.exp(m - m_new)
        l = l * factor + np.exp(logit - m_new)
        m = m_new
        steps.append((m, l, factor))
    return steps


print("   x    m   factor        l")
for logit, (m, l, factor) in zip(x, online_steps(x), strict=True):
    print(f"{logit:>4.0f} {m:>4.0f} {factor:>8.4f} {l:>8.4f}")
print(f"two passes: m = {x.max():.0f}, l = {np.exp(x - x.max()).sum():.4f}")

# %% tags=["check"]
assert [factor != 1 for _, _, factor in online_steps(x)] == [True, True, False, True]
assert abs(online_steps(x)[-1][1] / np.exp(x - x.max()).sum() - 1) < 32 * 2.0**-53

# %% [markdown]
# Only where the maximum rises: at 1 (where the factor $e^{-\infty} = 0$ meets an empty sum), at 3 and at 5. The 2 leaves the maximum alone,
# and the factor is 1.
#
# The same on the machine, a piece at a time. (`m.let` gives a value a name and room on chip.) The listing has two loops again:


# %%
def online_listing(m, X, Y, b):
    """Maximum and sum together; then divide."""
    (_, N) = X.shape
    l, biggest = m.full(0.0, 1, 1, name="l"), m.full(-np.inf, 1, 1, name="m")
    for j in m.tiles(N, b):
        piece = m.load(X[:, j])
        m_new = m.let(maximum(biggest, piece.rowmax()), "m_new")
        l *= exp(biggest - m_new)
        l += exp(piece - m_new).rowsum()
        biggest[...] = m_new
    for j in m.tiles(N, b):
        m.store(Y[:, j], exp(m.load(X[:, j]) - biggest) / l)


accesses = {}
for listing in (naive_listing, safe_listing, online_listing):
    weights, reads, writes = run(listing, row)
    accesses[listing.__name__] = (reads + writes) // len(row)
    each = accesses[listing.__name__]
    print(f"{listing.__name__:<14} {reads:,} words read, {writes:,} written: {each} accesses an element")

# %% tags=["check"]
assert {name: run(globals()[name], row)[1:] for name in accesses} == {
    "naive_listing": (2000, 1000),
    "safe_listing": (3000, 1000),
    "online_listing": (2000, 1000),
}
# Every weight is positive, so that roundings add up but cancel nothing: a few in each of 1,000 terms,
# each below 2^-53 of it.
assert np.abs(run(online_listing, row)[0] / safe(row) - 1).max() < 16 * len(row) * 2.0**-53

# %% [markdown]
# As safe as the safe one, as cheap as the naive one. (Milakov and Gimelshein published this in 2018; they count 3, 4 and 3 accesses too.)
#
# ## Two quantities on the way
#
# The picture shows $m$ and $l$ along a row of 200 random logits that drift upwards. The maximum so far is a staircase above the dots, the
# logits. The sum so far grows as long as the staircase is level. Whenever the staircase rises (grey lines), the sum is first multiplied by
# less than 1.

# %%
long = np.linspace(-3, 3, 200) + np.random.default_rng(3).normal(size=200)
steps = online_steps(long)
seen = np.arange(1, len(long) + 1)
figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True, layout="constrained")
top.plot(seen, long, ".", color=QUIET, markersize=3)
top.step(seen, [m for m, _, _ in steps], where="post", color="#D55E00")
top.set_ylabel("logits, and m so far")
bottom.plot(seen, [l for _, l, _ in steps], color="#0072B2")
bottom.set_ylabel("l so far")
bottom.set_xlabel("logits seen")
for at in [place for place, (_, _, factor) in zip(seen, steps, strict=True) if factor < 1]:
    bottom.axvline(at, color=GRID, zorder=0)
title = "One pass: the sum is rescaled where the maximum rises"
top.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
for axes in (top, bottom):
    bare(axes)

# %% tags=["check"]
for (_, before, _), (_, after, factor) in pairwise(steps):
    assert factor <= 1
    assert factor < 1 or after > before

# %% [markdown]
# ## Merged: pieces in any order
#
# Nothing in the argument needs the pieces to be single logits, or to come in order. Two pieces that were seen apart, with $(m_a, l_a)$ and
# $(m_b, l_b)$, are merged in the same way:
#
# $$m = \max(m_a, m_b), \qquad l = l_a e^{m_a - m} + l_b e^{m_b - m}$$
#
# `state` makes the pair of one piece, and `merge` merges two. (They work on arrays; `item` takes the number out.) Cut the row 1, 3, 2, 5
# wherever you like:

# %%
for cut in (1, 2, 3):
    left, right = state(x[:cut]), state(x[cut:])
    both = merge(left, right)
    pieces = f"({left.m.item():.0f}, {left.l.item():.4f}) and ({right.m.item():.0f}, {right.l.item():.4f})"
    print(f"cut after {cut}: {pieces} give ({both.m.item():.0f}, {both.l.item():.4f})")

# %% [markdown]
# So the pieces may be computed anywhere, at any time, by anybody, and be merged in any order. A piece without logits is $(-\infty, 0)$,
# in code `IDENTITY`: it changes nothing. The next cell cuts the 200 logits into pieces of 16 and merges them with `reduce`, one after
# the other, from the first to the last and from the last to the first.

# %%
pieces = [state(long[start : start + 16]) for start in range(0, 200, 16)]
forward = reduce(merge, pieces, IDENTITY)
backward = reduce(merge, pieces[::-1], IDENTITY)
print(f"{len(pieces)} pieces, forward:  m = {forward.m.item():.6f}, l = {forward.l.item():.12f}")
print(f"{len(pieces)} pieces, backward: m = {backward.m.item():.6f}, l = {backward.l.item():.12f}")
print(f"all at once:         m = {long.max():.6f}, l = {np.exp(long - long.max()).sum():.12f}")

# %% tags=["check"]
assert forward.m == backward.m == long.max() == steps[-1][0]
spread = long.max() - long.min()
for l in (forward.l.item(), backward.l.item(), steps[-1][1]):
    # Each exponent has an error of up to 2^-53 of its size, each of the 200 terms a few.
    assert abs(l / np.exp(long - long.max()).sum() - 1) < (spread + 4) * 200 * 2.0**-53

# %% [markdown]
# ## The weighted sum comes along
#
# Attention does not want the weights; it wants the weighted mean of *values*: each key has a value $v_j$, and the output is
# $\sum_j y_j v_j$. Carry a third number, $o = \sum_j e^{x_j - m} v_j$, not yet divided by $l$. It is a sum of exponentials too, so the same
# factor puts it right. At the end, the output is $o / l$. The weights themselves are never stored. (In attention a value is a row of d
# numbers, and so is $o$. Here it is a single one.)
#
# Two pieces of two keys, small enough for paper: the logits are 0, 0 and ln 3, 0, the values 1, 3 and 7, 11.
#
# **Write down** m, l and o of each piece, and of both together. (`state` takes the values as its second argument, a row for each.)

# %%
first = state([0.0, 0.0], [[1.0], [3.0]])
second = state([np.log(3), 0.0], [[7.0], [11.0]])
together = merge(first, second)
for name, piece in (("first", first), ("second", second), ("together", together)):
    m, l, o, output = (number.item() for number in (piece.m, piece.l, piece.o, piece.output))
    print(f"{name:<9} m = {m:.4f}  l = {l:.4f}  o = {o:>7.4f}  o / l = {output:.4f}")

factor = np.exp(first.m - together.m).item()
print(f"the first piece was rescaled by exp(0 - ln 3) = {factor:.4f}:")
for name, old, new in (("l", first.l, second.l), ("o", first.o, second.o)):
    print(f"    {name} = {factor:.4f} * {old.item():.4f} + {new.item():.4f} = {factor * old.item() + new.item():.4f}")

weights = safe([0.0, 0.0, np.log(3), 0.0])
print(f"with all weights at hand: {weights.round(4)} @ [1, 3, 7, 11] = {weights @ [1, 3, 7, 11]:.4f}")

# %% tags=["check"]
found = [piece.output.item() for piece in (first, second, together)]
assert abs(factor - 1 / 3) < 8 * 2.0**-53
assert np.allclose(found, [2, 8, 6], rtol=0, atol=16 * 2.0**-53 * 11)
assert np.allclose([together.l.item(), together.o.item()], [2, 12], rtol=0, atol=16 * 2.0**-53 * 12)

# %% [markdown]
# m, l and o are all that must survive from one piece to the next. They fit on chip however long the row is. That answers the question at
# the top.
#
# ## Exercise
#
# Exercise 2, `online-softmax`: maximum and sum of many rows in one pass over tiles, with masked logits of $-\infty$ among them. The file
# is made by `iosim exercise start online-softmax`. Exercises 1 (`softmax`) and 3 (`merge`) are its neighbours.
#
# ## Summary

# %%
naive_cost, safe_cost, online_cost = accesses.values()
limit = limits["float32"]
l, o, output = together.l.item(), together.o.item(), together.output.item()
print(f"1. exp overflows above {limit:.1f} in float32; safe costs {safe_cost} accesses an element, not {naive_cost}.")
print(f"2. Online, the sum is rescaled where the maximum rises: {online_cost} accesses an element, and safe.")
print(f"3. Pieces merge in any order, the weighted sum too: l = {l:.0f}, o = {o:.0f}, output {output:.0f}.")

# %% tags=["check"]
assert list(accesses.values()) == [3, 4, 3]
