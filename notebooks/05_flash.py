# %% [markdown]
# # 5 FlashAttention, line by line
#
# **Question.** Standard attention moves $4N^2$ words because its three steps are apart: the scores S and the weights P go to the slow
# memory and come back (notebook 4). Can the steps become one, a tile at a time, so that S and P never leave the chip, and the result is
# still exact?
#
# The softmax seems to forbid it: it divides by a sum over a whole row. Notebook 2 has the way out, three numbers a row that are put right
# whenever more of the row is seen. This notebook puts it to work. There are five questions at its end.
#
# `simulate`, `Attention` and `bars` are those of notebook 4, and `safe` is the safe softmax of notebook 2. `output_bound` says how far
# rounding may take O from the exact result.

# %%
# %matplotlib inline
import inspect
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from IPython import display as shown

from iosim import Attention, simulate, trace
from iosim.attention.kernels.flash import flash
from iosim.memory import exp, maximum
from iosim.show.plots import bars
from iosim.show.plots.figures import GRID, INK, QUIET, bare, style
from iosim_reference.bounds import output_bound
from iosim_reference.softmax import safe

# %% [markdown]
# ## The symbols
#
# Q, K, V and O are matrices of **N** rows and **d** columns: queries, keys, values, and the result. They are cut into tiles: $Q_i$ and
# $O_i$ have **Br** rows, $K_j$ and $V_j$ have **Bc**. There are Tr = N / Br tiles of queries and **Tc** = N / Bc tiles of keys, rounded
# up.
#
# A *score* says how well a query matches a key: the product of their rows, times $1/\sqrt d$. (A tilde, as in $\tilde m$, will mark what
# belongs to one tile alone, and a prime, as in $m'$, what is new.) For each query we keep what it has seen so far:
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
# Here is the listing for one query, in plain NumPy, with every number printed: a row of the table for each line of the listing, and `m~`
# is $\tilde m$.


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
print("     ", "".join(f"{f'tile {j}':>20}" for j in range(len(by_hand))))
for name in by_hand[0]:
    numbers = [" ".join(f"{number:.4f}" for number in np.atleast_1d(one[name])) for one in by_hand]
    print(f"{name:>5} ", "".join(f"{text:>20}" for text in numbers))

# %% [markdown]
# Tile 0: m = 0, l = 2, O = (1 + 3)/2 = 2. Tile 1 brings ln 3 = 1.0986, so that the old sums count for a = $e^{0 - \ln 3}$ = 1/3 of what
# they did: l = 2/3 + 4/3 = 2, and the sum is 4/3 + 32/3 = 12, whose mean is 6.
#
# With all four scores at hand, the softmax gives the same:

# %%
weights = safe(scores)
print(f"{weights.round(4)} @ {values} = {weights @ values:.4f}")

# %% tags=["check"]
hand = np.array([[one["m"], one["l"], one["O"]] for one in by_hand])
# A dozen operations, each with an error of up to 2^-53 of its result, which is at most 12.
assert np.allclose(hand, [[0, 2, 2], [np.log(3), 2, 6]], rtol=0, atol=16 * 2.0**-53 * 12)
assert np.allclose([by_hand[1]["a"], by_hand[1]["b"]], [1 / 3, 1], rtol=0, atol=16 * 2.0**-53)
assert abs(weights @ values - 6) < 16 * 2.0**-53 * 11

# %% [markdown]
# The factor *a* is where implementations go wrong. **Before you run it**: what would O be with the inverse factor, with none, and with
# one on the sum of values but not on l? (The numbers of both tiles stand in the table above, and b is 1.)

# %%
(l_0, sum_0), (l_1, sum_1) = [(one["l~"], one["P~V"]) for one in by_hand]
a = by_hand[1]["a"]
factors = {"right": (a, a), "inverse": (1 / a, 1 / a), "none": (1, 1), "l forgotten": (a, 1)}
mistaken = {name: (on_sum * sum_0 + sum_1) / (on_l * l_0 + l_1) for name, (on_sum, on_l) in factors.items()}
for name, result in mistaken.items():
    print(f"{name:<12} O = {result:.4f}")

