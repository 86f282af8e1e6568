"""Run a kernel on a problem: choose blocks, count, execute, and hold every number against the other roads to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim import dtypes, theory
from iosim.errors import BadInput, SramOverflow
from iosim.inputs import Values, heads_of, random_inputs
from iosim.kernels.registry import check_options, kernel, launch
from iosim.masks import patterns
from iosim.memory import Counts, Event, Hbm, Machine, Mode, Observer, Traffic
from iosim.report import Report
from iosim.specs import Attention, Blocks, Options
from iosim.units import Capacity, capacity

EXECUTE_UP_TO = 16384
REPLAY_UP_TO = 20_000
Rule = Literal["fit", "paper", "best"]
BlockChoice = Rule | Blocks | tuple[int, int]
Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is decided before anything runs: the problem with its block mask, the blocks, the options and the capacity."""

    kernel: str
    problem: Attention
    blocks: Blocks
    options: Options
    sram: Capacity
    overflow: Literal["error", "record"]
    notes: tuple[str, ...] = ()

    def machine(self, mode: Mode, observers: Sequence[Observer] = (), *, check: int = 0, registers: int | None = None) -> Machine:
        """A machine as the plan asks for it."""
        return Machine(
            self.sram, mode=mode, accumulator=dtypes.accumulator(self.problem.dtype), overflow=self.overflow,
            observers=observers, check=check, registers=registers,
        )  # fmt: skip

    def run(self, m: Machine, values: Values | None = None) -> dict[str, Hbm]:
        """Run the listing; a capacity error also says what would fit."""
        try:
            return launch(self.kernel, m, self.problem, self.blocks, self.options, values)
        except SramOverflow as error:
            if m.registers is not None and "registers" in str(error):
                raise
            advice = theory.would_fit(self.kernel, self.problem, self.blocks, self.sram, self.options)
            raise SramOverflow(f"{error}; {advice}") from None


def plan(
    name: str,
    problem: Attention,
    *,
    sram: Capacity | int | str = "100KiB",
    blocks: BlockChoice = "fit",
    overflow: Literal["error", "record"] | None = None,
    **options: object,
) -> Plan:
    """Decide what :func:`simulate` will run; raises :class:`BadInput` for an unknown kernel or option, or blocks that cannot be chosen."""
    size, chosen = capacity(sram), _options(name, problem, capacity(sram), options)
    cut = _blocks(name, problem, size, blocks, chosen)
    if overflow not in (None, "error", "record"):
        raise BadInput(f"overflow must be 'error' or 'record', not {overflow!r}")
    lax = blocks == "paper" or chosen.reuse == "ideal"
    if name == "block-sparse" and problem.block_mask is None:
        problem = replace(problem, block_mask=patterns.butterfly(problem.n, problem.nk, cut.rows, cut.cols))
    return Plan(name, problem, cut, chosen, size, overflow or ("record" if lax else "error"), _softmax_note(name, options, chosen))


