"""Compilation without a GPU: every kernel compiles, spills nothing, keeps to float32, and its counters are free when they are off."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from inspect import getsource

import numpy as np
import pytest

from iosim.core.errors import BadInput
from iosim_gpu import compiling, defaults, environment
from iosim_gpu.calls import Call, calls, prepared
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.compiling import Usage, declared, instructions, renamed, reported, to_ptx, usage
from iosim_gpu.declaration import Step
from tests.gpu.edits import loaded, rewritten, source
from tests.gpu.every import STEPS

MOST_REGISTERS = 128
ONE_WORD = re.compile(r"(ld|st)\.global\.[fubs]32|atom\.global\.add\.f32")  # no vectors, and no way around the counted one
REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'flash2' for 'sm_90'
ptxas info    : Function properties for flash2
ptxas         .     192 bytes stack frame, 252 bytes spill stores, 416 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers
ptxas info    : Compile time = 209.907 ms
"""
DECLARED = ".shared .align 4 .b8 a[100];\n\t.local .align 8 .b8 \t__local_depot0[40];\n.visible .shared .align 4 .b8 b[20];\nadd.f64 x;"


def launches(*, counting: bool) -> dict[str, Call]:
    """Every launch by its name, at the kernel's default tiling."""
    cases = [case for kernel in KERNELS for case in defaults.compiled(kernel)]
    made = [call for case in cases for call in calls(case, prepared(case), counting=counting)]
    return {call.step.name: call for call in made}


OFF, ON = launches(counting=False), launches(counting=True)
QUICK = ("scores", "flash2", "fill")
SOME = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in OFF]


@pytest.fixture
def assembler() -> None:
    try:
        environment.needs("assemble")
    except BadInput as missing:
        pytest.skip(str(missing))


def globals_of(ptx: str) -> Counter[str]:
    """How often each instruction on global memory stands in the text."""
    return Counter(name for name in instructions(ptx) if name.startswith(("ld.global", "st.global", "atom", "red")))


def test_every_step_is_compiled() -> None:
    assert STEPS.keys() == OFF.keys() == ON.keys()


@pytest.mark.needs_compiler
@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize("launch", OFF)
@pytest.mark.parametrize("arch", [pytest.param("sm_80", marks=pytest.mark.slow), "sm_90"])
def test_no_kernel_spills_or_computes_in_float64(launch: str, arch: str) -> None:
    call = OFF[launch]
    ptx = to_ptx(call, arch)
    found = usage(ptx, arch)
    assert f".target {arch}\n" in ptx
    assert found == Usage(found.registers, 0, 0, 0, call.step.shared_bytes(call.tiling), 0, double=False)
    assert 16 <= found.registers <= MOST_REGISTERS
    assert found.shared_bytes <= 49152
    assert [name for name in globals_of(ptx) if not ONE_WORD.fullmatch(name)] == []


@pytest.mark.needs_compiler
@pytest.mark.parametrize("launch", SOME)
def test_counters_are_free_when_they_are_off(launch: str) -> None:
    """Without counting the PTX is that of a kernel which has no counters in its source, instruction for instruction."""
    off = to_ptx(OFF[launch])
    bare = to_ptx(without_counters(OFF[launch]))
    assert list(instructions(off)) == list(instructions(bare))
    assert "atom.global.add.u64" not in globals_of(off)


@pytest.mark.needs_compiler
@pytest.mark.parametrize("launch", SOME)
def test_counters_count_when_they_are_on(launch: str) -> None:
    off, on = globals_of(to_ptx(OFF[launch])), globals_of(to_ptx(ON[launch]))
    assert on - off == Counter({"atom.global.add.u64": len(ON[launch].step.slots)})
    assert off <= on


def without_counters(call: Call) -> Call:
    """The same launch of a kernel whose source, and that of the modules it is made of, counts nothing."""
    return replace(call, step=uncounted(call.step))


def uncounted(step: Step) -> Step:
    """``step`` from a source in which nothing is counted, nor in the modules that its own is made of."""
    text = stripped(source(step))
    for module in re.findall(r"from (iosim_gpu\.kernels\.\w+) import", text):
        bare = loaded(module, stripped(getsource(importlib.import_module(module))))
        text = text.replace(f"from {module} import", f"from {bare.__name__} import")
    return rewritten(step, text)


def stripped(text: str) -> str:
    """A source without the statements that count."""
    tree = _Stripped().visit(ast.parse(text))
    return ast.unparse(ast.fix_missing_locations(tree))


class _Stripped(ast.NodeTransformer):
    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        counts = isinstance(node.target, ast.Subscript) and isinstance(node.target.value, ast.Name) and node.target.value.id == "n"
        return ast.Pass() if counts else node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        return ast.Pass() if ast.unparse(node).startswith("tell(") else node