# %% tags=["check"]
assert abs(mistaken["right"] - 6) < 16 * 2.0**-53 * 12
assert all(1 < result < 11 and abs(result - 6) > 1 for name, result in mistaken.items() if name != "right")

# %% [markdown]
# All of them look plausible: they lie between the smallest value and the largest. None but the first is the result.
#
# ## Many queries: who waits where
#
# FlashAttention runs over the tiles of keys outside, and over the tiles of queries inside. While the keys of one tile stand on chip,
# every query passes by; m, l and O of a query wait in HBM until the next tile of keys. This is the listing that iosim runs. `m.load` and
# `m.store` are the only ways between the two memories; whatever is made by `m.full` or `m.let` has room on chip until its loop takes the
# next turn. (In the listing `m` is the machine, and `L` and `M` are the arrays in HBM where l and m wait. Everywhere else in this notebook,
# M is the number of words that the SRAM holds.)

# %%
print(inspect.getsource(flash).replace(f'    """{flash.__doc__}"""\n', ""))  # without its description

# %% [markdown]
# Read it beside the formulas. `N_q` and `N_k` are the numbers of queries and keys, here both N. `write_zeros` fills O and l with 0 and m
# with $-\infty$. `j` is a tile of keys and `i` one of queries. `scores` makes their tile of S, times `scale`, on chip. `m_i` and `l_i` are
# m and l of the queries; `m_t` is $\tilde m$, `s` becomes $\tilde P$ in its place, `l_t` is $\tilde l$; `m_new` and `l_new` are $m'$ and
# $l'$. S is used, and gone with the turn.
#
# You may pass over the rest. `first_pass`, `create`, `i.first`, `i.last` and `O_acc` are for a variant; here `create` is false and `O_acc`
# is O. `mask`, `seen`, `skip_empty`, `finite` and `nonzero` are for pairs that may not attend, and `dropped` is for dropout, a trick of
# training; here all pairs attend.
#
# Now our four keys on the machine. `nk` is the number of keys where it is not n, `scale=1.0` leaves the scores as they are, and
# `dtype="float64"` computes in 64 bits. `inputs` are Q, K and V; without them `simulate` draws numbers at random. `blocks=(Br, Bc)` says
# how to cut, and `sram=64` is M: a bare number counts words. **LSE** ("log of the sum of exponentials") is $m + \ln l$, the one number that
# m and l amount to.


# %%
def on_machine(scores, values, Bc):
    """FlashAttention of one query 1 and keys s: their products are the scores."""
    q, k, v = np.ones((1, 1)), scores[:, None], values[:, None]
    problem = Attention(n=1, d=1, nk=len(scores), scale=1.0, dtype="float64")
    return simulate("flash", problem, sram=64, blocks=(1, Bc), inputs=(q, k, v))


hand_run = on_machine(scores, values, Bc=2)
lse_by_hand = by_hand[-1]["m"] + np.log(by_hand[-1]["l"])
print(f"machine: O = {hand_run.output.item():.6f}, LSE     = {hand_run.lse.item():.6f}")
print(f"by hand: O = {by_hand[-1]['O']:.6f}, m + ln l = {lse_by_hand:.6f} = ln 3 + ln 2 = ln 6 = {np.log(6):.6f}")

# %% tags=["check"]
assert hand_run.sound
assert abs(hand_run.output.item() - 6) < 16 * 2.0**-53 * 11
assert abs(hand_run.lse.item() - np.log(6)) < 16 * 2.0**-53 * np.log(6)

# %% [markdown]
# ## O is right after every tile
#
# Stop after any tile of keys: O is *exact* attention to the keys seen so far (the paper proves it in its Theorem 1). To see it, run the
# machine on the first keys only, and set the result beside the softmax over those keys. 48 queries, 64 keys, d = 8, tiles of 16; the table
# shows one element of O, and m and l of its query by the NumPy listing above. All numbers are random.

# %%
rng = np.random.default_rng(7)
q, k, v = rng.normal(size=(48, 8)), rng.normal(size=(64, 8)), rng.normal(size=(64, 8))


