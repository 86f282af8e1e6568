# %% [markdown]
# # 3 Tiles, and the square root of M
#
# **Question.** Two matrices are too large for the fast memory. How many words must cross between the slow memory and the fast one to
# multiply them, and how many fewer if the fast one holds four times as much?
#
# A **word** is one stored number. **M** is how many words the fast memory (SRAM) holds; the slow one (HBM) holds everything. What is to be
# multiplied must be in SRAM. (Notebook 1 says why we count words, and not multiplications. It also explains `Machine`, the model of the
# two memories that counts them.)

# %%
# %matplotlib inline
from itertools import pairwise
from math import isqrt

import matplotlib.pyplot as plt
import numpy as np

from iosim import Machine, SramOverflow
from iosim.predict.bounds import product_bounds
from iosim.show.plots.figures import GRID, INK, QUIET, bare

# %% [markdown]
# ## One element at a time
#
# We want $C = AB$ for matrices of $n \times n$. Each of the $n^2$ elements of C is a row of A times a column of B. The obvious program
# loads such a row and column for every element.
#
# **Write down** how many words it loads and stores for n = 32.
#
# The program below computes a **tile** of C at a time, `rows` x `cols` elements, from slices of A and B that are `k` wide. With 1 x 1
# elements it is the obvious program.
#
# - `m.tiles(n, rows)` walks over n rows, `rows` at a time; `i.size` is how many there are in this turn (the last may have fewer).
# - `m.full` makes room on chip for the tile, filled with 0.0. `m.load` makes room for a slice until the next turn of its loop.
# - `@` is the matrix product of two blocks that are on chip, and `m.store` writes the tile to HBM.
#
# `run` runs it on a machine whose SRAM holds `sram` words (`None`: as many as are asked for). In `mode="count"` the machine counts words,
# without numbers. In `mode="execute"` it computes with real matrices, and the result is compared with NumPy's. `peak_sram` is how many
# words were on chip at most.


# %%
def product(m, A, B, C, rows, cols, k):
    """C = A B, a tile of rows x cols at a time, from slices that are k wide."""
    (n, inner), n_too = A.shape, B.shape[1]
    for i in m.tiles(n, rows):
        for j in m.tiles(n_too, cols):
            c = m.full(0.0, i.size, j.size, name="C_ij")
            for s in m.tiles(inner, k):
                c += m.load(A[i, s]) @ m.load(B[s, j])
            m.store(C[i, j], c)


