# %% [markdown]
# # 5 FlashAttention, line by line
#
# **Question.** Standard attention moves $4N^2$ words because its three steps are apart: the scores S and the weights P go to the slow
# memory and come back (notebook 4). Can the steps become one, a tile at a time, so that S and P never leave the chip, and the result is
# still exact?
#
# The softmax seems to forbid it: it divides by a sum over a whole row. Notebook 2 has the way out, three numbers a row that are put right
# whenever more of the row is seen. This notebook puts it to work. There are five questions at its end.

# %%
# %matplotlib inline
import inspect

import matplotlib.pyplot as plt
import numpy as np
from IPython import display as shown

from iosim import Attention, simulate, trace
from iosim.kernels.flash import flash
from iosim.plots import bars
from iosim.plots.figures import GRID, INK, QUIET, STYLES, bare
from iosim_reference.softmax import safe

# %% [markdown]
# ## The symbols
#
# Q, K, V and O are matrices of **N** rows and **d** columns: queries, keys, values, and the result. They are cut into tiles: $Q_i$ and
# $O_i$ have **Br** rows, $K_j$ and $V_j$ have **Bc**. There are Tr = N / Br tiles of queries and **Tc** = N / Bc tiles of keys, rounded
# up.
#
# For each query we keep what it has seen so far:
#
# - **m**, its largest score,
# - **l**, the sum of $e^{s - m}$ over its scores s,
# - **O**, the weighted mean of the values. This is the result, if these were all keys.
#
# A new tile of keys brings the same three, of itself alone: $\tilde m$ and $\tilde l$, and instead of a mean the sum $\tilde P V$ with
# $\tilde P = e^{s - \tilde m}$. Then
#
# $$m' = \max(m, \tilde m) \qquad a = e^{m - m'} \qquad b = e^{\tilde m - m'} \qquad l' = a\,l + b\,\tilde l$$
#
# $$O' = \frac{a\,l\,O + b\,\tilde P V}{l'}$$
#
# ($l\,O$ is the sum of which O was the mean.)
#
# ## One query, four keys, on paper
#
# The scores are 0, 0 and ln 3, 0, in two tiles of two keys; the values are 1, 3 and 7, 11. Take paper, and **write down m, l and O after
# the first tile, and after the second.** At the start m is $-\infty$ and l and O are 0.
#
# Here is the listing for one query, in plain NumPy, with every number printed.


# %%
def steps(scores, values, Bc):
    """(m, l, O) after each tile of keys, and the numbers on the way."""
    m, l, O = -np.inf, 0.0, 0.0
    for j in range(0, len(scores), Bc):
        s, v = scores[j : j + Bc], values[j : j + Bc]
        m_t = s.max()
        p = np.exp(s - m_t)
        l_t = p.sum()
        m_new = max(m, m_t)
        a, b = np.exp(m - m_new), np.exp(m_t - m_new)
        l_new = a * l + b * l_t
        O = (a * l * O + b * (p @ v)) / l_new
        m, l = m_new, l_new
        yield {"s": s, "m~": m_t, "P~": p, "l~": l_t, "P~V": p @ v, "m": m, "a": a, "b": b, "l": l, "O": O}


scores, values = np.array([0.0, 0.0, np.log(3), 0.0]), np.array([1.0, 3.0, 7.0, 11.0])
by_hand = list(steps(scores, values, Bc=2))
print("        ", "".join(f"{f'tile {j}':>20}" for j in range(len(by_hand))))
for name in by_hand[0]:
    print(f"{name:>8} ", "".join(f"{np.array2string(np.asarray(one[name]), precision=4):>20}" for one in by_hand))

# %% [markdown]
# Tile 0: m = 0, l = 2, O = (1 + 3)/2 = 2. Tile 1 brings ln 3, so that the old sums count for a = $e^{0 - \ln 3}$ = 1/3 of what they did:
# l = 2/3 + 4/3 = 2, and the sum is 4/3 + 32/3 = 12, whose mean is 6.
#
# With all four scores at hand, the softmax gives the same:

# %%
weights = safe(scores)
print(f"{weights.round(4)} @ {values} = {weights @ values:.4f}")

# %% tags=["check"]
hand = np.array([[one["m"], one["l"], one["O"]] for one in by_hand])
assert np.allclose(hand, [[0, 2, 2], [np.log(3), 2, 6]], rtol=0, atol=16 * 2.0**-53 * 12)
assert abs(weights @ values - 6) < 16 * 2.0**-53 * 11

# %% [markdown]
# The factor *a* is where implementations go wrong. **Before you run it**: what would O be with the inverse factor, with none, and with
# one on the sum of values but not on l?