def first_keys(seen):
    """O of the machine for the first keys, and the softmax over those keys."""
    problem = Attention(n=48, d=8, nk=seen, dtype="float64")
    run = simulate("flash", problem, sram=1024, blocks=(16, 16), inputs=(q, k[:seen], v[:seen]))
    return run.output, safe(q @ k[:seen].T / np.sqrt(8)) @ v[:seen]


apart, kept = {}, list(steps(q[0] @ k.T / np.sqrt(8), v[:, 0], Bc=16))
print("keys seen   m of query 0   l of query 0    O[0, 0]   softmax over the keys seen")
for seen, one in zip((16, 32, 48, 64), kept, strict=True):
    O, exact = first_keys(seen)
    apart[seen] = np.abs(O - exact).max()
    print(f"{seen:>9}   {one['m']:>12.6f}   {one['l']:>12.6f}   {O[0, 0]:>8.5f}   {exact[0, 0]:>8.5f}")
print(f"largest difference in all of O: {max(apart.values()):.1e}")

# %% tags=["check"]
S = q @ k.T / np.sqrt(8)
rounding = output_bound(np.abs(S).max(), nk=64, bc=16, max_v=np.abs(v).max(), dtype="float64")
assert max(apart.values()) < rounding
assert all(after["m"] >= before["m"] for before, after in pairwise(kept))

# %% [markdown]
# m never falls. l need not grow, for it is relative to m: by hand it stayed at 2. And O is a result at every line.
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
# the row *of which init*.) l and m have one number a query, all others d. With N for all of them:
#
# $$\underbrace{2Nd}_{K, V} + T_c\,(\underbrace{3Nd}_{Q, O, O} + \underbrace{4N}_{l, l, m, m}) + \underbrace{Nd + 2N}_{\text{init}}$$
#
# *counts* says three things, as in notebook 4. *executed*: the run with real numbers, tile after tile, moved these words. *predicted*: so
# says this formula, from a module that never sees the listing. *replayed*: so says a recount of the run's events. All are exact integers.

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
assert Tc == 8
assert report.total == 2 * N * d + Tc * (3 * N * d + 4 * N) + N * d + 2 * N
assert report.agreed == {"executed": True, "predicted": True, "replayed": True}
assert report.sound

# %% [markdown]
# ## S and P are gone
#
# The same problem by standard attention, and by FlashAttention:

# %%
standard = simulate("standard", problem, sram=16384)
for run in (standard, report):
    print(f"{run.kernel:<8} {run.total:>9,} words, {run.flops.matmul:,} flops in products", end="")
    print(f", {run.peak_hbm:>7,} words of HBM")
print(f"largest difference of O: {np.abs(standard.output - report.output).max():.1e}")
bars([standard, report])

# %% tags=["check"]
assert set(standard.arrays) - set(report.arrays) == {"S", "P"}
assert report.flops.matmul == standard.flops.matmul == 4 * N * N * d
assert report.total < standard.total
assert standard.sound

# %% [markdown]
# No multiplication was saved. The words were.
#
# ## Inside the SRAM
#
# The machine tells what it does, event by event, and `trace` lists the events. Each says what happened (`kind`), to which array (`name`),
# to how many words, and how many words of SRAM are occupied afterwards (`sram`). `load` and `store` you know; `init` is a store that only
# fills. `alloc` gives room to what is made on chip, and `begin` and `end` bracket each turn of a loop. Left out are `input` and `output`,
# which declare arrays, and `use`, which says that something on chip is computed with.
#
# The picture shows how much of the SRAM is occupied while a small problem runs, N = 32 in tiles of 8: four tiles of keys, and in each four
# tiles of queries.

# %%
small = Attention(n=32, d=4)
listed = trace("flash", small, sram=256, blocks=(8, 8))
events = [event for event in listed if event.kind not in ("input", "output", "use")]
moved = np.cumsum([event.words if event.kind in ("load", "store", "init") else 0 for event in events])
figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True, layout="constrained")
top.step(range(len(events)), [event.sram for event in events], where="post", color=style("flash").colour)
top.axhline(256, color=INK, linestyle="--")
top.text(2, 246, "M = 256", fontsize=9, va="top")
top.set_ylabel("SRAM in use (words)")
for place, event in enumerate(events):
    if event.kind == "load" and event.name == "K":
        top.axvline(place, color=GRID, zorder=0)
        top.text(place + 2, 3, "next K, V", fontsize=9, color=QUIET)
