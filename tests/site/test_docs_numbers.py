"""Every number in the prose of the site is computed here once more: another one, or a new one that nobody computes, is seen.

A *claim* is a number, made here, beside the few words that say what it is; between those that stand apart, at a mark …, the page may
say what it likes. Each must be on its page; when all are taken away, no number may be left. On pages of derivations, whose formulas are
full of small ones, that goes for numbers of three digits or with a decimal point, and their tables have tests of their own. What stands
in code is run elsewhere.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Literal

import pytest

from iosim import Attention, Blocks, Capacity, Options, predict, simulate
from iosim.attention.plan import make_plan
from iosim.cli import told
from iosim.cli.commands.trace import command as trace_command
from iosim.cli.output import CheckFailed
from iosim.cli.plans import MOST_TILES
from iosim.core.dtypes import itemsize
from iosim.core.errors import BadInput
from iosim.core.hardware import device
from iosim.core.units import capacity
from iosim.course.catalogue import EXERCISES, exercise
from iosim.course.export.notebook import PARTS
from iosim.course.graded import MOST_WALL
from iosim.course.grading.worker import Limits
from iosim.course.submission import MOST
from iosim.course.text import lines
from iosim.memory import Machine
from iosim.predict.bounds import bounds
from iosim.show.animation.limits import MOST_ARRAYS, MOST_EVENTS, MOST_LINES, MOST_WORDS
from iosim.show.animation.moving import SIDE, roomy
from iosim.show.animation.moving import SMALL as SMALL_RUN
from iosim.study.paper.counting import RELEASED
from iosim.study.published import mapper_frontier
from iosim_gpu.catalogue import KERNELS as CUDA
from iosim_gpu.checks import MAX_THREADS
from iosim_gpu.defaults import SMALL, THREADS, cases
from iosim_gpu.defaults import D as TILE_D
from iosim_gpu.fitting import STATIC_LIMIT

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DERIVATIONS = ("bounds", "design", "frontier", "gpu", "gpu-device", "pebbling")
LARGE, D = 2**20, 64
CREATE, ONE = Options(first_pass="create"), Options(depth="one")
RULES: tuple[Literal["paper", "best"], ...] = ("paper", "best")
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
PARTS_OF = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth", 6: "a sixth", 7: "a seventh"}

FENCE = re.compile(r"^(`{3,})(?!\{glossary\}).*?^\1`*$", re.DOTALL | re.MULTILINE)
NAMES = re.compile(
    r"FlashAttention-2|flash2|CRC-32|b?float\d+|\b[LAHV]\d+(?:00)?s?\b|Algorithms? \d(?: and \d)?|Figures? \d|Tables? \d+|Section [\d.]+"
    r"|Theorem [\d.]+|Lemma [\d.]+|Appendix E\.\d|arXiv \d{4}\.\d{5}|\((?:\w+, )?(?:19|20)\d\d\b"
)
"""What has a number in its name: types, caches and chips, parts of papers, and papers by their year."""
NUMBER = re.compile(r"\d[\d,.]*\d|\d")


def plain(text: str) -> str:
    """Prose alone, on one line: no code, no targets of links, no numbers of list items, no names with numbers."""
    text = re.sub(r"`[^`\n]*`", "``", FENCE.sub("", text))
    text = re.sub(r"^ *\d+\. ", "", re.sub(r"\]\([^)]*\)", "]", text), flags=re.MULTILINE)
    return " ".join(NAMES.sub("", text).split())


def source(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


def prose(page: str) -> str:
    """The prose of a page; of a derivation without its tables."""
    text = source(page)
    return plain(re.sub(r"^\|.*$", "", text, flags=re.MULTILINE) if page in DERIVATIONS else text)


def matters(number: str, page: str) -> bool:
    return page not in DERIVATIONS or "." in number or sum(map(str.isdigit, number)) >= 3


def form(claim: str) -> re.Pattern[str]:
    """What makes a claim: its parts in this order, with few words between them."""
    return re.compile("(.{0,160}?)".join(re.escape(part.strip()) for part in claim.split("…")))


def faults(page: str, text: str, claims: Iterable[str]) -> list[str]:
    """Claims that ``text`` does not make, and what is left of its numbers without them."""
    said = [plain(claim) for claim in claims]
    lacking = [f"{page}.md does not say {claim!r}" for claim in said if not form(claim).search(text)]
    for claim in sorted(said, key=len, reverse=True):
        text = form(claim).sub(lambda made: "@".join(["", *made.groups(), ""]), text)
    left = [found for found in NUMBER.finditer(text) if matters(found[0], page)]
    return lacking + [f"{page}.md: nobody computes {found[0]} in {text[max(0, found.start() - 40) : found.end() + 40]!r}" for found in left]


# What is printed on the site, which tests of its own hold to what is printed now.


@cache
def shown(name: str) -> str:
    return (DOCS / "examples" / name).read_text(encoding="utf-8")


def asked(name: str) -> dict[str, str]:
    """The options of a command on the site."""
    return dict(re.findall(r"--([a-z-]+) (?!--)(\S+)", shown(name).splitlines()[0]))


def found(pattern: str, name: str) -> tuple[str, ...]:
    """The groups of the one place in an example that has this form."""
    [match] = re.finditer(pattern, shown(name))
    return match.groups()


@cache
def project() -> dict[str, list[str]]:
    """The extras, and the oldest Python under its own name."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {**declared["optional-dependencies"], "python": [declared["requires-python"].removeprefix(">=")]}


