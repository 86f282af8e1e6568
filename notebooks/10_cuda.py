# %% [markdown]
# # 10 Reading a real kernel, without a GPU
#
# **Question.** iosim counts what a *listing* moves on a *model* of two memories. Why should a real program for a GPU move the same? And how
# would one find out on a computer that has no GPU?
#
# Words as before: **N_q** queries and **N_k** keys of **d** numbers, cut into tiles of **Br** queries and **Bc** keys; a **word** is one
# stored number. This notebook runs everywhere: NVIDIA's compiler made the code of the real kernel beforehand, and it is executed here on
# the CPU. Where Numba and that compiler are installed, two more meters measure the kernel's source, and the code is compiled anew. The
# output says what was run, and what was not.

# %%
# %matplotlib inline
import inspect
import re
from collections import Counter
from hashlib import sha256
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import iosim_gpu
from iosim import BadInput, simulate
from iosim.attention.kernels.flash2 import flash2
from iosim.show.plots.figures import INK, QUIET
from iosim_gpu import environment
from iosim_gpu.calls import calls, prepared
from iosim_gpu.case import Case
from iosim_gpu.check import compare
from iosim_gpu.children import measure
from iosim_gpu.compiling import instructions
from iosim_gpu.defaults import cases
from iosim_gpu.meters.emulator import moved as moved_of
from iosim_gpu.moved import Measured
from iosim_gpu.ptx import KernelFault, emulate
from iosim_gpu.ptx.counting import SECTOR, WARP
from iosim_gpu.ptx.text import kernel_text
from iosim_gpu.wire import Job

# %% [markdown]
# ## How CUDA sees the two memories
#
# A CUDA program runs one function, the **kernel**, in many **threads** at a time. Threads come in **thread blocks**. The threads of a block
# share a piece of **shared memory**, which lies on the chip: our SRAM. All threads of all blocks see **global memory**, which is HBM
# (behind a cache, of which more below). A thread knows its number `threadIdx` in its block, and the number `blockIdx` of its block.
#
# Two things become hardware. The outer loop of the listing, over query tiles, is the **grid** of blocks: block i works on tile i, and many
# run at once. And every operation on a tile is shared out among the threads of the block.
#
# Here is the loop of FlashAttention-2 in iosim's language ([notebook 5](05_flash.ipynb) reads its older brother line by line); `m.load` and
# `m.store` move words.

# %%
listing = inspect.getsource(flash2)
print(listing[listing.index("    for i in m.tiles(N_q, Br)") :])

# %% [markdown]
# And here is the same in CUDA, written in Python with Numba: the file `flash2.py` of `iosim_gpu`. We look at the parts that move words, and
# leave out the softmax between them. In these lines:
#
# - `t` is the number of the thread, `T` the number of threads of a block, `head` the number of the attention problem (here there is one);
# - `i0` and `j0` are the first row of the query tile and of the key tile, `rows` and `cols` how many rows they really have;
# - `q`, `k`, `v`, `s`, `o`, `m`, `l` lie in shared memory, and `DP` is the distance of two rows there: d + 1;
# - `load_tile`, `zero_tile` and `score_tile` are functions of their own, in `tiles.py`.

# %%
FOLDER = Path(iosim_gpu.__file__).parent / "kernels"


def function(file, name):
    """The text of a CUDA function in one of the files of iosim_gpu."""
    text = (FOLDER / file).read_text(encoding="utf-8").replace("  # type: ignore[no-untyped-def]", "")
    return text[text.index(f"    def {name}(") : text.index(f"    return {name}")].rstrip()


cuda = function("flash2.py", "kernel")
first, last = cuda.index("        load_tile(Q"), cuda.index("            for r in range(t, rows, T):\n                m_new")
print(cuda[first:last] + "            ...")
print(cuda[cuda.rindex("        for e in range(t, rows * d, T):") : cuda.index("        tell(")])

# %% [markdown]
# The next cell takes pairs of lines out of both texts. A check makes sure that all of them are still there, and that both texts have them
# in the same order: it is the same algorithm, step by step.