# %%
l_0, sum_0, l_1, sum_1 = 2.0, 4.0, 4 / 3, 32 / 3  # of the two tiles, each relative to its own maximum; b is 1
a = 1 / 3
for text, on_sum, on_l in (("right", a, a), ("inverse", 1 / a, 1 / a), ("none", 1, 1), ("l forgotten", a, 1)):
    print(f"{text:<12} O = {(on_sum * sum_0 + sum_1) / (on_l * l_0 + l_1):.4f}")

# %% [markdown]
# All of them look plausible, and none but the first is a softmax.
#
# ## Many queries: who waits where
#
# FlashAttention runs over the tiles of keys outside, and over the tiles of queries inside. While the keys of one tile stand on chip,
# every query passes by; m, l and O of a query wait in HBM until the next tile of keys. This is the listing that iosim runs. `m.load` and
# `m.store` are the only ways between the two memories; whatever is made by `m.full` or `m.let` has room on chip until its loop takes the
# next turn.

# %%
print(inspect.getsource(flash))

# %% [markdown]
# Read it beside the formulas: `m_t` is $\tilde m$, `s` becomes $\tilde P$ in its place, `l_t` is $\tilde l$. (`create`, `seen`,
# `dropped`, `finite`, `nonzero` and `O_acc` are for variants and masks; here all pairs attend and `O_acc` is O.) S is made on chip, used,
# and gone with the turn.
#
# Our four keys on the machine, in float64. It computes with real numbers; LSE is $m + \ln l$, the one number that m and l amount to:


# %%
def on_machine(scores, values, Bc):
    """FlashAttention of one query 1 and keys s: their products are the scores."""
    q, k, v = np.ones((1, 1)), scores[:, None], values[:, None]
    problem = Attention(n=1, d=1, nk=len(scores), scale=1.0, dtype="float64")
    return simulate("flash", problem, sram=64, blocks=(1, Bc), inputs=(q, k, v))


hand_run = on_machine(scores, values, Bc=2)
print(f"O = {hand_run.output.item():.6f}, LSE = {hand_run.lse.item():.6f} = ln 6 = {np.log(6):.6f}")
print(f"by hand: m + ln l = {by_hand[-1]['m'] + np.log(by_hand[-1]['l']):.6f}")

# %% tags=["check"]
assert hand_run.sound
assert abs(hand_run.output.item() - 6) < 16 * 2.0**-53 * 11
assert abs(hand_run.lse.item() - np.log(6)) < 16 * 2.0**-53 * np.log(6)

# %% [markdown]
# ## O is right after every tile
#
# Stop after any tile of keys: O is *exact* attention to the keys seen so far (the paper proves it in its Theorem 1). To see it, run the
# machine on the first keys only, and set the result beside the softmax over those keys. 48 queries, 64 keys, tiles of 16; the table shows
# one element of O.

# %%
rng = np.random.default_rng(7)
q, k, v = rng.normal(size=(48, 8)), rng.normal(size=(64, 8)), rng.normal(size=(64, 8))
worst = 0.0
print("keys seen   m of query 0   l of query 0    O[0, 0]   softmax over the keys seen")
for seen in (16, 32, 48, 64):
    run = simulate("flash", Attention(n=48, d=8, nk=seen, dtype="float64"), sram=1024, blocks=(16, 16), inputs=(q, k[:seen], v[:seen]))
    s = q @ k[:seen].T / np.sqrt(8)
    exact = safe(s) @ v[:seen]
    worst = max(worst, np.abs(run.output - exact).max())
    *_, last = steps(s[0], v[:seen, 0], Bc=16)
    print(f"{seen:>9}   {last['m']:>12.6f}   {last['l']:>12.6f}   {run.output[0, 0]:>8.5f}   {exact[0, 0]:>8.5f}")
print(f"largest difference in all of O: {worst:.1e}")

# %% tags=["check"]
assert worst < 2.0**-53 * (16 * (1 + np.abs(q @ k.T).max()) + 2 * 4) * np.abs(v).max()

# %% [markdown]
# m never falls. l need not grow: it is relative to m. And O is a result at every line.
#
# ## What it moves
#
# Now count. N = 512, d = 32, tiles of Br = Bc = 64, so that Tc = 8. Go through the listing, and **write down** how often every element of
# Q, K, V, O, l and m is read, and how often written. How many words is that?

# %%
N, d, Br, Bc = 512, 32, 64, 64
problem = Attention(n=N, d=d)
report = simulate("flash", problem, sram=16384, blocks=(Br, Bc))
report

# %% [markdown]
# K and V stand in the outer loop: each element is read once. Q, O, l and m stand in the inner loop: they are read once *for each tile of
# keys*, Tc = 8 times, and O, l and m are written as often. (Once more, in fact: before the loops they are filled with 0, 0 and $-\infty$,
# the row *of which init*.)
#
# *counts* says three things. *executed*: the run with real numbers, tile after tile, moved these words. *predicted*: so says the closed
# form, from a module that never sees the listing. *replayed*: so says a recount of the run's events. All are exact integers.

