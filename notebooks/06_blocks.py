# %% [markdown]
# # 6 How large should a tile be?
#
# **Question.** The FlashAttention paper cuts K and V into tiles of $B_c = \lceil M/4d \rceil$ rows, and Q and O into tiles of
# $B_r = \min(\lceil M/4d \rceil, d)$ rows. Where does the 4 come from? Do such tiles fit, and are they the best?
#
# A **word** is one stored number. SRAM, the fast memory on the chip, holds **M** words; HBM, the slow one, holds everything
# ([notebook 1](01_memory.ipynb)). There are **N** queries and N keys of **d** numbers each: Q, K, V and the result O are N x d. A **tile**
# is a few rows of a matrix, $B_r$ rows of Q and O, $B_c$ rows of K and V; r stands for the rows of the scores $S = QK^T$, c for their
# columns. We call the pair $B_r \times B_c$ the **blocks**. $\lceil x \rceil$ is x rounded up to a whole number.
#
# [Notebook 5](05_flash.ipynb) goes through the algorithm line by line, and this one takes its listing as known.

# %%
# %matplotlib inline
import matplotlib.pyplot as plt

from iosim import Attention, Blocks, SramOverflow, capacity, simulate
from iosim.predict import choose_blocks, frontier, leading_constants
from iosim.show.plots import tile_map
from iosim.show.plots.figures import GRID, INK, QUIET, bare, style

N, d, M = 1024, 64, 16384
problem = Attention(n=N, d=d)

# %% [markdown]
# ## Four tiles
#
# FlashAttention (`flash`, the paper's Algorithm 1) keeps a tile of K and one of V on chip, and beside them lets the tiles of Q and O pass.
# That makes four tiles. If each has at most B rows of d words, they take $4Bd$ words, and $4Bd = M$ gives $B = M/4d$. Here is the 4: it
# counts Q, K, V and O.
#
# Take M = 16,384 and d = 64, so that B = 64. **Write down:** how many words of SRAM are left beside the four tiles? And what else must be
# on chip while a tile is worked on? (Whatever is on chip at a moment is *resident*. A run that finds no room says who the residents are.)