def simulate(
    name: str,
    problem: Attention,
    *,
    sram: Capacity | int | str = "100KiB",
    blocks: BlockChoice = "fit",
    overflow: Literal["error", "record"] | None = None,
    execute: bool | None = None,
    inputs: Sequence[ArrayLike] | None = None,
    seed: int = 0,
    replay: bool | None = None,
    check: int = 0,
    registers: int | None = None,
    **options: object,
) -> Report:
    """Run one kernel on one problem and return its :class:`Report`.

    ``sram``: words, or a size such as "100KiB". ``blocks``: "fit" (the largest of the paper's shape that really fit), "paper", "best"
    (fewest words, ragged tiles allowed) or ``(Br, Bc)``. ``execute``: compute real numbers and compare them with the float64 oracle; None
    does so up to n = nk = 16384. ``inputs``: ``(q, k, v)`` of layout (N, d) or (B, H, N, d), all heads of which are executed; None draws
    one head at random from ``seed``. ``replay``: recount the run's event trace independently; None does so up to 20,000 tiles.
    ``options``: those of :class:`Options` that the kernel has. Raises :class:`BadInput`, and :class:`SramOverflow` where a value finds no room.

    >>> report = simulate("flash2", Attention(n=1024, d=64), sram=49152, blocks=(64, 64))
    >>> report.arrays["K"].reads, report.total, report.sound
    (1048576, 2229248, True)
    """
    plan_ = plan(name, problem, sram=sram, blocks=blocks, overflow=overflow, **options)
    problem = plan_.problem
    m = plan_.machine("count", check=check, registers=registers)
    plan_.run(m)
    counts = m.finish()
    heads = None if inputs is None else heads_of(problem, inputs)
    small = max(problem.n, problem.nk) <= EXECUTE_UP_TO
    executes = heads is not None or small if execute is None else execute
    run = Execution(plan_, registers, heads or [random_inputs(problem, seed)]) if executes else None
    replayed = _replay(plan_, counts, replay)
    predicted = theory.predict(name, problem, plan_.blocks, plan_.options)
    agreed = {"predicted": _same_words(counts.arrays, predicted) and counts.peak_sram == _peak(plan_)}
    agreed = ({"executed": run.counts == counts} if run else {}) | agreed | ({} if replayed is None else {"replayed": replayed})
    notes = plan_.notes if run or execute is False else (*plan_.notes, f"counted, not executed: n or nk is above {EXECUTE_UP_TO}")
    times = problem.instances
    bound = theory.compulsory(problem)
    return Report(
        kernel=name, problem=problem, blocks=plan_.blocks, options=plan_.options, sram=plan_.sram,
        arrays={array: traffic * times for array, traffic in counts.arrays.items()},
        predicted={a: theory.Moved(p.reads * times, p.writes * times, p.init_writes * times) for a, p in predicted.items()},
        flops=counts.flops * times, peak_sram=counts.peak_sram, predicted_peak=_peak(plan_), overflow=counts.overflow,
        largest_unnamed=counts.largest_unnamed, peak_unnamed=counts.peak_unnamed,
        peak_hbm=counts.peak_hbm * times, peak_hbm_bytes=counts.peak_hbm_bytes * times,
        lower_bound=None if bound is None else bound * times, agreed=agreed, notes=notes,
        output=run and run.stacked("O", inputs), lse=run and run.stacked("LSE", inputs),
        max_error=run and run.max_error(), error_bound=run and run.error_bound(),
    )  # fmt: skip


class Execution:
    """Real numbers, head by head, each on a machine of its own, and what the oracle says of them."""

    def __init__(self, plan_: Plan, registers: int | None, heads: list[Values]) -> None:
        from iosim_reference import attention

        self.plan, self.heads = plan_, heads
        self.outputs: list[dict[str, Array]] = []
        for values in heads:
            m = plan_.machine("execute", registers=registers)
            arrays = plan_.run(m, values)
            self.counts = m.finish()
            self.outputs.append({"O": _data(arrays["O"]), "LSE": _lse(arrays)})
        rules = _rules(plan_.problem)
        self.truth = [attention(*(values[array].astype(np.float64) for array in "QKV"), **rules) for values in self._stored()]

    def _stored(self) -> list[Values]:
        storage = dtypes.storage(self.plan.problem.dtype)
        return [{name: np.asarray(array).astype(storage) for name, array in values.items()} for values in self.heads]

    def stacked(self, name: str, inputs: Sequence[ArrayLike] | None) -> Array | None:
        """One output of all heads, in the layout of the inputs; None for an LSE that the kernel does not make."""
        parts = [outputs[name] for outputs in self.outputs]
        if parts[0].size == 0:
            return None
        if inputs is None or np.ndim(inputs[0]) == 2:
            return parts[0]
        return np.stack(parts).reshape(self.plan.problem.batch, self.plan.problem.heads, *parts[0].shape)

    def max_error(self) -> float:
        """The largest difference of an output element from the oracle's."""
        return max(float(np.abs(out["O"].astype(np.float64) - truth.output).max()) for out, truth in zip(self.outputs, self.truth, strict=True))

    def error_bound(self) -> float | None:
        """The bound that float32 and float64 runs keep; no bound is stated for outputs that HBM rounds."""
        from iosim_reference import output_bound

        problem = self.plan.problem
        if problem.dtype not in ("float32", "float64"):
            return None
        logits = max(truth.max_score for truth in self.truth)
        largest = max(float(np.abs(np.asarray(values["V"], np.float64)).max()) for values in self.heads)
        return output_bound(logits, problem.nk, min(self.plan.blocks.cols, problem.nk), largest, problem.dtype)