def version(extra: str, package: str, form: str) -> str:
    """The part of a requirement that ``form`` captures, such as the lowest version."""
    [match] = [hit for line in project()[extra] if line.split("[")[0].startswith(package) and (hit := re.fullmatch(package + form, line))]
    return match[1]


# Claims that cannot be computed: definitions, what others published, what was measured once. A change is made in two places, on purpose.

DEFINED = {
    "glossary": [
        "word costs 1",
        "32 bits",  # NVIDIA's words for its own chips, as are the next two
        "32 threads",
        "32 bytes … multiple of 32",
    ],
    "limits": ["access costs 1"],
    "kernels/block-sparse": ["near 1"],
    "teachers": ["0 points and a reason", "starter file gets 0"],
}
PUBLISHED = {
    "bounds": ["0.03 % … for 10 MB", "(4.14)", "(4.17)"],  # COSMA; Saha and Ye
    "kernels/fmha": ["up to 512"],  # FlashAttention paper, Appendix E.4
    "kernels/index": ["Software of 2022"],
    "kernels/released": ["The code of May 2022"],
    "teachers": ["Landlock came with 5.13"],  # Linux's own documentation
    "gpu": ["NVVM 13.5 … PTX ISA 9.5"],
    "frontier": ["AccelForge 1.0.467"],
}
MEASURED = {"pebbling": ["219 seconds"]}


# Claims, page by page.


def why() -> list[str]:
    """The table is an example of the site; the picture is that of the gallery."""
    gpu, told = device("a100-40gb"), shown("why.py")
    rate, balance = gpu.fp16_tensor_rate or 0, (gpu.fp16_tensor_rate or 0) / (gpu.bandwidth or 1)
    rows = {kernel: NUMBER.findall(rest) for kernel, rest in re.findall(r"^(\w+) +(.*)$", shown("why.out"), re.MULTILINE)}
    asked_for = {name: re.findall(rf"\b{name}=(\d+)", told)[0] for name in ("n", "d", "batch", "heads")}
    _, waiting, _, computing, made, _ = rows["standard"]
    assert 'device("a100-40gb")' in told
    assert {row[3] for row in rows.values()} == {computing}
    assert float(rows["flash2"][4]) > balance > float(rows["flash"][4])
    assert float(rows["flash2"][1]) < float(computing) < float(rows["flash"][1])
    return [
        f"A100 with {gpu.memory // 10**9} GB … {(gpu.bandwidth or 0) // 10**9:,} GB a second",
        f"{rate / 1e12:.0f} Tflop",
        f"{balance:.0f} operations … one byte",
        "{batch} x {heads} heads … N = {n} … d = {d}".format(**asked_for),
        f"same products … {computing} ms",
        f"{made} flop … {waiting} ms",
        f"{rows['flash2'][4]} … more than the balance",
        *pictured(),
    ]