def test_the_stripped_source_has_no_counter_left() -> None:
    for step in STEPS.values():
        assert "tell(n, counts" in source(step)
        assert not re.search(r"\bn\[|tell\(", stripped(source(step)))


@pytest.mark.needs_compiler
def test_numpy_without_row_stack_gets_the_name_that_numba_cuda_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy 2.5 has dropped it, and numba-cuda 0.30 compiles nothing without it."""
    cuda = importlib.import_module("iosim_gpu.cuda")
    monkeypatch.delattr(np, "row_stack", raising=False)
    importlib.reload(cuda)
    assert getattr(np, "row_stack") is np.vstack  # noqa: B009  # not in every NumPy's stubs


@pytest.mark.needs_compiler
def test_a_kernel_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    call = next(iter(OFF.values()))
    ptx = to_ptx(call)

    def again(*_: object) -> None:
        raise AssertionError("compiled twice")

    monkeypatch.setattr(Step, "make", again)
    assert to_ptx(call) is ptx


@pytest.mark.needs_compiler
@pytest.mark.parametrize(("arch", "why"), [("sm_99", "does not know sm_99"), ("sm_50", "sm_50"), ("sm90", "written sm_80"), ("", "''")])
def test_an_unknown_architecture_is_refused(arch: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        to_ptx(OFF["fill"], arch)


@pytest.mark.needs_compiler
@pytest.mark.usefixtures("assembler")
def test_spills_are_reported() -> None:
    """The same kernel with few registers spills, and the report says so: the check above can fail."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    ptx = to_ptx(OFF["flash2"])
    options = LinkerOptions(arch="sm_90", ptxas_options=["-v", "--maxrregcount=24"])
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
    linker.link("cubin")
    found = reported(linker.get_info_log(), ptx)
    assert found.registers == 24
    assert min(found.spill_stores, found.spill_loads, found.stack_bytes) > 0


@pytest.mark.needs_compiler
@pytest.mark.usefixtures("assembler")
def test_what_is_no_ptx_is_refused() -> None:
    with pytest.raises(BadInput, match="nvJitLink makes no machine code for sm_90"):
        usage("nonsense")


def test_a_report_is_read_exactly() -> None:
    assert reported(REPORT, DECLARED) == Usage(32, 192, 252, 416, shared_bytes=120, local_bytes=40, double=True)
    assert (declared("", "shared"), declared(DECLARED, "local")) == (0, 40)


@pytest.mark.parametrize("report", ["", "ptxas info : Used many registers", REPORT * 2, REPORT.replace("252 bytes", "? bytes")])
def test_a_report_that_cannot_be_read_is_refused(report: str) -> None:
    with pytest.raises(BadInput, match="registers and spills of one kernel"):
        reported(report, DECLARED)


def test_a_mangled_name_is_replaced_wherever_it_stands() -> None:
    text = ".common .u64 _ZN08NumbaEnv4nameE1;\n.visible .entry _ZN4nameE1(\n.param .u64 _ZN4nameE1_param_0\n)"
    assert renamed(text, "k") == ".common .u64 k_environment;\n.visible .entry k(\n.param .u64 k_param_0\n)"
    with pytest.raises(BadInput, match="has 2"):
        renamed(text * 2, "k")


def test_instructions_are_those_of_the_body() -> None:
    body = "{\n.reg .f32 %f<3>;\n$L1:\n@!%p1 ld.global.f32 %f1, [%rd1+4];\n\tbar.sync 0;\n// st.x y;\nret;\n}"
    text = f".visible .entry k(\n.param .u64 p\n)\n{body}"
    assert list(instructions(text)) == ["ld.global.f32", "bar.sync", "ret"]


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    whole = environment.Part("any", True, "")
    monkeypatch.setattr(environment, "part", lambda _: whole)
    monkeypatch.setattr(environment, "simulated", lambda: True)
    compiling._compiled.cache_clear()
    yield
    compiling._compiled.cache_clear()


@pytest.mark.usefixtures("simulated")
def test_a_process_with_the_simulator_compiles_nothing() -> None:
    with pytest.raises(BadInput, match=r"^[^\n]*simulator, which is on here: unset NUMBA_ENABLE_CUDASIM$"):
        to_ptx(next(iter(OFF.values())))


@pytest.mark.parametrize("name", ["NVVM", "NVRTC"])
def test_a_missing_library_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    parts = {other: environment.Part(other, other != name, "not found") for other in environment.NEEDS["compile"]}
    monkeypatch.setattr(environment, "part", parts.__getitem__)
    monkeypatch.setattr(environment, "simulated", lambda: False)
    compiling._compiled.cache_clear()
    with pytest.raises(BadInput, match=rf'needs {name}, which does not work here \(not found\): pip install "iosim\[gpu\]"'):
        to_ptx(next(iter(OFF.values())))