def _options(name: str, problem: Attention, size: Capacity, given: dict[str, object]) -> Options:
    asked = {option: value for option, value in given.items() if value is not None}
    check_options(name, asked)
    if name == "standard" and "softmax" not in asked:
        rows = problem.nk * (dtypes.itemsize(dtypes.intermediate(problem.dtype)) if size.unit == "bytes" else 1)
        asked["softmax"] = "rows" if rows <= size.amount or asked.get("reuse") == "ideal" else "streamed"
    return Options(**asked)  # type: ignore[arg-type]  # check_options checked the names, Options checks the values


def _softmax_note(name: str, given: dict[str, object], chosen: Options) -> tuple[str, ...]:
    silent = name == "standard" and given.get("softmax") is None and chosen.softmax == "streamed"
    return ("a row of S does not fit, so softmax is streamed and S is read twice",) if silent else ()


def _blocks(name: str, problem: Attention, size: Capacity, blocks: BlockChoice, options: Options) -> Blocks:
    kernel(name)
    if isinstance(blocks, Blocks):
        return blocks
    if isinstance(blocks, str):
        if blocks not in ("fit", "paper", "best"):
            raise BadInput(f"blocks must be 'fit', 'paper', 'best' or (Br, Bc), not {blocks!r}")
        return theory.choose_blocks(name, problem, size, blocks, options)
    try:
        rows, cols = blocks
    except (TypeError, ValueError):
        raise BadInput(f"blocks must be 'fit', 'paper', 'best' or (Br, Bc), not {blocks!r}") from None
    return Blocks(rows, cols)


def _peak(plan_: Plan) -> int:
    return theory.residents(plan_.kernel, plan_.problem, plan_.blocks, plan_.options, plan_.sram.unit)


def _same_words(counted: dict[str, Traffic], predicted: dict[str, theory.Moved]) -> bool:
    found = {name: (a.reads, a.writes, a.init_writes) for name, a in counted.items()}
    return found == {name: (m.reads, m.writes, m.init_writes) for name, m in predicted.items()}


def _replay(plan_: Plan, counts: Counts, wanted: bool | None) -> bool | None:
    if wanted is None:
        tiles = -(-plan_.problem.n // plan_.blocks.rows) * -(-plan_.problem.nk // plan_.blocks.cols)
        wanted = tiles <= REPLAY_UP_TO and (plan_.kernel != "standard" or plan_.problem.n <= REPLAY_UP_TO)
    if not wanted:
        return None
    from iosim_reference import replay

    seen = replay(map(asdict, trace_events(plan_)))
    found = {name: (a.reads, a.writes, a.init_writes) for name, a in seen.arrays.items()}
    peak = seen.peak_bytes if plan_.sram.unit == "bytes" else seen.peak_words
    return found == {name: (a.reads, a.writes, a.init_writes) for name, a in counts.arrays.items()} and peak == counts.peak_sram


def trace_events(plan_: Plan) -> list[Event]:
    """Every event of one head of the plan, tile by tile, without numbers."""
    events: list[Event] = []
    m = plan_.machine("trace", [events.append])
    plan_.run(m)
    m.finish()
    return events


def _rules(problem: Attention) -> dict[str, object]:
    blocks = problem.block_mask
    return {
        "scale": problem.scale, "causal": problem.causal, "window": problem.window, "mask": problem.mask,
        "block_mask": None if blocks is None else (blocks.dense(), blocks.rows, blocks.cols),
    }  # fmt: skip


def _data(array: Hbm) -> Array:
    return np.zeros(0) if array.data is None else array.data


def _lse(arrays: dict[str, Hbm]) -> Array:
    if "LSE" in arrays:
        return _data(arrays["LSE"])[:, 0]
    if "l" not in arrays:
        return np.zeros(0)
    with np.errstate(divide="ignore"):
        return _data(arrays["m"])[:, 0] + np.log(_data(arrays["l"])[:, 0])