bottom.plot(moved, color=style("flash").colour)
bottom.set_ylabel("words moved so far")
bottom.set_xlabel("events of the run")
top.set_title("Tiles come and go: the SRAM fills and empties", loc="left", fontsize=11, fontweight="bold", color=INK)
for axes in (top, bottom):
    bare(axes)

# %% tags=["check"]
run = simulate("flash", small, sram=256, blocks=(8, 8))
assert moved[-1] == run.total
assert max(event.sram for event in events) == run.peak_sram <= 256

# %% [markdown]
# The four steps at the left fill O, l and m in HBM. Then each tile of keys stays (the base line), and each tile of queries passes by (the
# peaks). What would the peak be for longer sequences, in the same tiles? **Predict.**

# %%
peaks = {}
for n in (32, 64, 128):
    longer = simulate("flash", Attention(n=n, d=4), sram=256, blocks=(8, 8))
    peaks[n] = longer.peak_sram
    print(f"N = {n:>3}: {longer.total:>6,} words moved, at most {peaks[n]} on chip")

# %% tags=["check"]
assert set(peaks.values()) == {run.peak_sram}

# %% [markdown]
# The same: the peak depends on the tiles and on d, not on N.
#
# ## Taller tiles
#
# What passes by is read Tc = N / Bc times. **Predict**: which arrays move fewer words when Bc doubles? By how much do all words fall?
#
# `execute=False` and `replay=False` count only, without real numbers and without the recount; $2^{18}$ words of SRAM are room for all.


# %%
def tell(N=512, d=32, Bc=64):
    """What FlashAttention moves in tiles of 64 queries and Bc keys."""
    run = simulate("flash", Attention(n=N, d=d), sram=2**18, blocks=(64, Bc), execute=False, replay=False)
    print(f"N = {N:,}, d = {d}, Bc = {Bc}: {run.total:,} words, peak SRAM {run.peak_sram:,} words")
    print("    " + ", ".join(f"{name} {array.reads + array.writes:,}" for name, array in run.arrays.items()))
    return run


taller = [tell(Bc=tall) for tall in (32, 64, 128)]
for before, after in pairwise(taller):
    print(f"from Bc = {before.blocks.cols} to {after.blocks.cols}: {after.total / before.total:.3f} times the words")

# %% tags=["check"]
for before, after in pairwise(taller):
    fewer = [name for name in after.arrays if after.arrays[name] != before.arrays[name]]
    assert fewer == ["Q", "O", "l", "m"]
    assert 0.5 < after.total / before.total < 0.56
    assert after.peak_sram > before.peak_sram

# %% [markdown]
# A little more than half remain. Q, O, l and m move half as often; K, V and the filling at the start do as before. The price is room on
# chip. How large a tile can be, and what that makes of the words, is notebook 6.
#
# With ipywidgets (notebook 1) the next cell makes sliders; without, change the numbers and run it again.

# %%
try:
    from ipywidgets import interact
except ImportError:
    tell(N=1024, d=64, Bc=128)
else:
    interact(lambda N, d, Bc: tell(N, d, Bc) and None, N=(64, 2048, 64), d=(8, 128, 8), Bc=(16, 256, 16))

# %% [markdown]
# ## A listing of your own
#
# Must O be put right at all? If m of a query were known from the start, nothing would change later. The next listing goes over the keys
# twice: once to find m, once to sum l and O. Queries are outside, so that O never waits in HBM. It is a function of the machine `m`, of the
# arrays that its parameters name, and of what is asked for by keyword. **Predict**: how often is each array read, or written? Does it move
# fewer words than FlashAttention?


