# %% [markdown]
# # 10 Reading a real kernel, without a GPU
#
# **Question.** iosim counts what a *listing* moves on a *model* of two memories. Why should a real program for a GPU move the same? And how
# would one find out on a computer that has no GPU?
#
# Words as before: **N** queries and keys of **d** numbers; a **word** is one stored number. This notebook runs everywhere. One
# cell measures the real kernel and needs Numba and NVIDIA's compiler; where these are missing it says what to install, and the rest goes
# on.

# %%
# %matplotlib inline
import inspect
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import iosim_gpu
from iosim import simulate
from iosim.errors import BadInput
from iosim.kernels.flash2 import flash2
from iosim.plots.figures import INK, QUIET
from iosim_gpu import environment
from iosim_gpu.case import Case
from iosim_gpu.check import compare
from iosim_gpu.children import measure
from iosim_gpu.defaults import cases
from iosim_gpu.ptx import KernelFault, emulate
from iosim_gpu.ptx.text import kernel_text
from iosim_gpu.steps import STEPS
from iosim_gpu.wire import Job

# %% [markdown]
# ## How CUDA sees the two memories
#
# A CUDA program runs one function, the **kernel**, in many **threads** at a time. Threads come in **thread blocks**. The threads of a block
# share a piece of **shared memory**, which lies on the chip: our SRAM. All threads of all blocks see **global memory**, which is HBM
# (behind a cache, of which more below). A thread knows its number `threadIdx` in its block, and the number `blockIdx` of its block.
#
# Two things become hardware. The outer loop of the listing, over query tiles, is the grid of blocks: block i works on tile i, and many run
# at once. And every operation on a tile is shared out among the threads of the block.
#
# Here is FlashAttention-2 in iosim's language; `m.load` and `m.store` move words.

# %%
listing = inspect.getsource(flash2)
print(listing[listing.index("    for i in m.tiles(N_q, Br)") :])

# %% [markdown]
# And here is the same in CUDA, written in Python with Numba: the file `flash2.py` of `iosim_gpu`, from the kernel on. `Br`, `Bc`, `d` and
# `T`, the number of threads of a block, are constants. `load_tile`, `zero_tile` and `score_tile` are functions of their own (in
# `tiles.py`). Do not read it line by line yet.

# %%
FOLDER = Path(iosim_gpu.__file__).parent / "kernels"
cuda = (FOLDER / "flash2.py").read_text(encoding="utf-8").replace("  # type: ignore[no-untyped-def]", "")
print(cuda[cuda.index("    def flash2(") : cuda.index("    return flash2")])

# %% [markdown]
# Line by line they are the same algorithm. The next cell looks up pairs of lines in both texts, and fails if one of them is not there any
# more.

# %%
PAIRS = {
    "one query tile": ("for i in m.tiles(N_q, Br):", "i0 = cuda.blockIdx.x * Br"),
    "load Q_i": ("q = m.load(Q[i])", "load_tile(Q, head, i0, rows, q, t, n, Q_LOADS)"),
    "O_i = 0, on chip": ('o = m.full(0.0, i.size, d_v, name="O_i")', "zero_tile(o, rows, t)"),
    "the key tiles": ("for j in m.tiles(N_k, Bc, seen=mask.grid.row(i)):", "for j0 in range(0, end, Bc):"),
    "load K_j, V_j": ("k, v = m.load(K[j]), m.load(V[j])", "load_tile(K, head, j0, cols, k, t, n, K_LOADS)"),
    "S_ij": ("s = scores(m, q, k, i, j, scale, mask)", "score_tile(q, k, s, rows, cols, scale, i0 + ahead - j0, t)"),
    "the old part": ("alpha = m.let(exp(m_i - m_new)", "alpha[r] = math.exp(m[r] - m_new)"),
    "O_i += P V": ("o += dropped(m, s, i, j, mask) @ v", "acc += s[r * CP + c] * v[c * DP + x]"),
    "store O_i": ("m.store(O[i], o / nonzero(l_i))", "O[head, i0 + r, x] = o[r * DP + x] / total"),
    "store LSE": ("m.store(LSE[i], m_i + log(l_i))", "LSE[head, i0 + r] = lse"),
}
for what, (ours, theirs) in PAIRS.items():
    assert ours in listing
    assert theirs in cuda
    print(f"{what:<17} listing  {ours}\n{'':<17} CUDA     {theirs}\n")