# %%
B = -(-M // (4 * d))
print(f"B = {B}: four tiles take {4 * B * d:,} words, and {M - 4 * B * d} of {M:,} are left")
try:
    simulate("flash", problem, sram=M, blocks=(B, B))
except SramOverflow as error:
    print("SramOverflow:", error)

# %% [markdown]
# Nothing is left. But the scores $S_{ij} = Q_iK_j^T$ need $B_r \times B_c$ words, and each row has a running maximum m and a running sum l.
# The machine refuses at the first of them that finds no room.
#
# `overflow="record"` lets it run on, and notes how much was needed; `blocks="paper"` asks for the printed rule. **Predict** how many times
# M that is.

# %%
paper = simulate("flash", problem, sram=M, blocks="paper", overflow="record")
print(f"blocks {paper.blocks}: {paper.peak_sram:,} words needed, {paper.peak_sram / M:.2f} M")

# %% [markdown]
# Who takes them? `plan.trace()` tells what a run does, event by event. An event says what came on chip (its name, and from where to where
# on each axis) and how much of the SRAM is occupied afterwards. What came between the `begin` and the `end` of a loop's turn gives its room
# back at the end. So we can walk up to the moment when most is occupied, and look around.


# %%
def at_the_peak(run):
    """Name, shape and words of whatever is on chip when a run needs most."""
    events = run.plan.trace()
    most, used, turns = max(event.sram for event in events), 0, [[]]
    for event in events:
        if event.kind == "begin":
            turns.append([])
        elif event.kind == "end":
            turns.pop()
        elif event.kind in ("load", "alloc"):  # it comes from HBM, or is made on chip
            shape = " x ".join(f"{stop - start}" for start, stop in event.box)
            turns[-1].append((event.name, shape, event.sram - used))
        used = event.sram
        if used == most:
            return [resident for turn in turns for resident in turn]


for name, shape, words in at_the_peak(paper):
    print(f"   {name:<8} {shape:>7} {words:>6,}")

# %% tags=["check"]
columns = [words for _, shape, words in at_the_peak(paper) if shape == "64 x 1"]
assert paper.blocks == Blocks(64, 64)
assert paper.peak_sram == sum(words for *_, words in at_the_peak(paper)) == 20_992
assert paper.peak_sram == 4 * 64 * d + 64 * 64 + 8 * 64 == M + M // 4 + sum(columns)
assert len(columns) == 8
assert paper.overflow == 20_992 - M
assert f"{paper.peak_sram / M:.2f}" == "1.28"
assert paper.sound

# %% [markdown]
# Four tiles make M, the scores another M/4, and eight columns of one word a row the rest (m, l and what the update of a row needs, by the
# names that they have in the listing): 1.28 M. So the printed rule is right about how the blocks *grow* with M, which is all that the
# paper's theorem needs. It is not a rule by which a program can choose its tiles.
#
# (The second part of the rule, $\min(\cdot, d)$, is there for the scores: with at most d rows they take at most $d \cdot M/4d = M/4$ words,
# however large M is.)
#
# ## Which side of the tile costs words?
#
# Halve $B_c$, or halve $B_r$. **Predict** what each does to the number of words that cross. Hint: the loop over tiles of K and V is
# outside. What passes once in every turn of it?
#
# (`execute=False, replay=False`: the run counts, and computes no numbers, which is faster. The counts are the same.)

# %%
tried = {}
for rows, cols in ((64, 64), (32, 64), (64, 32), (1, 64), (64, 128)):
    run = simulate("flash", problem, sram=M, blocks=(rows, cols), overflow="record", execute=False, replay=False)
    tried[rows, cols] = run.total
    print(f"Br = {rows:>2}, Bc = {cols:>3}: {run.total:>9,} words, {run.peak_sram:>6,} on chip")


# %% tags=["check"]
def flash_words(cols):
    """Algorithm 1 as printed: K and V once, Q, O, l and m once for each tile of keys, O, l and m filled first."""
    return 2 * N * d + -(-N // cols) * (3 * N * d + 4 * N) + N * (d + 2)


assert all(words == flash_words(cols) for (_, cols), words in tried.items())
assert tried[32, 64] == tried[1, 64] == tried[64, 64] == paper.total

# %% [markdown]
# Only $B_c$ counts. There are $T_c = \lceil N/B_c \rceil$ turns of the outer loop, and in each of them all of Q and O pass: read Q, read O,
# write O, three times $Nd$ words. How many rows pass at a time makes no difference to how many pass in all. $B_r$ costs room, and no words.
#
# ## Three rules
#
# - `paper`: the printed one. It does not ask whether the blocks fit.
# - `fit`: blocks of the same shape, the largest that really fit.
# - `best`: of *all* blocks that fit, those that move the fewest words.
#
# **Predict** what `best` does with $B_r$, and how many times fewer words it moves than `fit`. We try `flash2` as well, FlashAttention-2:
# the same sums with the loops exchanged. Queries are outside, Q and O pass once, and K and V pass once for each tile of queries.

# %%
chosen = {}
for kernel in ("flash", "flash2"):
    for rule in ("paper", "fit", "best"):
        run = simulate(kernel, problem, sram=M, blocks=rule, overflow="record", execute=False, replay=False)
        chosen[kernel, rule] = run
        room = f"{run.peak_sram:>6,} on chip ({run.peak_sram / M:.2f} M)"
        print(f"{kernel:<6} {rule:<5} {run.blocks!s:>6}: {run.total:>9,} words, {room}")

# %% tags=["check"]
assert [str(run.blocks) for run in chosen.values()] == ["64x64", "51x51", "7x114", "64x64", "52x52", "114x5"]
assert all(run.sound for run in chosen.values())
assert all(run.overflow == 0 for (_, rule), run in chosen.items() if rule != "paper")
assert all(chosen["flash", rule].total == flash_words(chosen["flash", rule].blocks.cols) for rule in ("paper", "fit", "best"))

# %% [markdown]
# `best` lets a few queries pass at a time and gives nearly all the room to K and V: two tiles instead of four. For `flash2` it is the other
# way round: Q and O get the room, and the keys pass a few at a time.
#
# Here is the room, tile by tile: one bar for each run, one part for each tile.

# %%
COLOURS = {"K": "#0072B2", "V": "#56B4E9", "Q": "#E69F00", "O": "#F0E442", "S": "#D55E00", "rest": "#999999"}


def part(name):
    """Which part of the bar a name belongs to."""
    return name[0] if name[0] in "KVQO" else "S" if name.startswith("S") else "rest"


_, axes = plt.subplots(figsize=(9.2, 4.2))
for place, run in enumerate(chosen.values()):
    left = 0
    for key, colour in COLOURS.items():
        room = sum(words for name, _, words in at_the_peak(run) if part(name) == key)
        axes.barh(-place, room, left=left, color=colour, edgecolor="white", linewidth=0.8)
        if room > 700:
            dark = key in ("Q", "O", "V")
            axes.text(left + room / 2, -place, key, ha="center", va="center", fontsize=11, color="black" if dark else "white")
        left += room
axes.axvline(M, color=INK, linewidth=1.4)
axes.text(M, 0.75, f"M = {M:,}", ha="center", fontsize=11, color=INK)
axes.set_yticks([-place for place in range(6)], [f"{kernel} {rule}, {run.blocks}" for (kernel, rule), run in chosen.items()])
axes.set_xlabel("words of SRAM at the peak (grey: one word a row, m, l and others)")
axes.xaxis.set_major_formatter("{x:,.0f}")
bare(axes)
axes.tick_params(labelsize=11)

# %% [markdown]
# ## All blocks at once
#
# A map shows the words of every pair of blocks, dark for many, and the line up to which they fit. The blocks of the three rules are marked.
# **Before you look:** along which axis does the colour change for `flash`?

# %%
tile_map([chosen["flash", "fit"]])

# %% [markdown]
# Along $B_c$ only. So the best blocks lie where the line reaches furthest up: at the very edge, with $B_r$ small. But `best` took 7 queries
# at a time, and not one. **Write down** why. Hint: how many tiles do the keys make?

# %%
most = max(rows for rows in range(1, N) if 2 * (1 + rows) * d + rows + 8 <= M)  # keys that fit beside a single query
for rows in (most, chosen["flash", "best"].blocks.cols):
    print(f"{N:,} keys in tiles of {rows}: {-(-N // rows)} tiles")

# %% [markdown]
# Only the number of tiles matters, and it is the same. So `best` takes the smaller ones, and has room for more queries.
#
# And for `flash2`? **Draw it in your mind first.**

# %%
tile_map([chosen["flash2", "fit"]])

# %% tags=["check"]
assert most == 125
assert -(-N // 114) == -(-N // 125) == 9
assert simulate("flash", problem, sram=M, blocks=(1, 125), execute=False, replay=False).total == chosen["flash", "best"].total
assert simulate("flash", problem, sram=M, blocks=(1, 126), execute=False, replay=False, overflow="record").overflow > 0

# %% [markdown]
# (Real kernels take more rows at a time: the first released FlashAttention code has $B_r = 16$, because the hardware multiplies that many
# rows at once. Words do not know this.)
#
# ## The curve over M
#
# How do the words fall as M grows? `frontier` finds the fewest words at every M at once, a staircase: from `sram[k]` words of SRAM on,
# `words[k]` words move, and `at(M)` is the step k on which M lies. **Predict**: with twice the SRAM, how many times fewer words? In
# [notebook 3](03_tiling.ipynb) it took four times the SRAM to halve them.

# %%
long = Attention(n=65536, d=d)
sizes = [2**k for k in range(11, 21)]
steps = {kernel: frontier(kernel, long) for kernel in ("flash", "flash2")}
fewest = {kernel: [int(one.words[one.at(size)]) for size in sizes] for kernel, one in steps.items()}
as_printed = {"blocks": "paper", "overflow": "record", "execute": False, "replay": False}
printed = [simulate("flash", long, sram=size, **as_printed).total for size in sizes]
print(f"{'M':>9} {'flash, paper':>15} {'flash, best':>15} {'flash2, best':>15}   flash2: times fewer than at M/2")
for place, size in enumerate(sizes):
    ratio = f"{fewest['flash2'][place - 1] / fewest['flash2'][place]:.2f}" if place else "-"
    print(f"{size:>9,} {printed[place]:>15,} {fewest['flash'][place]:>15,} {fewest['flash2'][place]:>15,}   {ratio}")

# %% tags=["check"]
best = simulate("flash2", long, sram=16384, blocks="best", execute=False, replay=False)
assert best.total == fewest["flash2"][sizes.index(16384)]
assert all(1.9 < more / fewer < 2.3 for more, fewer in zip(fewest["flash2"][:6], fewest["flash2"][1:7], strict=True))

# %%
_, axes = plt.subplots(figsize=(8, 4.6))
for kernel, one in steps.items():
    inside = (one.sram >= sizes[0]) & (one.sram <= sizes[-1])
    axes.step(one.sram[inside], one.words[inside], where="post", color=style(kernel).colour)
    axes.text(sizes[-1] * 1.1, fewest[kernel][-1], f"{kernel}, best", color=style(kernel).colour, fontsize=10, va="center")
axes.loglog(sizes, printed, "o:", color=style("flash").colour, markerfacecolor="white")
axes.text(sizes[0] * 1.2, 1.1 * printed[0], "flash, paper (need not fit)", color=style("flash").colour, fontsize=10)
law = [4 * long.n**2 * d * d / size for size in sizes]
axes.plot(sizes, law, color=QUIET, linestyle="--")
axes.text(sizes[-1] * 1.1, 0.8 * law[-1], "4N²d²/M", color=QUIET, fontsize=10, va="center")
axes.set_xscale("log", base=2)
axes.set_yscale("log")
axes.set_xlim(sizes[0] / 1.2, sizes[-1] * 6)
axes.set_xticks(sizes[::2], [f"{size:,}" for size in sizes[::2]])
axes.set_xlabel("SRAM capacity M (words)")
axes.set_ylabel("words moved")
axes.set_title(f"N = {long.n:,}, d = {d}: twice the SRAM, half the words", loc="left", fontsize=11, fontweight="bold", color=INK)
axes.grid(axis="y", color=GRID, linewidth=0.6)
bare(axes)

# %% [markdown]
# Twice the SRAM, half the words: the curve is $c \cdot N^2d^2/M$, with a constant c of its own for each rule and loop order. (For a single
# product it was $1/\sqrt M$. Here whole rows of d words stay on chip, which is worth it as long as M is larger than about $d^2$;
# [notebook 9](09_bounds.ipynb) asks what happens below.)
#
# What is c? **Work it out** for `flash`: $T_c = N/B_c$ turns of $3Nd$ words, with $B_c = M/4d$ for the printed blocks, and with
# $B_c = M/2d$ if K and V have all the room. For `flash2`: $N/B_r$ turns of $2Nd$ words, with $B_r = M/2d$.
#
# `leading_constants` takes N, d and M and divides the words that are moved by $N^2d^2/M$. For small problems much else counts (the scores,
# m and l, tiles that do not divide N), so we ask for very large ones; `limit` is what remains of c where all of that has become small.

# %%
large_d = 1024
large = {"n": 2**24, "d": large_d, "sram": 256 * large_d**2}
constants = leading_constants(**large)
for found in constants[:3]:
    print(f"{found.name:<20} c = {float(found.ratio):6.3f} at N = {large['n']:,}, d = {large_d:,}, M = 256 d²; in the limit {found.limit}")

# %% tags=["check"]
assert [found.limit for found in constants] == [3 * 4, 3 * 2, 2 * 2, 1]
assert constants[0].limit == 2 * constants[1].limit
assert all(abs(found.ratio / found.limit - 1) < 0.05 for found in constants)

# %% [markdown]
# 12, 6 and 4: $3 \cdot 4$, $3 \cdot 2$ and $2 \cdot 2$. The 4 of $M/4d$ stands in the first of them. The printed blocks move twice as much
# because they share the room evenly; the loop order makes the rest of the difference. [The frontier](../docs/frontier.md) has every step of
# these curves, and derives the constants.
#
# ## A trap: M in words
#
# A data sheet gives bytes, and the rule wants words. **Predict** $B_c$ for 192 KiB of SRAM (1 KiB = 1,024 bytes), float16 (2 bytes a word)
# and d = 64; and what you get if you forget to divide. `choose_blocks` applies a rule to a problem and a capacity.

# %%
for dtype in ("float16", "float32"):
    asked, size = Attention(n=4096, d=64, dtype=dtype), capacity("192KiB")
    right = choose_blocks("flash", asked, size, "paper")
    wrong = choose_blocks("flash", asked, capacity(size.amount), "paper")
    print(f"{dtype}: {size} are {size.words(asked.itemsize):,} words, Bc = {right.cols};", end=" ")
    print(f"bytes taken for words: Bc = {wrong.cols}")

# %% tags=["check"]
words192 = capacity("192KiB")
assert choose_blocks("flash", Attention(n=4096, d=64, dtype="float16"), words192, "paper") == Blocks(64, 384)
assert choose_blocks("flash", Attention(n=4096, d=64, dtype="float32"), words192, "paper") == Blocks(64, 192)

# %% [markdown]
# ## Move N, d and M yourself


# %%
def tell(N=1024, d=64, M=16384):
    """The three rules for flash and flash2."""
    for kernel in ("flash", "flash2"):
        for rule in ("paper", "fit", "best"):
            asked = Attention(n=N, d=d)
            run = simulate(kernel, asked, sram=M, blocks=rule, overflow="record", execute=False, replay=False)
            print(f"{kernel:<6} {rule:<5} {run.blocks!s:>9}: {run.total:>13,} words, {run.peak_sram / M:.2f} M on chip")


tell(N=4096, d=128, M=65536)

# %% [markdown]
# With ipywidgets the next cell makes three sliders; without, change its numbers and run it again.

# %%
try:
    from ipywidgets import interact
except ImportError:
    tell(N=2048, d=64, M=8192)
else:
    interact(tell, N=(256, 8192, 256), d=(16, 128, 16), M=(2048, 131072, 2048))

# %% [markdown]
# ## Exercise
#
# Exercise 9, `blocks`: write the function that chooses the blocks for an SRAM of M words. The file is made by
# `iosim exercise start blocks`; [the exercises](../docs/exercises.md) has the rest. Next: [notebook 7](07_backward.ipynb), the backward
# pass.
#
# ## Summary

# %%
saved = chosen["flash", "fit"].total / chosen["flash", "best"].total
print(f"1. The 4 in M/4d counts Q, K, V and O; with the scores and statistics such blocks need {paper.peak_sram / M:.2f} M.")
print(f"2. Only the outer tile costs words: at M = {M:,} the best blocks of flash move {saved:.2f} times fewer than square ones that fit.")
limits = "{}, {} and {}".format(*(found.limit for found in constants[:3]))
print(f"3. Words fall as c N²d²/M: c goes to {limits} for flash in the printed blocks, flash and flash2 in the best.")

# %% tags=["check"]
assert f"{paper.peak_sram / M:.2f}" == "1.28"
assert (chosen["flash", "fit"].total, chosen["flash", "best"].total) == (4_413_440, 2_004_992)