def run(n, rows, cols, k=1, sram=None, mode="count"):
    """The counts of one product; in mode "execute" also with numbers."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 10, (n, n)).astype(float) for _ in "AB") if mode == "execute" else (None, None)
    m = Machine(sram=sram, mode=mode)
    A, B, C = m.input("A", (n, n), a), m.input("B", (n, n), b), m.output("C", (n, n))
    product(m, A, B, C, rows, cols, k)
    counts = m.finish()
    if mode == "execute":
        assert (C.data == a @ b).all()  # whole numbers: exact
    return counts


def words(counts):
    """All words that were read or written."""
    return sum(array.reads + array.writes for array in counts.arrays.values())


n = 32
one = run(n, 1, 1, mode="execute")
for name, array in one.arrays.items():
    print(f"{name}  read {array.reads:>7,}, written {array.writes:>5,}")
print(f"in all {words(one):,} words, with {one.peak_sram} words on chip at most")
print(f"the matrices themselves have 3 n^2 = {3 * n * n:,}")

# %% tags=["check"]
assert words(one) == 2 * n**3 + n**2 == 66_560
assert one.peak_sram == 3

# %% [markdown]
# $2n^3 + n^2$ words: every element of A is loaded n times, once for each column of B, and every element of B once for each row of A. Three
# words of SRAM were in use; whatever else there is lay idle.
#
# ## A tile at a time
#
# A tile of b x b elements of C needs b rows of A and b columns of B. Each word of A that is loaded now serves b elements of C.
#
# **Write down** the number of words for b = 4, and for b = 16.

# %%
for b in (1, 2, 4, 8, 16):
    counts = run(n, b, b, mode="execute")
    print(f"b = {b:>2}: {words(counts):>7,} words, {counts.peak_sram:>3} on chip (b^2 + 2b = {b * b + 2 * b})")

# %% tags=["check"]
for b in (1, 2, 4, 8, 16):
    assert words(run(n, b, b)) == 2 * n**3 // b + n**2
    assert run(n, b, b).peak_sram == b * b + 2 * b

# %% [markdown]
# The reads shrink with b: $2n^3/b$. The price is room: the tile of C takes $b^2$ words, and a slice of A and one of B, each a single column
# or row, take b words each.
#
# How wide the slices are does not matter for the traffic. It costs room, and saves nothing:

# %%
for k in (1, 4, 16):
    counts = run(n, 16, 16, k)
    print(f"slices {k:>2} wide: {words(counts):,} words, {counts.peak_sram:>3} on chip")

# %% tags=["check"]
assert len({words(run(n, 16, 16, k)) for k in (1, 4, 16)}) == 1
assert [run(n, 16, 16, k).peak_sram for k in (1, 4, 16)] == [16 * 16 + 2 * 16 * k for k in (1, 4, 16)]

# %% [markdown]
# ## How large can a tile be?
#
# The room is M. So $b^2 + 2b \le M$, which is $(b + 1)^2 \le M + 1$, and the largest tile has $b = \lfloor\sqrt{M + 1}\rfloor - 1$, a
# little less than $\sqrt M$. (`isqrt` is the square root, rounded down.) The machine enforces it: a tile that is one larger finds no room.

# %%
M = 288
b = isqrt(M + 1) - 1
print(f"M = {M}: b = {b}, {words(run(n, b, b, sram=M)):,} words")
try:
    run(n, b + 1, b + 1, sram=M)
except SramOverflow as error:
    refused = str(error)
    print(f"b = {b + 1}: {refused}")

# %% tags=["check"]
assert (b, b * b + 2 * b) == (16, M)
assert "288 of 288 are free" in refused

# %% [markdown]
# Put the two together: the words that are read are $2n^3/b \approx 2n^3/\sqrt M$. This is the law of the notebook.
#
# **Predict**: with four times the SRAM, how many times fewer words of A and B are read? And a hundred times fewer, how much SRAM would
# that take?

# %%
n = 1024
sides = [2, 4, 8, 16, 32, 64, 128, 256, 512]  # they divide n, so that no tile is cut short
sizes = [b * b + 2 * b for b in sides]
measured = {M: words(run(n, isqrt(M + 1) - 1, isqrt(M + 1) - 1, sram=M)) for M in sizes}
for M, moved in measured.items():
    print(f"M = {M:>7,}: {moved:>13,} words, of which {moved - n * n:>13,} read")

# %% tags=["check"]
reads = [moved - n * n for moved in measured.values()]
assert all(more == 2 * fewer for more, fewer in pairwise(reads))
assert all(3 * before <= after < 4 * before for before, after in pairwise(sizes))

# %% [markdown]
# Each row has three to four times the SRAM of the row above it (the larger the tile, the closer to four), and half of its reads. A
# hundred times fewer reads would take about ten thousand times the SRAM.
#
# ## Can anybody do better?
#
# A *schedule* says in which order words are loaded, multiplied and stored. No schedule of these multiplications does much better. Irony,
# Toledo and Tiskin (2004), after Hong and Kung (1981), proved that each moves at least about $n^3 / (2\sqrt 2 \sqrt M)$ words; Smith and
# others (2019) raised that to $2n^3/\sqrt M - 2M$. And every product must at least read both matrices and write the third: $3n^2$ words.
# `product_bounds` computes all three, for two matrices of n x n; which one was the largest stands in brackets.


# %%
def floor(n, M):
    """The largest of the lower bounds: what no schedule can do without."""
    return max(product_bounds(n, n, n, M), key=lambda bound: bound.words)


times = {M: moved / floor(n, M).words for M, moved in measured.items()}
print(f"{'M':>9} {'measured':>14} {'lower bound':>14}  measured / bound")
for M, moved in measured.items():
    print(f"{M:>9,} {moved:>14,} {floor(n, M).words:>14,}  {times[M]:.3f}  ({floor(n, M).name})")
print(f"nearest: {min(times.values()):.2f} times the bound; furthest: {max(times.values()):.2f} times")

# %% tags=["check"]
assert all(moved >= floor(n, M).words for M, moved in measured.items())
assert all(moved == 2 * n**3 // (isqrt(M + 1) - 1) + n * n for M, moved in measured.items())
assert max(times.values()) == max(times[sizes[0]], times[sizes[-1]]) < 1.5
assert min(times.values()) < 1.05

# %%
_, axes = plt.subplots(figsize=(8, 4.4))
x = np.geomspace(8, 3e6, 200).astype(int)
axes.loglog(x, [floor(n, int(M)).words for M in x], color=QUIET)
axes.fill_between(x, [floor(n, int(M)).words for M in x], 1e6, color="#eeeeee")
axes.loglog(list(measured), list(measured.values()), "o", color="#0072B2")
axes.axhline(2 * n**3 + n**2, color="#D55E00", linestyle="--")
axes.text(2e4, 2.6e9, "one element at a time: 2n³ + n²", color="#D55E00", fontsize=9)
axes.text(60, 4e8, "square tiles, counted", color="#0072B2", fontsize=9)
axes.text(12, 4e6, "no schedule can be here", color=QUIET, fontsize=9)
axes.text(1.5e5, 1.6e6, "3n²", color=QUIET, fontsize=9)
axes.set_ylim(1e6, 6e9)
axes.set_xlabel("SRAM capacity M (words)")
axes.set_ylabel("words moved")
title = f"A product of {n:,} x {n:,}: half the words for four times the SRAM"
axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
axes.grid(color=GRID, linewidth=0.6)
bare(axes)

# %% [markdown]
# Both axes are logarithmic, and the dots lie nearly on a straight line: one step of ten to the right is half a step of ten down. In the
# middle they stand just above the bound. At both ends they are further away, for two reasons. On the left, tiles are so small that b is
# noticeably less than $\sqrt M$. On the right, writing C is no longer a small part of all words, and the $-2M$ in the bound is no longer
# a small part of it. In the end the bound turns level: 3n² words must move, however large M is.
#
# ## Other shapes
#
# The tile need not be square. One of r rows and c columns costs $n^3 (1/r + 1/c) + n^2$ words, in a room of $rc + r + c$. (If r and c
# divide n. If not, the last tile is smaller, and costs as many words of the other matrix as a whole one.) **Predict** which r is best
# for M = 1,088, and how much worse a tile of 4 rows is.

# %%
M, n = 1088, 1024
heights = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
shapes = {r: (M - r) // (r + 1) for r in heights}  # the widest tile beside a column and a row
tried = {r: words(run(n, r, c, sram=M)) for r, c in shapes.items()}
for r, moved in tried.items():
    print(f"{r:>3} x {shapes[r]:>3}: {moved:>13,} words, {moved / min(tried.values()):>5.2f} times the fewest")

# %% tags=["check"]
assert min(tried, key=tried.get) == 32 == shapes[32]
assert all(moved == n**2 + n**2 * (-(-n // r) + -(-n // shapes[r])) for r, moved in tried.items())

# %% [markdown]
# Square is best. The reads are $n^3 (r + c) / rc$: for an area rc that fits, r + c should be as small as it can be. It is smallest for a
# square.
#
# The story is often told with three square tiles on chip, one of A, one of B and one of C. That wastes room: b is only $\sqrt{M/3}$, and
# the reads are about $\sqrt 3$ times as many.

# %%
cube = isqrt(M // 3)
cubes = words(run(n, cube, cube, cube, sram=M))
print(f"three tiles of {cube} x {cube}: {cubes:,} words, {cubes / tried[32]:.2f} times as many")
print(f"sqrt 3 = {3**0.5:.2f}")

# %% [markdown]
# ## Move M and n yourself
#
# `tell` says what a product costs. With ipywidgets (notebook 1) the cell below it makes two sliders; without, change the numbers and run it
# again.


# %%
def tell(n=1024, M=4096):
    """What a product of n x n moves in an SRAM of M words, and what it must."""
    b = min(isqrt(M + 1) - 1, n)
    moved = words(run(n, b, b, sram=M))
    print(f"n = {n:,}, M = {M:,}: tiles of {b} x {b}, {moved:,} words")
    print(f"that is {moved / floor(n, M).words:.2f} times the bound")
    print(f"and {2 * n**3 / moved:.1f} flops a word (sqrt M = {M**0.5:.1f})")


tell()

# %%
try:
    from ipywidgets import interact
except ImportError:
    tell(n=1000, M=1024)
else:
    interact(tell, n=(64, 2048, 64), M=(64, 65536, 64))

# %% [markdown]
# A *flop* is one addition or multiplication, and the product has $2n^3$. Flops a word: that is the arithmetic intensity of notebook 1. A
# product in an SRAM of M words has about $\sqrt M$ of them, if n is large enough. It depends on the SRAM, and not on the matrix.
#
# ## Exercise
#
# Exercise 5, `tiled-product`: write the product for matrices of any shape and tiles of any shape, ragged tails and all. The file is made by
# `iosim exercise start tiled-product`.
#
# ## Summary

# %%
first, second = sizes[6:8]
b = isqrt(first + 1) - 1
print(f"1. Tiles of b x b read 2n^3/b words, and b = sqrt(M + 1) - 1 fits: for M = {first:,}, b = {b}.")
more, fewer = second / first, reads[7] / reads[6]
print(f"2. With {more:.2f} times the SRAM, {fewer:.2f} times the reads: they fall as 1 / sqrt(M).")
print(f"3. At M = {first:,}, square tiles move {times[first]:.2f} times what no schedule can do without.")

# %% tags=["check"]
assert (reads[6], reads[7]) == (2**24, 2**23)
