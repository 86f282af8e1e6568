"""The kernels' sources keep to what Numba compiles well and its simulator runs rightly; what they compile to is lean."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import iosim_gpu
from iosim_gpu import defaults
from iosim_gpu.calls import Call, calls, prepared
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.compiling import instructions, to_ptx, usage
from iosim_gpu.declaration import Step
from iosim_gpu.tiling import Tiling
from tests.gpu.every import STEPS

FOLDER = Path(iosim_gpu.__file__).parent / "kernels"
MODULES = sorted(FOLDER.glob("*.py"))
COMPILED = [name for name in STEPS if not name.endswith("-alone")]
"""A kernel less: the one without dQ is the other's source, and every compilation takes a second."""

MOST_REGISTERS = 128
SIMULATED_TOO = {"threadIdx", "blockIdx", "shared", "local", "atomic", "syncthreads", "jit"}
"""What the kernels may ask of ``cuda``: Numba's simulator has all of it, and no warp intrinsics."""
MAKERS = ("parts(", "counters(", "cuda.shared.array(", "cuda.local.array(")
GLOBAL = {"ld.global.f32", "ld.global.u32", "st.global.f32", "st.global.u32", "atom.global.add.f32"}
"""Accesses to global memory, one element each: the counts are of elements."""


@cache
def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def functions(inside: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(inside) if isinstance(node, ast.FunctionDef))


def asked_of_cuda(inside: ast.AST) -> Iterator[ast.Attribute]:
    for node in ast.walk(inside):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cuda":
            yield node


def kernel_of(step: Step) -> ast.FunctionDef:
    """The function that the step's factory, or the one that this calls, defines inside."""
    file, name = f"{step.factory.__module__.rpartition('.')[2]}.py", step.factory.__name__
    known = {one.name: one for one in tree(FOLDER / file).body if isinstance(one, ast.FunctionDef)}
    nested = [one for one in functions(known[name]) if one is not known[name]]
    if not nested:
        called = [node.func.id for node in ast.walk(known[name]) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        nested = [one for other in called if other in known for one in functions(known[other]) if one is not known[other]]
    (kernel,) = nested
    return kernel


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_kernel_takes_the_arrays_of_its_step(step: Step) -> None:
    assert tuple(argument.arg for argument in kernel_of(step).args.args) == (*step.arrays, "scale", "counts")


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_every_array_has_a_counter(step: Step) -> None:
    assert {slot.partition(".")[0] for slot in step.slots} == set(step.arrays)
    assert {slot.partition(".")[2] for slot in step.slots} <= {"loads", "stores", "atomics"}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_kernels_ask_only_for_what_the_simulator_has(module: Path) -> None:
    assert {node.attr for node in asked_of_cuda(tree(module))} <= SIMULATED_TOO


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_device_functions_do_not_name_cuda(module: Path) -> None:
    """The simulator exchanges the ``cuda`` of a device function's module at every call; threads that call at once undo each other's."""
    marked = [one for one in functions(tree(module)) if any(ast.unparse(mark) == "device" for mark in one.decorator_list)]
    assert not [one.name for one in marked if list(asked_of_cuda(one))]


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_arrays_on_chip_do_not_alias(step: Step) -> None:
    """The simulator knows an array by the line that makes it, which for the tiles of all kernels is one line of their frame."""
    made = [call for call in ast.walk(kernel_of(step)) if isinstance(call, ast.Call) and ast.unparse(call).startswith(MAKERS)]
    assert max(Counter(call.lineno for call in made).values()) == 1
    assert max(Counter(ast.unparse(call.func) for call in made).values()) == 1


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_sizes_on_chip_are_constants_of_the_factory(step: Step) -> None:
    """An array whose size is an argument, or a name of the module that may change, is no array on a GPU, or one of its first size."""
    for call in ast.walk(kernel_of(step)):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(("shared.array", "local.array")):
            assert ast.unparse(call.args[0]) == "LISTED"


def test_sizes_of_the_frame_are_constants_too() -> None:
    (framed,) = (one for one in tree(FOLDER / "frame.py").body if isinstance(one, ast.FunctionDef) and one.name == "framed")
    baked = {name.id for line in framed.body for name in ast.walk(line) if isinstance(line, ast.Assign) and isinstance(name, ast.Name)}
    sizes = [call.args[0] for call in ast.walk(framed) if isinstance(call, ast.Call) and ast.unparse(call.func) == "array"]
    assert len(sizes) == 2
    assert {ast.unparse(size) for size in sizes} <= baked


def default_calls(*, counting: bool = False) -> dict[str, Call]:
    """One call for every step, causal, in the default tiles."""
    found = {}
    for kernel in KERNELS:
        for case in defaults.compiled(kernel, causal=True):
            found.update({call.step.name: call for call in calls(case, prepared(case), counting=counting)})
    return found


def lean(call: Call, arch: str) -> None:
    ptx = to_ptx(call, arch)
    found = usage(ptx, arch)
    assert found.registers <= MOST_REGISTERS
    assert (found.stack_bytes, found.spill_stores, found.spill_loads, found.local_bytes) == (0, 0, 0, 0)
    assert not found.double
    assert found.shared_bytes == call.step.shared_bytes(call.tiling)


@pytest.mark.needs_compiler
@pytest.mark.parametrize("step", COMPILED)
def test_no_spills_no_local_memory_no_doubles(step: str) -> None:
    lean(default_calls()[step], "sm_90")


@pytest.mark.needs_compiler
@pytest.mark.parametrize("step", COMPILED)
def test_global_memory_is_met_an_element_at_a_time(step: str) -> None:
    names = instructions(to_ptx(default_calls()[step]))
    assert {name for name in names if name.partition(".")[0] in ("ld", "st", "atom", "red") and ".global" in name} <= GLOBAL


@pytest.mark.slow
@pytest.mark.needs_compiler
@pytest.mark.parametrize("counting", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_the_same_on_an_older_gpu_and_with_counters(step: str, counting: bool) -> None:
    lean(default_calls(counting=counting)[step], "sm_80")


@pytest.mark.needs_compiler
@pytest.mark.parametrize(("kernel", "static"), [pytest.param("flash2", 0, marks=pytest.mark.slow), ("block-sparse", 12)])
def test_dynamic_shared_memory_is_not_declared(kernel: str, static: int) -> None:
    (case,) = defaults.compiled(kernel, 64, 64)
    (call,) = calls(case, prepared(case))
    ptx = to_ptx(replace(call, tiling=replace(call.tiling, dynamic=True)))
    assert usage(ptx).shared_bytes == static
    assert ".extern .shared" in ptx


@pytest.mark.needs_compiler
def test_every_tiling_is_a_kernel_of_its_own() -> None:
    """What another tiling leaves behind cannot reach a kernel: its constants were baked in when it was made."""
    step = STEPS["flash2"]
    one, other = step.make(Tiling(2, 3, 4, 8)), step.make(Tiling(4, 3, 4, 8))
    assert one is not other
    assert [dict(zip(made.__code__.co_freevars, made.__closure__ or (), strict=True))["Br"].cell_contents for made in (one, other)] == [
        2,
        4,
    ]