# %%
PAIRS = {
    "one query tile": ("for i in m.tiles(N_q, Br):", "cuda.blockIdx.x * Br"),
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
    print(f"{what:<17} listing  {ours}\n{'':<17} CUDA     {theirs}")

# %% tags=["check"]
for text, side in ((listing, 0), (cuda, 1)):
    found = [text.index(pair[side]) for pair in PAIRS.values()]
    assert found == sorted(found)

# %% [markdown]
# (LSE is $m + \ln l$, one number a row for the backward pass.) Three things are only in CUDA.
#
# - `syncthreads()` is a **barrier**: no thread goes on before all of its block have come there. Otherwise one would multiply with a
#   tile that another has not finished loading.
# - `rows` and `cols` cut the last tile, and indices are computed by hand.
# - `n[...] += 1` counts (`n` and names like `O_STORES` belong to it), and is compiled away unless it is asked for.
#
# ## A prediction
#
# Take $N_q$ = 37 queries, $N_k$ = 29 keys and d = 16, in tiles of Br x Bc = 8 x 12, with 24 threads a block: no tile divides the rows.
# **Write down**: how many thread blocks are there? How many elements of K does each of them read from global memory, and how many do all?
# How many of O do they write?
#
# A `Case` says all that; `predicted()` is the closed form, from a module that sees neither listing nor kernel.

# %%
case = Case("flash2", n=37, nk=29, d=16, rows=8, cols=12, threads=24)
model = simulate("flash2", case.problem, sram=100_000, blocks=case.blocks)
predicted = case.predicted()
print(f"{'array':<6} {'closed form':>11} {'listing, run':>12}")
for name, moved in predicted.items():
    print(f"{name:<6} {moved.reads + moved.writes:>11,} {model.arrays[name].reads + model.arrays[name].writes:>12,}")
print(f"{'in all':<6} {sum(moved.reads + moved.writes for moved in predicted.values()):>11,} {model.total:>12,}")

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
assert (tiles, predicted["K"].reads) == (5, 2320)

# %% [markdown]
# Five thread blocks, and each reads all of K: $T_r N_k d$ with $T_r = \lceil 37/8 \rceil = 5$, the number of query tiles. That is what
# the CUDA kernel *should* do. Does it?
#
# ## Who loads what
#
# One function moves nearly all of it. This is `load_tile`: `X` is the array in global memory, `x` the tile in shared memory.

# %%
print(function("tiles.py", "load_tile"))

# %% [markdown]
# Element e of the tile (row e // d, column e % d) is loaded by thread e mod T. **Predict**: with 24 threads and a tile of 8 rows of 16
# elements, how many elements does thread 0 load, and how many thread 23?

# %%
e = np.arange(8 * 16)
owner = (e % 24).reshape(8, 16)
print(f"thread 0 loads {(owner == 0).sum()} elements, thread 23 {(owner == 23).sum()}; together {owner.size}, each element once")

_, axes = plt.subplots(figsize=(9.4, 4.4))
axes.pcolormesh(owner, cmap="viridis_r", edgecolors="white", linewidth=1)
for (row, col), thread in np.ndenumerate(owner):
    axes.text(col + 0.5, row + 0.5, f"{thread}", ha="center", va="center", fontsize=10, color="white" if thread > 11 else INK)
axes.invert_yaxis()
axes.set(xlabel="column of the tile", ylabel="row of the tile", xticks=np.arange(0.5, 16), yticks=np.arange(0.5, 8))
axes.set(xticklabels=range(16), yticklabels=range(8))
axes.set_title("The thread that loads each element of Q_i", loc="left", fontsize=11, fontweight="bold", color=INK)
axes.tick_params(colors=QUIET, length=0)

# %% tags=["check"]
assert ((owner == 0).sum(), (owner == 23).sum()) == (6, 5)
assert (SECTOR, SECTOR // 4, WARP) == (32, 8, 32)  # as the emulator counts them

# %% [markdown]
# Neighbouring threads load neighbouring elements. That matters to the hardware, which moves 32 bytes at a time, a **sector**: 8 words of
# float32. Threads run in step, up to 32 of them, a **warp**. When the threads of a warp ask for neighbours, their requests share sectors.
#
# ## Three meters
#
# One can look at a kernel in three ways without a GPU, and no two of them share code that counts.
#
# - The **simulator** runs the kernel's source, unchanged, in Python, on arrays that count each access. It proves what the source says, and
#   cannot see what a compiler makes of it.
# - The **counters** are the `n[...] += 1` of the kernel. They prove that its author understood it, and are the only ones that could run
#   on a GPU too. A counter may stand in the wrong place; the two others find that out.
# - The **emulator** executes the compiled code, instruction by instruction, and counts by address. It proves that nothing was loaded twice,
#   left out, or put off to memory for want of registers. It sees no caches, and not the last step to machine code.
#
# Each alone can be wrong. Together with the closed form and the listing they make five numbers for every array; they must be
# equal, to the element. ([The CUDA kernels and their meters](../docs/gpu.md) says more on what each can and cannot see.)
#
# ## The emulator, on a kernel that you can read
#
# NVIDIA's compiler turns a kernel into **PTX**, an assembly language with as many registers as one likes: `%r0` holds a whole number,
# `%rd0` an address, `%f0` a float32, `%p0` yes or no. Our kernel has thousands of lines of it. Here is one by hand, with the loop that
# matters: each block passes over all of K, thread t taking elements t, t + T, t + 2T, ... It adds them up, and each thread stores its sum
# in R.
#
# `kernel_text` puts the head of a kernel around such lines: `%K` and `%R` are where the arrays begin, and `%n` is a number that is given at
# the launch. `emulate` runs all threads of all blocks, and says for each array what was loaded and stored.

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
# The emulated loads equal the closed form's $T_r N_k d$, and no byte of a sector is wasted.
#
# Now let us spoil it. One kernel loads each element twice. Another takes element 19e mod n in the place of e: all of them, in another
# order. And the third launch asks for one element more than there is. **Predict** which of them still give the right sum, and which of
# them a meter of elements notices.

# %%
load, address = "ld.global.f32 %f1, [%rd1];", "mul.wide.u32 %rd0, %r0, 4;"
twice = BODY.replace(load, load + load)
spread = BODY.replace(address, "mul.lo.s32 %r4, %r0, 19; rem.u32 %r4, %r4, %n; mul.wide.u32 %rd0, %r4, 4;")
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
# The file `10_flash2.ptx` beside this notebook is what NVIDIA's compiler made of the CUDA source above, for these tiles. It was written by
# `iosim gpu compile flash2 --blocks 8x12 --d 16 --threads 24 --ptx 10_flash2.ptx`. It is far too long to read; here is where the first
# element of Q comes from global memory and goes to shared memory.

# %%
beside = [Path(), Path("notebooks"), FOLDER.parents[2] / "notebooks"]
found = [folder / "10_flash2.ptx" for folder in beside if (folder / "10_flash2.ptx").exists()]
assert found, "10_flash2.ptx is not here: it lies beside this notebook in the repository, so download both"
PTX = found[0].read_text(encoding="utf-8")
lines = PTX.splitlines()
place = next(number for number, line in enumerate(lines) if "ld.global" in line)
end = next(number for number, line in enumerate(lines) if number > place and "st.shared" in line)
print(*lines[4:6], "   ...", *lines[place - 2 : end + 1], "   ...", sep="\n")
names = Counter(instructions(PTX))
print(f"{len(lines):,} lines; {names['ld.global.f32']} of them load from global memory, {names['st.global.f32']} store there")

# %% [markdown]
# The source calls `load_tile` three times. The compiler has written its loop out several times over, so that there are more such lines. It
# might have made mistakes, or have loaded something twice to save registers. **Predict**: when 5 blocks of 24 threads run this code, how
# many elements do those few lines load? By how many will the elements of all arrays, loaded and stored, differ from the 5,861 of the
# closed form (*in all* in the first table)?
#
# `prepared(case)` draws the inputs and makes room for the outputs, `calls` says how the kernel is launched, and `compare` sets what was
# counted beside the closed form, and O and LSE beside attention in float64.


# %%
def emulated(ptx):
    """The rows of a comparison, one an array, after a run of the kernel's PTX."""
    arrays = prepared(case)
    (call,) = calls(case, arrays)
    ran = emulate(ptx, grid=call.grid, threads=case.threads, args=call.args)
    return compare(case, Measured("emulator", {name: moved_of(ran.arrays[name]) for name in call.arrays}, dict(arrays)))


def table(rows):
    """What was read and written, as the closed form has it and as it was counted."""
    print(f"{'array':<6} {'read':>6} {'closed form':>12} {'written':>8} {'closed form':>12} {'sectors':>8}")
    for row in rows:
        read, written = f"{row.measured_reads:>6,} {row.predicted_reads:>12,}", f"{row.measured_writes:>8,} {row.predicted_writes:>12,}"
        error = "" if row.max_error is None else f"   error {row.max_error:.1e}, bound {row.bound:.1e}"
        print(f"{row.array:<6} {read} {written} {row.sectors:>8}{error}{'' if row.equal else '   DIFFERS'}")


compiled = emulated(PTX)
table(compiled)

# %% tags=["check"]
assert all(row.sound for row in compiled)
assert {row.array: (row.measured_reads, row.measured_writes) for row in compiled} == {
    name: (array.reads, array.writes) for name, array in model.arrays.items()
}
assert sum(row.measured_reads + row.measured_writes for row in compiled) == model.total == 5861
assert [row.array for row in compiled if row.max_error is not None] == ["O", "LSE"]
(k_row,) = [row for row in compiled if row.array == "K"]
assert all(32 * row.sectors == 4 * (row.measured_reads + row.measured_writes) for row in compiled if row.array != "LSE")
assert (k_row.measured_reads, k_row.sectors) == (moved["K"].loads, moved["K"].load_sectors)
assert (names["ld.global.f32"], names["st.global.f32"]) == (19, 8)
assert not any(name.startswith(("ld.local", "st.local")) for name in names)
source = [function("flash2.py", "kernel"), *(function("tiles.py", f"{name}_tile") for name in ("load", "zero", "score"))]
made_of = sha256("\n".join(source).encode()).hexdigest()[:16]
assert made_of == "1f0eb9cd65fba43a", "the kernel is another one now: make 10_flash2.ptx anew with the command above"

# %% [markdown]
# By none, and the values are right. Three numbers are equal for every array: that of the closed form, that of the listing on the model, and
# now that of compiled code, whose compiler knows nothing of iosim. No byte of a sector of Q, K, V or O is wasted either.
#
# A meter that always says *equal* would be worth nothing. Let us load everything twice in the compiled code:

# %%
spoiled = emulated(re.sub(r"(\s*ld\.global\.f32[^;]*;)", r"\1\1", PTX))
table(spoiled)
for row in spoiled:
    if row.failure:
        print(row.failure)

# %% tags=["check"]
assert [row.array for row in spoiled if not row.equal] == ["Q", "K", "V"]
assert all(row.measured_reads == 2 * row.predicted_reads for row in spoiled)
assert all(row.within is not False for row in spoiled)

# %% [markdown]
# The values are right again, and only the counts tell.
#
# ## The other meters
#
# The simulator and the counters run the kernel's *source*, and need Numba. So does the emulator, if the source is to be compiled anew.
# Where all is installed, the next cell runs the three, each in a process of its own; where it is not, the cell says so, and what to
# install.

# %%
try:
    environment.installed()
    environment.needs("compile")
except BadInput as error:
    missing, anew = str(error), []
else:
    missing, jobs = "", [Job(meter, case) for meter in ("simulator", "counters", "emulator")]
    anew = [row for job, measured in measure(jobs) for row in compare(job.case, measured)]


def elements(rows):
    """All elements that were read and written; None where nothing was run."""
    return sum(row.measured_reads + row.measured_writes for row in rows) if rows else None


said = {
    "closed form": sum(array.reads + array.writes for array in predicted.values()),
    "listing, on the model": model.total,
    "emulator, on the stored PTX": elements(compiled),
    "simulator, on the source": elements([row for row in anew if row.meter == "simulator"]),
    "counters, in the source": elements([row for row in anew if row.meter == "counters"]),
    "emulator, on PTX compiled here": elements([row for row in anew if row.meter == "emulator"]),
}
for name, number in said.items():
    print(f"{name:<31} " + ("not run here" if number is None else f"run here: {number:,} elements"))
if missing:
    print(missing)

# %% tags=["check"]
assert all(number == 5861 for number in said.values() if number is not None)
assert sum(number is not None for number in said.values()) == (3 if missing else 6)
assert all(row.sound for row in anew)
assert len(anew) == (0 if missing else 3 * len(predicted))
again = {row.array: row.sectors for row in anew if row.meter == "emulator"}
assert again in ({}, {row.array: row.sectors for row in compiled})
assert (len(cases()), len({one.kernel for one in cases()})) == (29, 5)

# %% [markdown]
# `iosim gpu check` asks all three meters about five kernels, causal and ragged, with several heads, forward and backward: 29 cases. It too
# needs Numba.
#
# ## The room on chip
#
# The listing's tiles take room in SRAM; the kernel's are in shared memory. **Predict** whether the kernel needs more or less than the
# model charges. Hint: a tile of d columns has d + 1 in CUDA. (Shared memory has 32 doors, the *banks*; words whose addresses differ by 32
# share one, and threads that ask for a column of a tile would queue up there.)
#
# `case.steps` are the launches that make up the kernel, here one.

# %%
(step,) = case.steps
there, here = step.shared_bytes(case.tiling) // 4, model.peak_sram
padding = 2 * case.rows + 2 * case.cols + case.rows
print(f"model: {here} words; kernel: {there} words, of which {padding} are padding")
print(f"the rest: {there - padding} words, {here - there + padding} fewer: m_new is a register of its thread, and takes no shared memory")

# %% tags=["check"]
assert (here, there, padding) == (768, 808, 48)
assert here - (there - padding) == case.rows

# %% [markdown]
# ## What no meter here has seen
#
# - **A GPU.** Nothing in this notebook ran on one. ([On a GPU](../docs/gpu-device.md) says what to run there, and what to expect.)
# - **The L2 cache.** Five blocks that read the same K ask global memory five times; a GPU may answer four of them from a cache in front of
#   HBM, called L2. Word counts are what is *requested*. They become HBM traffic where K and V of all heads are larger than that cache.
# - **Time.** Words say what must move, and not how long it takes. ([What the model leaves out](../docs/limits.md).)
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
    other = Case("flash2", n=n, nk=nk, d=16, rows=rows, cols=cols, threads=32)
    asked, run = other.predicted(), simulate("flash2", other.problem, sram=10**6, blocks=other.blocks, execute=False)
    words = sum(array.reads + array.writes for array in asked.values())
    print(f"{-(-n // rows)} thread blocks, K is read {asked['K'].reads // (nk * 16)} times, {words:,} words; the listing: {run.total:,}")


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
# `iosim exercise start decoding`; [the exercises](../docs/exercises.md) has the rest.
#
# This was the last notebook. [The gallery](../docs/gallery.md) and the pages of [the kernels](../docs/kernels/index.md) lead on.
#
# ## Summary

# %%
wider, twofold = shuffled["K"].load_sectors // moved["K"].load_sectors, elements(spoiled)
print(f"1. {case.name}: the closed form, the listing and the compiled kernel say {said['closed form']:,} elements, array by array.")
print(f"2. Compiled code that loads all twice is right in its values, and moves {twofold:,}: only a count can tell.")
print(f"3. Words are not sectors: the same {shuffled['K'].loads:,} loads in another order take {wider} times as many.")

# %% tags=["check"]
assert said["closed form"] == said["listing, on the model"] == said["emulator, on the stored PTX"] == 5861
assert twofold == 5861 + 592 + 2 * 2320
assert wider == 8