def pictured() -> list[str]:
    """What is said of the bars, whose script has these sizes."""
    assert "n=1024, d=64" in shown("figures/bars.py")
    assert "sram=49152" in shown("figures/bars.py")
    forward = ("standard", "flash", "flash2")
    names = [name for each in forward for name in (each, f"{each}-backward")]
    runs = {name: simulate(name, Attention(1024, D), sram=49152, execute=False, replay=False) for name in names}
    stored = sum(runs["standard"].arrays[name].reads + runs["standard"].arrays[name].writes for name in "SP")
    every, (flash, flash2) = runs["standard"].total, (runs[name].total for name in forward[1:])
    products = {name: made.flops.matmul // (2 * 1024**2 * D) for name, made in runs.items()}
    more, fewer = (runs["flash2-backward"].flops.matmul / runs["standard-backward"].flops.matmul, runs["flash2-backward"].total)
    assert [products[name] for name in forward] == [2, 2, 2]
    return [
        f"{stored // 1024**2} N² ",
        f"N = 1024 and d = {D} … S and P … {100 * stored / every:.0f} %",
        f"{PARTS_OF[round(every / flash2)]} of what … does … {PARTS_OF[round(every / flash)]}",
        f"{WORDS[products['flash2-backward']]} products … instead of {WORDS[products['standard-backward']]}",
        f"{100 * (more - 1):.0f} % more flops",
        f"{100 * fewer / runs['standard-backward'].total:.0f} % of the words",
    ]


def quickstart() -> list[str]:
    first, heads = asked("first.console"), asked("heads.console")
    words = {kernel: int(found(rf"\n{kernel} +\S+ +([\d,]+)", "first.console")[0].replace(",", "")) for kernel in ("standard", "flash2")}
    assert heads["device"].startswith("a100")
    return [
        f"Python {project()['python'][0]}",
        f"N = {first['n']} … d = {first['d']} … M = {int(first['sram']):,} words",
        f"{PARTS_OF[round(words['standard'] / words['flash2'])]} of what",
        f"{WORDS[int(heads['heads'])].capitalize()} heads … {WORDS[int(heads['kv-heads'])]} pairs",
    ]


def own() -> list[str]:
    """The second pass reads K again: twice the words of K that a single pass reads in the same tiles."""
    once, twice = (int(number.replace(",", "")) for number in re.findall(r"K read ([\d,]+)", shown("mine.out")))
    assert twice == 2 * once
    return ["reads K again"]


def glossary() -> list[str]:
    a100, kib = device("a100-40gb"), capacity("1KiB").amount
    rate, bandwidth, most = a100.fp16_tensor_rate or 0, a100.bandwidth or 1, a100.shared_memory_per_block or 0
    blocks = predict.choose_blocks("flash", Attention(1024, D), capacity("100KiB"), "fit", Options())
    products = simulate("standard", Attention(3, 5, nk=7), sram=1000, replay=False).flops.matmul
    assert Attention(1, D).softmax_scale == 1 / math.sqrt(D)
    assert itemsize("float16") == itemsize("bfloat16")
    assert capacity("1GB").amount == 10**9
    return [
        "1/√d",
        f"blocks {blocks}",
        f"A100 with {a100.memory // 10**9} GB … {rate / 1e12:.0f} Tflop/s … {bandwidth / 1e9:,.0f} GB/s … {rate / bandwidth:.0f} flop/byte",
        f"{itemsize('float16')} in float16 and bfloat16, {itemsize('float32')} in float32, {itemsize('float64')} in float64",
        f"KiB, MiB and GiB … {kib} bytes … KB, MB and GB … {capacity('1KB').amount}",
        "10⁹ bytes",
        "10¹²",
        f"{products // 2 // (3 * 5 * 7)} N_q N_k d",  # each of the two products has so many
        f"{a100.memory // 10**9} GB on the smaller A100",
        f"{a100.shared_memory_per_sm // kib} KiB on an A100 … {most // kib} KiB",
    ]


def machine() -> list[str]:
    rows = [j.size for i in Machine(mode="trace").tiles(16, 16) for j in i.tiles(5)]
    told = Counter[int]()
    for i in Machine(mode="count").tiles(64, 16):
        for j in i.tiles(5):
            told[j.size] += j.times
    return [
        *overflowed(),
        f"of {rows[0]} rows … {sum(rows)} rows … {', '.join(map(str, rows[:-1]))} and {rows[-1]}",
        f"{told[5]} tiles of 5 rows … {told[1]} of 1 row",
    ]


def overflowed() -> list[str]:
    printed = simulate("flash", Attention(4096, D), sram=16384, blocks="paper", overflow="record", execute=False, replay=False)
    return [f"{printed.peak_sram / 16384:.2f} M … d = {D}"]


def design() -> list[str]:
    read = [*(ROOT / "iosim" / "machine").glob("*.py"), *(ROOT / "iosim" / "attention" / "kernels").glob("*.py")]
    about = round(sum(len(path.read_text(encoding="utf-8").splitlines()) for path in read), -2)
    sizes = f"(`KB MB GB` powers of {capacity('1KB').amount}, `KiB MiB GiB` powers of {capacity('1KiB').amount})"
    return [*overflowed(), f"listings, about {about:,} lines", f"nothing in those {about:,} lines imports them", sizes]


def limits() -> list[str]:
    cached = device("h200").l2 or 0
    assert 20e6 < cached < 100e6
    sector = re.search(r"(\d+)-byte sectors", (ROOT / "gpu" / "iosim_gpu" / "moved.py").read_text(encoding="utf-8"))
    assert sector is not None
    return [f"{sector[1]}-byte sectors", "tens of megabytes on an H200"]


def students() -> list[str]:
    flash2, softmax = exercise("flash2"), exercise("softmax")
    return [
        f"{len(EXERCISES)} exercises … softmax of {WORDS[lines(softmax)]} lines",
        f"exercise {flash2.number}",
        f"{WORDS[len(PARTS['function'])]} point",
        f"{WORDS[len(PARTS['kernel'])]} parts",
        f"{MOST >> 10} KiB … {WORDS[Limits().cpu]} seconds … {WORDS[Limits().memory >> 30]} GiB",
    ]


def teachers() -> list[str]:
    kinds, limits = [one.kind for one in EXERCISES.values()], Limits()
    points = {kind: len(parts) for kind, parts in PARTS.items()}
    term = [(int(week), names) for week, names in re.findall(r"^\| (\d+) \| ([^|]*) \| \d+ \|", source("teachers"), re.MULTILINE)]
    total = sum(points[kind] for kind in kinds)
    [merging] = [week for week, names in term if "merge" in names]
    short = [exercise(name).number for name in ("softmax", "online-softmax", "count-standard", "standard", "flash", "flash2")]
    return [
        f"{len(EXERCISES)} exercises",
        # test_docs_exercises holds these to the course
        *(row for row in re.findall(r"^\| \d+ \| [^|]* \| \d+ \|", source("teachers"), re.MULTILINE)),
        f"week {merging}",
        f"five weeks … exercises {', '.join(map(str, short[:-1]))} and {short[-1]}",
        f"function … {points['function']} point … kernel … {points['kernel']}",
        f"{kinds.count('function')} functions and {kinds.count('kernel')} kernels, {total} points",
        f"{limits.cpu} s … {limits.memory >> 30} GiB",
        f"after {limits.wall:.0f} s … all its problems … after {MOST_WALL:.0f} s",
        f"Python {project()['python'][0]}",
    ]


def paper() -> list[str]:
    kept, claimed = found(r"\n([\d,]+) numbers\. Of (\d+) it is claimed that ours agree: all do\.", "paper.console")
    left = shown("paper.console").split("Figure 2, left, other")[0]
    gigabytes = dict(re.findall(r"GB, (\w+) +([\d.]+)", left))
    forms = re.findall(r"to the digits printed: ([^\n]*) elements a head", left)
    heads = set(re.findall(r"one N x N x d product of ([\d,]+) heads", left))
    form = r"PyTorch, Megatron +(\d+) numbers +\S+  agrees\n +within (\d+ %), (\d+) of \1 within (\d+ %): no mask"
    times, most, within, closer = found(form, "paper.console")
    assert len(heads) == 1
    return [
        f"{kept} published numbers",
        f"{claimed} … claims agreement",
        f"status {told(CheckFailed('so'))[0]}",
        f"{gigabytes['Standard']} GB … {forms[0].replace('^2', '²')} elements",
        f"{gigabytes['FlashAttention']} GB … {forms[1]}",
        f"{heads.pop()} heads",
        f"{times} published times … within {most}, {within} of them within {closer}",
    ]


def commands() -> list[str]:
    return [f"{told(BadInput('so'))[0]}: … made no sense", f"{told(CheckFailed('so'))[0]}: … failed"]


def cached() -> list[str]:
    times = 1.25
    loads = shown("commands/cache.console").split("fetched at first use")[0]
    [(words, reads, every)] = re.findall(rf"^([\d,]+) +{times} +[\d,]+ +([\d.]+) +[\d,]+ +([\d.]+) ", loads, re.MULTILINE)
    return [
        f"{times} times the room … {words} words",
        f"reads {reads} times",
        f"moves {every} times",
    ]


def traced() -> list[str]:
    [size] = [str(option.default) for option in trace_command.params if option.name == "sram"]
    least = {d: roomy([make_plan("flash2", Attention(SMALL_RUN.n, d), 2**20, SIDE, None, {})]) for d in (SMALL_RUN.d, 16, 64)}
    assert SIDE[0] == SIDE[1]
    return [
        f"{MOST_EVENTS:,} events, {MOST_ARRAYS} arrays and {MOST_WORDS:,} words … {MOST_LINES:,} lines",
        f"N = {SMALL_RUN.n}, d = {SMALL_RUN.d} … {SIDE[0]} rows … {capacity(size)}",
        f"{least[SMALL_RUN.d]} words … {least[16]} … {least[64]:,}",
        f"stays {capacity(size)}",
        f"more than {MOST_TILES:,} tiles",
    ]


# The kernels: what the closed forms say, term by term.


def moved(kernel: str, n: int, d: int, blocks: Blocks, options: Options | None = None) -> dict[str, int]:
    """Words of every array."""
    words = predict.predict(kernel, Attention(n, d), blocks, options or Options())
    return {name: array.reads + array.writes for name, array in words.items()}


def flash() -> list[str]:
    n, m = 1024, 16384
    twice, again = (moved(kernel, n, D, Blocks(64, 64), CREATE) for kernel in ("flash2", "flash"))
    here, there = again["Q"] + again["O"], twice["K"] + twice["V"]
    tiles = {rule: LARGE / predict.choose_blocks("flash", Attention(LARGE, D), Capacity(m), rule, CREATE).cols for rule in RULES}
    return [
        f"T_c … {tiles['paper'] * m / (LARGE * D):.0f} N d / M",
        f"best … {tiles['best'] * m / (LARGE * D):.0f} N d / M",
        f"{round(here / (16 * n * D))} words … {round(there / (16 * n * D))}",
    ]


def flash2() -> list[str]:
    """Where the bound begins whose leading term the words have."""
    low, high = 1, 64 * D * D
    while high - low > 1:
        middle = (low + high) // 2
        [known] = [bound for bound in bounds(Attention(LARGE, D), middle) if bound.name == "two products"]
        low, high = (low, middle) if known.holds.startswith("M >= r^2") else (middle, high)
    return [f"From M = {high / (D * D):g} d² on"]


def standard() -> list[str]:
    words = moved("standard", 1024, D, Blocks(64, 64))
    return [f"{(words['S'] + words['P']) // 1024**2} N² words"]


def pytorch() -> list[str]:
    plain_, masked = (
        simulate("pytorch", Attention(64, 4, causal=causal), sram=10**4, execute=False, replay=False) for causal in (False, True)
    )
    return [f"{(masked.total - plain_.total) // 64**2} N² words"]


def fmha() -> list[str]:
    """K and V are on chip besides what a query tile takes, however small it is."""
    least = [predict.smallest_sram("fmha", Attention(1, D, nk=nk), Options()) for nk in (1000, 2000)]
    per_row = (least[1] - least[0]) // 1000
    return [f"{per_row // D} N d words"]


def fmha_backward() -> list[str]:
    words = moved("fmha-backward", 1024, D, Blocks(16, 16))
    return [f"N > {(sum(words.values()) - words['P']) // (1024 * D)} d"]


def released() -> list[str]:
    return [f"{RELEASED.rows} queries … {RELEASED.cols} keys … d = {D}", waits("released", "O_acc")]


def released_backward() -> list[str]:
    return [waits("released-backward", "dQ_acc")]


def waits(kernel: str, array: str) -> str:
    """How often the accumulator crosses each way, of 16 key tiles."""
    words = predict.predict(kernel, Attention(256, D), Blocks(16, 16), Options())[array]
    assert words.reads == words.writes
    return f"$T_c - {16 - words.reads // (256 * D)}$ times"


def square_tiles() -> list[str]:
    n, side = 2**10, 2**6
    words = moved("square-tiles", n, n, Blocks(side, side), ONE)
    return [f"{(words['Q'] + words['K']) * side // n**3} N² d / √M words"]


def square_tiles_backward() -> list[str]:
    more, words = (sum(moved("square-tiles-backward", 256, D, Blocks(16, 16), depth).values()) for depth in (ONE, Options()))
    return [f"dP … {(more - words) // 256**2} N² words more"]


# The derivations.


def lower_bounds() -> list[str]:
    n, d = 4096, D
    most = {name: largest(name, Attention(n, d)) for name in ("Saha-Ye", "small cache", "two products")}
    at_d2 = re.search(r"^\| 4,096 \| 1 \|.* ([\d.]+) \|$", source("bounds"), re.MULTILINE)  # test_docs_bounds computes the row
    assert at_d2 is not None
    wide = Attention(LARGE, 256)
    shares = {times: above(wide, times * 256 * 256) for times in (4, 8, 16)}
    assert max(shares.values()) < 0.02
    return [
        f"N = {n}, d = {d}",
        f"$N = 2^{{{LARGE.bit_length() - 1}}}$ and $d = {wide.d}$ … {100 * shares[4]:.1f} % more than the bound",
        f"up to M = {most['Saha-Ye']:,} … small cache … {most['small cache']:,} … two products … {most['two products']:,}"
        f" … ${most['two products'] / (n * d):.2f} N d$",
        f"$M = d^2$ … factor of {float(at_d2[1]):.1f}",
        f"d = {wide.d} … within 2 % of the bound … M = 4, 8 and $16 d^2$",
    ]


def largest(name: str, problem: Attention) -> int:
    """The last M at which a bound is above the compulsory one, by bisection."""
    low, high = 64, 2**20
    while high - low > 1:
        middle = (low + high) // 2
        words = {bound.name: bound.words for bound in bounds(problem, middle)}
        low, high = (middle, high) if words[name] > words["compulsory"] else (low, middle)
    return low


def above(problem: Attention, m: int) -> float:
    """By how much flash2 in its best blocks is above the lower bound."""
    blocks = predict.choose_blocks("flash2", problem, Capacity(m), "best", Options())
    words = sum(array.reads + array.writes for array in predict.predict("flash2", problem, blocks, Options()).values())
    return words / max(bound.words for bound in bounds(problem, m)) - 1


def frontier() -> list[str]:
    mapped, ideal = mapper_frontier(), predict.ideal_frontier(Attention(256, 32))
    n, d, first = mapped.n, mapped.d, mapped.rows[0].sram
    apart = [int(m) for m, how in zip(ideal.sram, ideal.schedules, strict=True) if how == "P through HBM" and m >= first]
    fused = [int(m) for m in ideal.sram if m > apart[-1]]
    whole = next(m for m in fused if ideal.words[ideal.at(m)] == 4 * n * d)
    keys, need = n // 2, n // 2 * 2 * d + 2 * d + 2  # K and V of half the keys; a query and its output; a score and its weight
    shared = 2 * n * d + 2 * n * d + 3 * n * d  # K and V once, Q twice; O written, read back, written
    example = re.search(r"Attention\(n=(\d+), d=64\)", source("frontier"))
    assert example is not None
    return [
        f"N = {example[1]}",
        f"N = {n}, d = {d}",
        f"from M = {first} on",
        f"From {first} to {apart[-1]} … P … HBM",
        f"from {from_whole_rows(d)} on",
        f"From {fused[0]} to {fused[fused.index(whole) - 1]} … Q and O",
        f"At {whole} … K and V",
        f"{keys} keys and values",
        f"{keys} * {2 * d} + {2 * d} + 2 = {need:,} words … {shared:,} moved … mapper … {words_at(need):,}",
        "M = 12288 (48 KiB of float32)",  # test_frontier computes the table with it
        "N = 1024 … divisors … divisors of 1000",  # its first column
    ]


def from_whole_rows(d: int) -> int:
    """The step from which x rows of S and of O stay whole: 33 x + 1 words; x = 16 is where a whole row costs no more than half of two."""
    return (d + 1) * 16 + 1


def words_at(sram: int) -> int:
    """What the mapper moves there."""
    return [point.words for point in mapper_frontier().rows if point.sram <= sram][-1]


def pebbling() -> list[str]:
    """From the table in bounds.md, which test_docs_bounds computes."""
    row = re.search(r"^\| with some \$M \\ge 1\$ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", source("bounds"), re.MULTILINE)
    assert row is not None
    return [f"N = {row[1]} for d = 1, {row[2]} for d = 2, {row[3]} for d = 4 and {row[4]} for d = 8"]


def gpu() -> list[str]:
    forward, backward = ({"{}x{}".format(*one.tiles) for one in CUDA.values() if ("dO" in one.reads) == side} for side in (False, True))
    numba = version("gpu", "numba", r">=([\d.]+),<[\d.]+")
    cuda, older, pinned = version("gpu", "numba-cuda", r">=([\d.]+),<0\.31"), version("gpu", "numpy", r"<([\d.]+)"), wheels()
    assert STATIC_LIMIT < 160 * 1024
    assert MAX_THREADS < 2048
    registers = re.search(r"MOST_REGISTERS = (\d+)", (ROOT / "tests" / "gpu" / "test_compiling.py").read_text(encoding="utf-8"))
    assert registers is not None
    return [
        f"tiles of {SMALL['rows']}x{SMALL['cols']} with {SMALL['threads']} threads",
        f"in tiles of {' '.join(forward)} ({' '.join(backward)} backward) at d = {TILE_D} with {THREADS} threads",
        f"d = {TILE_D}, {THREADS} threads",
        f"{len(cases())} cases",
        f"at most {registers[1]}",
        f"numba {numba}, numba-cuda {cuda} and newer of {cuda.rpartition('.')[0]}, NumPy below {older} … cuda-bindings of {pinned}",
        f"{pinned} wheels",
        f"driver or assembler of {pinned}",
        f"NumPy {older} … dropped … numba-cuda {cuda}",
        f"numba-cuda {cuda.rpartition('.')[0]} does not",
        "160 KB of shared memory, 2,048 threads",
    ]


def wheels() -> str:
    """The one version of NVIDIA's wheels."""
    [pinned] = {line.partition("==")[2].removesuffix(".*") for line in project()["gpu"] if line.startswith(("nvidia-", "cuda-bindings"))}
    return pinned


def gpu_device() -> list[str]:
    cuda, cupy = version("gpu", "numba-cuda", r">=([\d.]+),<0\.31"), version("cupy", "cupy-cuda13x", r">=([\d.]+),<15")
    assert 1000 * 80 > 2**16  # 32-bit registers of an SM
    return [
        f"numba-cuda {cuda.rpartition('.')[0]} never",
        f"({cuda})",
        "1,000 threads … 80 registers … more than an SM has",
        f"({cupy})",
        f"CuPy {cupy}",
        f"numba-cuda {cuda}",
        f"CUDA {wheels()}",
    ]


PAGES: dict[str, Callable[[], list[str]]] = {
    "why": why,
    "quickstart": lambda: quickstart() + own(),
    "glossary": glossary,
    "machine": machine,
    "design": design,
    "limits": limits,
    "exercises": students,
    "teachers": teachers,
    "paper": paper,
    "bounds": lower_bounds,
    "frontier": frontier,
    "pebbling": pebbling,
    "gpu": gpu,
    "gpu-device": gpu_device,
    "commands/index": commands,
    "commands/cache": cached,
    "commands/trace": traced,
    "kernels/flash": flash,
    "kernels/flash2": flash2,
    "kernels/standard": standard,
    "kernels/pytorch": pytorch,
    "kernels/fmha": fmha,
    "kernels/fmha-backward": fmha_backward,
    "kernels/released": released,
    "kernels/released-backward": released_backward,
    "kernels/square-tiles": square_tiles,
    "kernels/square-tiles-backward": square_tiles_backward,
}
ALL = sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md") if "_build" not in path.parts)


@cache
def claimed(page: str) -> tuple[str, ...]:
    given = [PAGES[page]()] if page in PAGES else []
    return tuple(claim for claims in (*given, *(kept.get(page, []) for kept in (DEFINED, PUBLISHED, MEASURED))) for claim in claims)


@pytest.fixture(autouse=True, scope="module")
def _docs(source_tree: Path) -> None:
    """The pages are in the source tree alone."""


@pytest.mark.parametrize("page", ALL)
def test_every_number_in_prose_is_computed(page: str) -> None:
    assert faults(page, prose(page), claimed(page)) == []


@pytest.mark.parametrize("page", ALL)
def test_any_other_number_is_seen(page: str) -> None:
    """Each number in turn, one more than it is, and one that is new."""
    text = prose(page)
    for number in NUMBER.finditer(text):
        if matters(number[0], page):
            last = str((int(number[0][-1]) + 1) % 10)
            assert faults(page, text[: number.end() - 1] + last + text[number.end() :], claimed(page)), number
    assert faults(page, f"{text} It moves 123 words.", claimed(page))


def test_every_page_with_claims_is_there() -> None:
    assert {*PAGES, *DEFINED, *PUBLISHED, *MEASURED, *DERIVATIONS} <= set(ALL)