# %% tags=["check"]
Tc = -(-N // Bc)
assert {name: (array.reads, array.writes) for name, array in report.arrays.items()} == {
    "Q": (Tc * N * d, 0),
    "K": (N * d, 0),
    "V": (N * d, 0),
    "O": (Tc * N * d, (Tc + 1) * N * d),
    "l": (Tc * N, (Tc + 1) * N),
    "m": (Tc * N, (Tc + 1) * N),
}
assert report.total == 2 * N * d + Tc * (3 * N * d + 4 * N) + N * d + 2 * N
assert report.agreed == {"executed": True, "predicted": True, "replayed": True}
assert report.sound

# %% [markdown]
# ## S and P are gone
#
# The same problem by standard attention, and by FlashAttention:

# %%
standard = simulate("standard", problem, sram=16384)
print(f"standard {standard.total:>9,} words, {standard.flops.matmul:,} flops in products, {standard.peak_hbm:>7,} words of HBM")
print(f"flash    {report.total:>9,} words, {report.flops.matmul:,} flops in products, {report.peak_hbm:>7,} words of HBM")
print(f"largest difference of O: {np.abs(standard.output - report.output).max():.1e}")
bars([standard, report])

# %% tags=["check"]
assert set(standard.arrays) - set(report.arrays) == {"S", "P"}
assert report.flops.matmul == standard.flops.matmul == 4 * N * N * d
assert standard.sound

# %% [markdown]
# No multiplication was saved. The words were.
#
# ## Inside the SRAM
#
# The machine tells what it does, event by event. The picture shows how much of the SRAM is occupied while a small problem runs, N = 32 in
# tiles of 8: four tiles of keys, and in each four tiles of queries.

# %%
small = Attention(n=32, d=4)
events = [event for event in trace("flash", small, sram=256, blocks=(8, 8)) if event.kind not in ("input", "output", "use")]
moved = np.cumsum([event.words if event.kind in ("load", "store", "init") else 0 for event in events])
figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True, layout="constrained")
top.step(range(len(events)), [event.sram for event in events], where="post", color=STYLES["flash"].colour)
top.axhline(256, color=INK, linestyle="--")
top.text(2, 246, "M = 256", fontsize=9, va="top")
top.set_ylabel("SRAM in use (words)")
for place, event in enumerate(events):
    if event.kind == "load" and event.name == "K":
        top.axvline(place, color=GRID, zorder=0)
        top.text(place + 2, 3, "next K, V", fontsize=8, color=QUIET)
bottom.plot(moved, color=STYLES["flash"].colour)
bottom.set_ylabel("words moved so far")
bottom.set_xlabel("events of the run")
top.set_title("Tiles come and go; nothing grows with N", loc="left", fontsize=11, fontweight="bold", color=INK)
for axes in (top, bottom):
    bare(axes)

# %% tags=["check"]
run = simulate("flash", small, sram=256, blocks=(8, 8))
assert moved[-1] == run.total
assert max(event.sram for event in events) == run.peak_sram <= 256

# %% [markdown]
# The four steps at the left fill O, l and m in HBM. Then each tile of keys stays (the base line), and each tile of queries passes by (the
# peaks). The peak depends on the tiles and on d, not on N.
#
# ## Taller tiles
#
# What passes by is read Tc = N / Bc times. **Predict**: which arrays move fewer words when Bc doubles? By how much do all words fall?


# %%
def tell(N=512, d=32, Bc=64):
    """What FlashAttention moves in tiles of 64 queries and Bc keys."""
    run = simulate("flash", Attention(n=N, d=d), sram="1MiB", blocks=(64, Bc), execute=False, replay=False)
    print(f"N = {N:,}, d = {d}, Bc = {Bc}: {run.total:,} words, peak SRAM {run.peak_sram // 4:,} words")
    print("    " + ", ".join(f"{name} {array.reads + array.writes:,}" for name, array in run.arrays.items()))
    return run


for tall in (32, 64, 128):
    tell(Bc=tall)

# %% [markdown]
# Nearly half, as long as Q and O dominate; K and V stay. The price is room on chip. How large a tile can be, and what that makes of the
# words, is notebook 6.
#
# With ipywidgets the next cell makes sliders; without, change the numbers and run it again.

# %%
try:
    from ipywidgets import interact
except ImportError:
    tell(N=1024, d=64, Bc=128)
else:
    interact(lambda N, d, Bc: tell(N, d, Bc) and None, N=(64, 2048, 64), d=(8, 128, 8), Bc=(16, 256, 16))