# %%
def two_pass(m, Q, K, V, O, *, Br, Bc, scale):
    """The largest scores first, so that nothing is put right later."""
    for i in m.tiles(Q.shape[0], Br):
        q, o = m.load(Q[i]), m.full(0.0, i.size, V.shape[1], name="O_i")
        l, top = m.full(0.0, i.size, 1, name="l_i"), m.full(-np.inf, i.size, 1, name="m_i")
        for j in m.tiles(K.shape[0], Bc):
            top[...] = maximum(top, (scale * (q @ m.load(K[j]).T)).rowmax())
        for j in m.tiles(K.shape[0], Bc):
            p = m.let(exp(scale * (q @ m.load(K[j]).T) - top), "P_ij")
            l += p.rowsum()
            o += p @ m.load(V[j])
        m.store(O[i], o / l)


mine = simulate(two_pass, problem, sram=16384, blocks=(Br, Bc))
flash2 = simulate("flash2", problem, sram=16384, blocks=(Br, Bc))
for run in (report, mine, flash2):
    print(f"{run.kernel:<8} {run.total:>9,} words, sound: {run.sound}")
bars([report, mine, flash2])

# %% tags=["check"]
Tr = -(-N // Br)
assert (mine.arrays["K"].reads, mine.arrays["V"].reads) == (2 * Tr * N * d, Tr * N * d)
assert mine.arrays["Q"].reads == mine.arrays["O"].writes == N * d
assert flash2.total < mine.total < report.total
assert mine.arrays["K"].reads == 2 * flash2.arrays["K"].reads
assert mine.sound

# %% [markdown]
# Q and O cross once, V once and K twice for each tile of queries. That is fewer words than FlashAttention moves here. FlashAttention-2 has
# the same loops in one pass: it puts l and O right on chip, and reads K half as often. Your listing was held against exact attention and
# recounted like ours. `iosim run mine.py:two_pass` does the same with a file, and `iosim trace mine.py:two_pass --html page.html` plays it.
#
# ## Five questions
#
# All of them can be answered from what you saw. Write your answers down.
#
# 1. A query has the scores 0, ln 2 and ln 4, 0 in two tiles; the values are 2, 5 and 1, 4. What are m, l and O after each tile?
# 2. N = 2,048, d = 64, Br = 64, Bc = 128: how many words does FlashAttention move, the filling of O, l and m included?
# 3. In question 2, Bc becomes 256. Which arrays move fewer words, and what is the new total?
# 4. In question 2, N doubles. How do the words of S and P grow that cross between the memories, and how does the peak of the SRAM?
# 5. The run of 48 queries and 64 keys above is stopped after two of its four tiles of keys. What does O hold?
#
# **The answers are below this line.** They are computed, and each stays shut until you open it. So do the cells that compute them, and the
# one that checks them: open those to see how it is done, after you have written. (A program that does not know folded cells shows their
# code; pass over it.)


# %% tags=["hide-input"] jupyter={"source_hidden": true}
# Answer 1 is computed here.
def answer(number, text):
    """One answer, to be opened."""
    shown.display(shown.HTML(f"<details><summary>Answer {number}</summary>{text}</details>"))


def state_of(one):
    """m, l and O after a tile, and the number of which m is the logarithm."""
    return f"m = {one['m']:.4f} (ln {np.exp(one['m']):.0f}), l = {one['l']:.4f}, O = {one['O']:.4f}"


new_scores, new_values = np.array([0.0, np.log(2), np.log(4), 0.0]), np.array([2.0, 5.0, 1.0, 4.0])
one, two = steps(new_scores, new_values, Bc=2)
checked = on_machine(new_scores, new_values, Bc=2).output.item()
answer(1, f"After tile 0: {state_of(one)}. Tile 1 has a = {two['a']:.4f}: {state_of(two)}. The machine says O = {checked:.4f}.")


# %% tags=["hide-input"] jupyter={"source_hidden": true}
# Answers 2, 3 and 4 are computed here.
def ask(N=2048, Bc=128):
    """The run of question 2, or one beside it."""
    return simulate("flash", Attention(n=N, d=64), sram=2**18, blocks=(64, Bc), execute=False)


def tiles(run):
    """Tc of a run."""
    return -(-run.problem.nk // run.blocks.cols)


def score_words(run):
    """The words of S and P that crossed."""
    return sum(array.reads + array.writes for name, array in run.arrays.items() if name in ("S", "P"))


def growth(before, after):
    """Whether a number grows, and from what to what."""
    how = "not at all" if before == after else f"by a factor of {after / before:.3f}" if before else "from nothing"
    return f"{how}, {before:,} words before and {after:,} after"


base, taller, longer = ask(), ask(Bc=256), ask(N=4096)
K, V, Q, O, l, m = (base.arrays[name] for name in "KVQOlm")
answer(
    2,
    f"Tc = {tiles(base)}. K and V once: {K.reads + V.reads:,}. Q: {Q.reads:,}. "
    f"O: {O.reads:,} read, {O.writes:,} written. "
    f"l and m: {l.reads + l.writes + m.reads + m.writes:,}. In all {base.total:,}.",
)
fewer = [name for name in base.arrays if taller.arrays[name] != base.arrays[name]]
times = taller.total / base.total
answer(3, f"{', '.join(fewer)}: Tc is {tiles(taller)} now. {taller.total:,} words, {times:.3f} times as many.")
answer(
    4,
    f"S and P: {growth(score_words(base), score_words(longer))}. The peak: {growth(base.peak_sram, longer.peak_sram)}.",
)

# %% tags=["hide-input"] jupyter={"source_hidden": true}
# Answer 5 is computed here.
stopped, _ = first_keys(2 * 16)
softmaxes = {
    f"the {which} {len(keys)} keys": safe(q @ k[keys].T / np.sqrt(8)) @ v[keys]
    for which, keys in (("first", range(16)), ("first", range(32)), ("last", range(32, 64)), ("first", range(48)), ("whole", range(64)))
}
away = {which: np.abs(stopped - result).max() for which, result in softmaxes.items()}
nearest = min(away, key=away.get)
said = "Exact attention" if away[nearest] < rounding else "Nothing of use, but nearest to it attention"
answer(
    5, f"{said} of all {len(stopped)} queries to {nearest}: largest difference {away[nearest]:.1e}, and rounding may make {rounding:.1e}."
)

# %% tags=["check", "hide-input"] jupyter={"source_hidden": true}
# The answers are checked here.
assert np.allclose([one["l"], one["O"], two["l"], two["O"]], [1.5, 4, 2, 2.5], rtol=0, atol=16 * 2.0**-53 * 5)
assert base.total == 2 * 2048 * 64 + 16 * (3 * 2048 * 64 + 4 * 2048) + 2048 * 64 + 2 * 2048
assert taller.total == 2 * 2048 * 64 + 8 * (3 * 2048 * 64 + 4 * 2048) + 2048 * 64 + 2 * 2048
assert fewer == ["Q", "O", "l", "m"]
assert score_words(base) == score_words(longer) == 0
assert score_words(standard) == 4 * N * N
assert base.peak_sram == longer.peak_sram
assert base.sound
assert taller.sound
assert longer.sound
assert away[nearest] < rounding < min(far for which, far in away.items() if which != nearest)
assert nearest == "the first 32 keys"
assert np.allclose([one["m"], two["m"], two["a"]], [np.log(2), np.log(4), 0.5], rtol=0, atol=8 * 2.0**-53)
assert abs(checked - 2.5) < 16 * 2.0**-53 * 5

# %% [markdown]
# ## Exercise
#
# Exercise 7, `flash`: write the listing yourself. The file is made by `iosim exercise start flash`.
#
# ## Summary

# %%
flops = report.flops.matmul
once, often = (report.arrays[name].reads // (N * d) for name in "KQ")
O_0, O_1 = hand[:, 2]
print(f"1. m, l and O are put right after each tile of keys: O = {O_0:.0f}, then {O_1:.0f}, exact each time.")
print(f"2. S and P stay on chip: {report.total:,} words, not {standard.total:,}, with the same {flops:,} flops.")
print(f"3. K and V are read {once} time; Q, O, l and m once for each of Tc tiles of keys, here {often} times.")

# %% tags=["check"]
assert (report.total, standard.total) == (459_776, 1_179_648)
assert (once, often) == (1, Tc)