# %% [markdown]
# Three things are only in CUDA.
#
# - `syncthreads()` is a **barrier**: no thread goes on before all of its block have come there. Otherwise one would multiply with a
#   tile that another has not finished loading.
# - `rows` and `cols` cut the last tile, and indices are computed by hand.
# - `n[...] += 1` counts, and is compiled away unless it is asked for.
#
# ## A prediction
#
# Take N_q = 37 queries, N_k = 29 keys and d = 16, in tiles of 8 x 12: nothing divides anything. **Write down**: how many elements of K
# does the whole grid read from global memory? How many of O does it write?

# %%
case = Case("flash2", n=37, nk=29, d=16, rows=8, cols=12, threads=24)
model = simulate("flash2", case.problem, sram=100_000, blocks=case.blocks)
predicted = case.predicted()
print(f"{'array':<6} {'closed form':>11} {'listing, run':>12}")
for name, moved in predicted.items():
    print(f"{name:<6} {moved.reads + moved.writes:>11,} {model.arrays[name].reads + model.arrays[name].writes:>12,}")

# %% tags=["check"]
tiles = -(-37 // 8)
assert {name: (moved.reads, moved.writes) for name, moved in predicted.items()} == {
    "Q": (37 * 16, 0),
    "K": (tiles * 29 * 16, 0),
    "V": (tiles * 29 * 16, 0),
    "O": (0, 37 * 16),
    "LSE": (0, 37),
}
assert {name: (array.reads, array.writes) for name, array in model.arrays.items()} == {
    name: (moved.reads, moved.writes) for name, moved in predicted.items()
}
assert model.sound

# %% [markdown]
# Five thread blocks, and each reads all of K: $T_r N_k d$ with $T_r = \lceil 37/8 \rceil = 5$. That is what the CUDA kernel *should* do.
# Does it?
#
# ## Who loads what
#
# One function moves nearly all of it. This is `load_tile`:

# %%
text = (FOLDER / "tiles.py").read_text(encoding="utf-8").replace("  # type: ignore[no-untyped-def]", "")
start = text.index("    def load_tile(")
print(text[start : text.index("    return load_tile")])

# %% [markdown]
# Element e of the tile is loaded by thread e mod T. **Predict**: with 24 threads and a tile of 8 rows of 16 elements, how many elements
# does thread 0 load, and how many thread 23?

# %%
e = np.arange(8 * 16)
owner = (e % 24).reshape(8, 16)
print(f"thread 0 loads {(owner == 0).sum()} elements, thread 23 {(owner == 23).sum()}; together {owner.size}, each element once")

_, axes = plt.subplots(figsize=(8.4, 3.6))
axes.pcolormesh(owner, cmap="viridis_r", edgecolors="white", linewidth=1)
for (row, col), thread in np.ndenumerate(owner):
    axes.text(col + 0.5, row + 0.5, f"{thread}", ha="center", va="center", fontsize=8, color="white" if thread > 11 else INK)
axes.invert_yaxis()
axes.set(xlabel="column of the tile (x)", ylabel="row of the tile", xticks=np.arange(0, 17, 4), yticks=np.arange(0, 9, 2))
axes.set_title("The thread that loads each element of Q_i", loc="left", fontsize=11, fontweight="bold", color=INK)
axes.tick_params(colors=QUIET)

# %% tags=["check"]
assert ((owner == 0).sum(), (owner == 23).sum()) == (6, 5)

# %% [markdown]
# Neighbouring threads load neighbouring elements. That matters to the hardware, which moves 32 bytes at a time, a **sector**: 8 float32.
# When the 32 threads of a **warp**, which run in step, ask for neighbours, their requests share sectors.
#
# ## Three meters
#
# One can look at a kernel in three ways without a GPU, and no two of them share code that counts.
#
# - The **simulator** runs the kernel's source, unchanged, in Python, on arrays that count each access. It proves what the source says, and
#   cannot see what a compiler makes of it.
# - The **counters** are the `n[...] += 1` of the kernel. They prove that its author understood it, and are the only ones that could run
#   on a GPU too. A counter may stand in the wrong place; the two others find that out.
# - The **emulator** executes the compiled code, instruction by instruction. It proves that nothing was loaded twice, spilled or left out.
#   It sees no caches, and not the last step to machine code.
#
# Each alone can be wrong. Together with the closed form and the listing they make five numbers for every array; they must be
# equal, to the element.
#
# ## The emulator, on a kernel that you can read
#
# NVIDIA's compiler turns a kernel into **PTX**, an assembly language with as many registers as one likes. Our kernel has thousands of lines
# of it. Here is one by hand, with the loop that matters: each block passes over all of K, thread t taking elements t, t + T, t + 2T, ...
# It adds them up, and each thread stores its sum in R.

# %%
BODY = """
    mov.u32 %r0, %tid.x;                // e = t
    mov.u32 %r1, %ntid.x;               // T
    mov.u32 %r2, %ctaid.x;              // number of the block
    mad.lo.s32 %r3, %r2, %r1, %r0;      // number of the thread in the grid
    mov.f32 %f0, 0f00000000;            // sum = 0
$L__BB0_1:
    setp.ge.u32 %p0, %r0, %n;           // e >= n?
    @%p0 bra $L__BB0_3;                 // then leave the loop
    mul.wide.u32 %rd0, %r0, 4;          // 4 bytes a word
    add.s64 %rd1, %K, %rd0;
    ld.global.f32 %f1, [%rd1];          // K[e] from global memory
    add.f32 %f0, %f0, %f1;              // sum += K[e]
    add.s32 %r0, %r0, %r1;              // e += T
    bra.uni $L__BB0_1;
$L__BB0_3:
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %R, %rd2;
    st.global.f32 [%rd3], %f0;          // R[thread] = sum
"""


def launch(body, n, blocks=tiles, threads=24):
    """Run a kernel by hand on K of the case; what it moved, and the sums."""
    bare = "\n".join(line.partition("//")[0] for line in body.splitlines())
    K, R = np.arange(29 * 16, dtype=np.float32), np.zeros(blocks * threads, np.float32)
    ptx = kernel_text(bare, arrays=["K", "R"], scalars={"n": "u32"})
    ran = emulate(ptx, grid=(blocks, 1), threads=threads, args=[("K", K), ("R", R), ("n", n)])
    return ran.arrays, R, K


print(BODY)

# %% [markdown]
# **Predict** the number of loads of K with 5 blocks, and of sectors (32 bytes, counted for each warp and each time).

# %%
moved, R, K = launch(BODY, n=29 * 16)
print(f"K: {moved['K'].loads:,} loads in {moved['K'].load_sectors} sectors; R: {moved['R'].stores} stores")
print(f"the closed form says {predicted['K'].reads:,}; the sums add up to {R.sum():,.0f}, five times {K.sum():,.0f}")

# %% tags=["check"]
assert moved["K"].loads == predicted["K"].reads == 2320
assert moved["K"].load_sectors * 32 == 4 * moved["K"].loads
assert R.sum() == tiles * K.sum()

# %% [markdown]
# The emulated loads equal the closed form's $T_r N_k d$, and no byte of a sector is wasted. (The emulator counts by address: it knows
# nothing of loops.)
#
# Now let us spoil it. One kernel loads each element twice, another takes the elements in another order, and the third launch asks for one
# element more than there is. **Predict** which of them still give the right sum, and which of them a meter of elements notices.

# %%
twice = BODY.replace("ld.global.f32 %f1, [%rd1];", "ld.global.f32 %f1, [%rd1]; ld.global.f32 %f1, [%rd1];")
spread = BODY.replace("mul.wide.u32 %rd0, %r0, 4;", "mul.lo.s32 %r4, %r0, 19; rem.u32 %r4, %r4, %n; mul.wide.u32 %rd0, %r4, 4;")
for name, body in (("as it was", BODY), ("each element loaded twice", twice), ("elements in another order", spread)):
    found, sums, K = launch(body, n=29 * 16)
    right = "right" if sums.sum() == tiles * K.sum() else "WRONG"
    print(f"{name:<26} sum {right}, {found['K'].loads:>5,} loads in {found['K'].load_sectors:>5,} sectors")
try:
    launch(BODY, n=29 * 16 + 1)
except KernelFault as fault:
    print(f"one element too many: {fault}")

# %% tags=["check"]
doubled, _, _ = launch(twice, n=29 * 16)
shuffled, sums, _ = launch(spread, n=29 * 16)
assert doubled["K"].loads == 2 * predicted["K"].reads
assert shuffled["K"].loads == predicted["K"].reads
assert shuffled["K"].load_sectors == 8 * moved["K"].load_sectors
assert sums.sum() == tiles * K.sum()

# %% [markdown]
# The first two compute the right thing, and a test of values would never notice them. Loading twice doubles the count. Another order of
# the same elements does not change the number of words, which is what iosim counts, but takes eight times the sectors: the model's words
# are the hardware's bytes only if neighbours load neighbours. And what leaves its array is a fault, where a GPU might say nothing.
#
# ## The real kernel
#
# Now the real thing: the CUDA source above, under all three meters, each in a process of its own. This needs Numba. **Predict**: by how
# many elements of 5,861 will the three differ from the closed form?

# %%
try:
    environment.installed()
    environment.needs("compile")
except BadInput as missing:
    rows = []
    print(missing)
    print("Without it, this is what the meters are held against:")
    for name, asked in predicted.items():
        print(f"   {name:<4} {asked.reads:>6,} read, {asked.writes:>5,} written")
else:
    jobs = [Job(meter, case) for meter in ("simulator", "counters", "emulator")]
    rows = [row for job, measured in measure(jobs) for row in compare(job.case, measured)]
    for row in rows:
        measured = (
            f"{row.measured_reads:>6,} of {row.predicted_reads:>6,} read, {row.measured_writes:>4,} of {row.predicted_writes:>4,} written"
        )
        print(f"{row.meter:<10} {row.array:<4} {measured}: {'equal' if row.equal else 'DIFFERS'}")

# %% tags=["check"]
assert sum(asked.reads + asked.writes for asked in predicted.values()) == 5861
assert all(row.sound for row in rows)
assert len(rows) in (0, 3 * len(predicted))
assert len(cases()) == 29

# %% [markdown]
# By none, where they can run. `iosim gpu check` does the same for five kernels, causal and ragged, with several heads, forward and
# backward: 29 cases under three meters.
#
# ## The room on chip
#
# The listing's tiles take room in SRAM; the kernel's are in shared memory. **Predict** whether the kernel needs more or less than the model
# charges. Hint: a tile of d columns has d + 1 in CUDA, which keeps its columns in different *banks* of the shared memory.

# %%
(step,) = STEPS["flash2"]
there, here = step.shared_bytes(case.tiling) // 4, model.peak_sram
padding = 2 * case.rows + 2 * case.cols + case.rows
print(f"model: {here} words; kernel: {there} words, of which {padding} are padding")
print(f"the rest: {there - padding} words, {here - there + padding} fewer: m_new is a register of its thread, and no column on chip")

# %% tags=["check"]
assert (here, there, padding) == (768, 808, 48)
assert here - (there - padding) == case.rows

# %% [markdown]
# ## What no meter here has seen
#
# - **A GPU.** Nothing in this notebook ran on one.
# - **The L2 cache.** Five blocks that read the same K ask global memory five times; a GPU may answer four of them from its L2 cache,
#   without HBM. Word counts are what is *requested*. They become HBM traffic where K and V of all heads are larger than that cache.
# - **Time.** Words say what must move, and not how long it takes.
#
# The numbers are exact for what they are: elements that a kernel asks global memory for. That is what the algorithm decides.
#
# ## Another shape
#
# The closed form holds for any shape; here it is beside the listing. With ipywidgets the second cell makes sliders; without, change its
# numbers and run it again.


# %%
def tell(n=100, nk=100, rows=16, cols=32):
    """What a grid of flash2 asks of global memory."""
    asked = Case("flash2", n=n, nk=nk, d=16, rows=rows, cols=cols, threads=32).predicted()
    again = simulate("flash2", Case("flash2", n, 16, rows, cols, 32, nk=nk).problem, sram=10**6, blocks=(rows, cols), execute=False)
    words = sum(array.reads + array.writes for array in asked.values())
    print(f"{-(-n // rows)} thread blocks, K is read {asked['K'].reads // (nk * 16)} times, {words:,} words; the listing: {again.total:,}")


tell()

# %%
try:
    from ipywidgets import interact
except ImportError:
    tell(n=1000, nk=500)
else:
    interact(tell, n=(1, 500), nk=(1, 500), rows=(1, 64), cols=(1, 64))

# %% [markdown]
# ## Exercise
#
# A model that writes text asks with one query at a time: one query tile, so one thread block, and the rest of the GPU has nothing to do.
# Exercise 13, `decoding`: split the keys among several blocks, then merge their parts. The file is made by
# `iosim exercise start decoding`.
#
# ## Summary

# %%
total = sum(asked.reads + asked.writes for asked in predicted.values())
meters = len({row.meter for row in rows if row.equal})
held = f"{meters} meters of the real kernel agree" if rows else "no meter of the real kernel could run here"
print(f"1. {case.name}: the closed form and the listing say {total:,} elements; {held}.")
print(f"2. On a small kernel the emulator counts {moved['K'].loads:,} loads of K, T_r N_k d; loaded twice, {doubled['K'].loads:,}.")
wider = shuffled["K"].load_sectors // moved["K"].load_sectors
print(f"3. Words are not sectors: the same {shuffled['K'].loads:,} loads in another order take {wider} times as many.")

# %% tags=["check"]
assert total == model.total == 5861
assert all(row.equal for row in rows)