# %% [markdown]
# ## Five questions
#
# All of them can be answered from what you saw. Write your answers down first; the next cell computes them, and hides each until you open
# it.
#
# 1. A query has the scores 0, ln 2 and ln 4, 0 in two tiles; the values are 2, 5 and 1, 4. What are m, l and O after each tile?
# 2. N = 2,048, d = 64, Br = 64, Bc = 128: how many words does FlashAttention move, the filling of O, l and m included?
# 3. In question 2, Bc becomes 256. Which arrays move fewer words, and what is the new total?
# 4. In question 2, N doubles. How do the words of S and P grow that cross between the memories, and how does the peak of the SRAM?
# 5. The run of 48 queries and 64 keys above is stopped after two of its four tiles of keys. What does O hold?


# %%
def answer(number, text):
    """One answer, to be opened."""
    shown.display(shown.HTML(f"<details><summary>Answer {number}</summary>{text}</details>"))


new_scores, new_values = np.array([0.0, np.log(2), np.log(4), 0.0]), np.array([2.0, 5.0, 1.0, 4.0])
one, two = steps(new_scores, new_values, Bc=2)
checked = on_machine(new_scores, new_values, Bc=2).output.item()
answer(
    1,
    f"After tile 0: m = {one['m']:.4f} (ln 2), l = {one['l']:.4f}, O = {one['O']:.4f}. Tile 1 has a = {two['a']:.4f}: "
    f"m = {two['m']:.4f} (ln 4), l = {two['l']:.4f}, O = {two['O']:.4f}. The machine says {checked:.4f}.",
)


def ask(N=2048, Bc=128):
    """The run of question 2, or one beside it."""
    return simulate("flash", Attention(n=N, d=64), sram="1MiB", blocks=(64, Bc), execute=False)


base, taller, longer = ask(), ask(Bc=256), ask(N=4096)
count = {name: (array.reads, array.writes) for name, array in base.arrays.items()}
answer(
    2,
    f"Tc = {2048 // 128}. K and V once: {count['K'][0] + count['V'][0]:,}. Q: {count['Q'][0]:,}. O: {count['O'][0]:,} read, "
    f"{count['O'][1]:,} written. l and m: {sum(count['l']) + sum(count['m']):,}. In all {base.total:,}.",
)
fewer = [name for name in base.arrays if taller.arrays[name] != base.arrays[name]]
answer(3, f"{', '.join(fewer)}: Tc is {2048 // 256} now. {taller.total:,} words, {taller.total / base.total:.3f} times as many.")
crossing = sum(run.arrays[name].reads + run.arrays[name].writes for run in (base, longer) for name in run.arrays if name in "SP")
peaks = f"{base.peak_sram:,} bytes before and {longer.peak_sram:,} after"
answer(4, f"Not at all: {crossing} words of S and P cross, before and after. Nor does the peak: {peaks}.")
half = simulate("flash", Attention(n=48, d=8, nk=32, dtype="float64"), sram=1024, blocks=(16, 16), inputs=(q, k[:32], v[:32]))
apart = np.abs(half.output - safe(q @ k[:32].T / np.sqrt(8)) @ v[:32]).max()
answer(5, f"Exact attention of all 48 queries to the first 32 keys. The largest difference from a softmax over those is {apart:.1e}.")

# %% tags=["check"]
assert np.allclose([one["l"], one["O"], two["l"], two["O"]], [1.5, 4, 2, 2.5], rtol=0, atol=16 * 2.0**-53 * 5)
assert base.total == 2 * 2048 * 64 + 16 * (3 * 2048 * 64 + 4 * 2048) + 2048 * 64 + 2 * 2048
assert taller.total == 2 * 2048 * 64 + 8 * (3 * 2048 * 64 + 4 * 2048) + 2048 * 64 + 2 * 2048
assert fewer == ["Q", "O", "l", "m"]
assert crossing == 0
assert base.peak_sram == longer.peak_sram
assert base.sound
assert taller.sound
assert longer.sound
assert apart < 2.0**-53 * (16 * (1 + np.abs(q @ k.T).max()) + 2 * 2) * np.abs(v).max()

# %% [markdown]
# ## Exercise
#
# Exercise 7, `flash`: write the listing yourself. The file is made by `iosim exercise start flash`.
#
# ## Summary

# %%
flops = report.flops.matmul
print(f"1. m, l and O of a query are put right after each tile of keys: O = {hand[0, 2]:.0f}, then {hand[1, 2]:.0f}, exact each time.")
print(f"2. S and P never leave the chip: {report.total:,} words instead of {standard.total:,}, with the same {flops:,} flops in products.")
print(f"3. K and V move once, all else once a tile of keys (Tc = {Tc}); executed, predicted, replayed: {list(report.agreed.values())}.")

# %% tags=["check"]
assert (report.total, standard.total) == (459_776, 1_179_648)
