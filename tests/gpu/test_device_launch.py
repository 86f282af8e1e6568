"""How a call becomes a launch on a device, with a stand-in for Numba that records what it is asked; and in Numba's simulator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from iosim.core.errors import BadInput
from iosim_gpu import bench, defaults, optin
from iosim_gpu.calls import Call, calls, prepared
from iosim_gpu.case import Case
from iosim_gpu.check import compare
from iosim_gpu.declaration import Step
from iosim_gpu.fitting import STATIC_LIMIT
from iosim_gpu.meters import counters, device
from iosim_gpu.meters.device import Device
from tests.gpu.every import VARIANTS

H100 = 232_448
SMALL = Case("flash2", 29, 16, 8, 12, 24, nk=37)
LARGE = Case("flash2", 64, 64, 64, 64, 128)  # 83,968 bytes of shared memory


class Array:
    """On the device, where nobody else sees it."""

    def __init__(self, host: Any) -> None:
        self.values = np.array(host)

    def copy_to_host(self, host: Any) -> None:
        host[...] = self.values


@dataclass
class Numba:
    """What a launch asks of Numba's module: ``asked`` in order. The kernel adds 1 to every array that it is given."""

    most_threads: int = 1024
    asked: list[Any] = field(default_factory=list)

    @property
    def cuda(self) -> Any:
        limits = SimpleNamespace(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=H100)
        return SimpleNamespace(jit=self.jit, to_device=Array, get_current_device=lambda: limits)

    def jit(self, function: Any, **options: Any) -> Any:
        self.asked.append(("jit", options))
        return Dispatcher(self)

    def allow(self, kernel: Any, nbytes: int, cuda: Any) -> None:
        self.asked.append(("allow", nbytes))


@dataclass
class Dispatcher:
    numba: Numba

    def typeof_pyval(self, value: Any) -> str:
        return type(value).__name__

    def compile(self, signature: tuple[str, ...]) -> Any:
        self.numba.asked.append(("compile", signature))
        return SimpleNamespace(max_threads_per_block=self.numba.most_threads, regs_per_thread=90)

    def __getitem__(self, configured: tuple[Any, ...]) -> Callable[..., None]:
        warnings.warn("Grid size 4 will likely result in GPU under-utilization due to low occupancy.", stacklevel=2)

        def launcher(*arguments: Any) -> None:
            self.numba.asked.append(("launch", configured))
            for argument in arguments:
                if isinstance(argument, Array):
                    argument.values += 1

        return launcher


@pytest.fixture(autouse=True)
def _nothing_is_compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not {mark.name for mark in request.node.iter_markers()} & {"needs_simulator", "needs_compiler"}:
        monkeypatch.setattr(Step, "make", lambda step, tiling: lambda: None)


def call_of(case: Case) -> Call:
    return calls(case, prepared(case), counting=True)[0]


def device_of(numba: Numba) -> Device:
    return Device(numba.cuda, numba.allow)


def test_a_call_is_compiled_for_what_it_is_given_and_launched_once() -> None:
    numba, call = Numba(), call_of(SMALL)
    device_of(numba).launch(call)
    signature = ("Array",) * 5 + ("float32", "Array")
    assert numba.asked == [("jit", {"lto": False}), ("compile", signature), ("launch", ((4, 1), 24, 0, 0))]


def test_what_the_kernel_wrote_comes_back_and_nothing_else() -> None:
    call = call_of(SMALL)
    before = {name: array.copy() for name, array in call.arrays.items()}
    call.arrays["O"][...] = 2.0
    device_of(Numba()).launch(call)
    assert (call.arrays["O"] == 3.0).all()
    assert (call.counts == 1).all()
    for name in "QKV":
        np.testing.assert_array_equal(call.arrays[name], before[name])


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_comes_back_is_what_the_model_says_is_written(variant: str) -> None:
    name, options = VARIANTS[variant]
    case = next(case for case in defaults.cases([name]) if case.options == options)
    launches = calls(case, prepared(case))
    for call in launches:
        assert {slot.removesuffix(".atomics") for slot in call.step.slots if slot.endswith(".atomics")} <= device.written(call)
    launched = {array for call in launches for array in device.written(call)} - {"counts"}
    assert launched == {array for array, words in case.predicted().items() if words.writes}


def test_every_kernel_and_tiling_is_compiled_once() -> None:
    numba = Numba()
    there = device_of(numba)
    asked = [call_of(case) for case in (SMALL, replace(SMALL, seed=1), replace(SMALL, causal=True))]
    for call in asked:
        there.launch(call)
    assert [what for what, _ in numba.asked].count("jit") == 2


def test_shared_memory_above_48_KB_is_dynamic_and_asked_for_before_the_launch() -> None:
    numba, call = Numba(), call_of(LARGE)
    nbytes = call.step.shared_bytes(call.tiling)
    assert nbytes > STATIC_LIMIT
    device_of(numba).launch(call)
    assert numba.asked[2:] == [("allow", nbytes), ("launch", ((1, 1), 128, 0, nbytes))]


def test_static_shared_memory_is_not_asked_for() -> None:
    numba = Numba()
    device_of(numba).launch(call_of(replace(SMALL, d=64, rows=32, cols=32)))
    assert "allow" not in dict(numba.asked)


def test_a_launch_that_a_gpu_would_refuse_is_refused_before_anything_is_compiled() -> None:
    numba = Numba()
    with pytest.raises(BadInput, match=r"^flash2 was asked for 1,025 threads a block; CUDA takes at most 1,024$"):
        device_of(numba).launch(call_of(replace(SMALL, threads=1025)))
    with pytest.raises(BadInput, match=r"but 232,448 is the dynamic limit"):
        device_of(numba).launch(call_of(replace(SMALL, rows=512, cols=512, d=64)))
    assert numba.asked == []


def test_threads_whose_registers_do_not_fit_are_refused_before_the_launch() -> None:
    numba = Numba(most_threads=704)
    with pytest.raises(BadInput, match=r"90 registers a thread .* room for 704 threads a block, not 1000; threads <= 704 would fit$"):
        device_of(numba).launch(call_of(replace(SMALL, threads=1000)))
    assert "launch" not in dict(numba.asked)
    device_of(numba).launch(call_of(replace(SMALL, threads=704)))


def test_a_timing_runs_every_launch_of_a_case_and_judges_its_last_head() -> None:
    numba, case = Numba(), Case("standard", 8, 4, 8, 8, 8, heads=2)
    xp: Any = SimpleNamespace(asarray=np.array, asnumpy=np.asarray)
    timing = bench.time_kernel(case, xp, device_of(numba), lambda run: [0.5, (run(), 0.25)[1], 1.0])
    assert [what for what, _ in numba.asked].count("launch") == 3
    assert (timing.median_seconds, timing.fastest_seconds, timing.runs) == (0.5, 0.25, 3)
    assert timing.predicted_bytes == 4 * sum(words.reads + words.writes for words in case.predicted().values())
    assert timing.bytes_per_second == 2 * timing.predicted_bytes
    assert timing.max_error == np.inf  # what the stand-in wrote is not a number
    assert timing.record()["bytes_per_second"] == timing.bytes_per_second


def test_the_baseline_is_timed_on_the_same_inputs_and_is_right() -> None:
    case = Case("standard", 8, 4, 8, 8, 8, heads=2, causal=True)
    xp: Any = SimpleNamespace(asarray=np.asarray, asnumpy=np.asarray)
    timing = bench.time_baseline(case, xp, lambda run: [1.0])
    assert (timing.by, timing.predicted_bytes) == ("cupy", bench.predicted_bytes(case))
    assert timing.max_error <= timing.bound


class Driver:
    """The driver, which keeps or forgets what it is told about a kernel."""

    def __init__(self, forgets: bool = False) -> None:
        self.told: dict[Any, int] = {}
        self.forgets = forgets

    def cuKernelSetAttribute(self, attribute: str, value: int, handle: int, identity: int) -> None:
        self.told[attribute, handle, identity] = value

    def cuKernelGetAttribute(self, attribute: str, handle: int, identity: int) -> int:
        return STATIC_LIMIT if self.forgets else self.told[attribute, handle, identity]


def compiled(handle: int = 7, identity: int = 0) -> Any:
    function = SimpleNamespace(handle=handle, device=SimpleNamespace(id=identity))
    return SimpleNamespace(_codelibrary=SimpleNamespace(get_cufunc=lambda: function))


def numba_with(driver: Any) -> Any:
    attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="max dynamic")
    binding = SimpleNamespace(CUfunction_attribute=attribute)
    return SimpleNamespace(cudadrv=SimpleNamespace(driver=SimpleNamespace(binding=binding, driver=driver)))


def test_the_driver_is_told_how_much_shared_memory_this_kernel_may_have_on_this_device() -> None:
    driver = Driver()
    optin.allow(compiled(handle=7, identity=1), 83_968, numba_with(driver))
    assert driver.told == {("max dynamic", 7, 1): 83_968}


def test_a_driver_that_does_not_keep_it_is_noticed() -> None:
    with pytest.raises(BadInput, match=r"^the kernel was to have 83,968 bytes .* leaves it at 49,152$"):
        optin.allow(compiled(), 83_968, numba_with(Driver(forgets=True)))


@pytest.mark.parametrize("kernel", [SimpleNamespace(), SimpleNamespace(_codelibrary=SimpleNamespace())])
def test_private_names_that_are_gone_are_one_line_that_names_the_version(kernel: Any) -> None:
    with pytest.raises(BadInput, match=r"^more than 48 KB .* private names of numba-cuda 0\.30, which .* lacks \(.*\); take smaller"):
        optin.allow(kernel, 83_968, numba_with(Driver()))


@pytest.mark.needs_compiler
def test_the_private_names_of_the_installed_numba_cuda_are_those_it_was_written_for() -> None:
    from iosim_gpu.cuda import cuda

    inside = cuda.cudadrv.driver
    assert int(inside.binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 8
    assert callable(inside.binding.cuKernelSetAttribute)
    assert callable(inside.binding.cuKernelGetAttribute)
    assert "handle" in inside.CudaPythonFunction.__slots__
    assert isinstance(inside.CudaPythonFunction.device, property)
    assert {"_codelibrary", "get_cufunc"} <= set(cuda.dispatcher._Kernel.bind.__code__.co_names)
    for name in ("max_threads_per_block", "regs_per_thread"):
        assert isinstance(getattr(cuda.dispatcher._Kernel, name), property)


@pytest.mark.needs_simulator
def test_the_simulator_is_no_gpu_though_numba_says_so() -> None:
    from iosim_gpu.cuda import cuda

    assert cuda.is_available()
    assert device.absent() == ("a GPU was asked for, but this process runs kernels in Numba's simulator; unset NUMBA_ENABLE_CUDASIM")
    with pytest.raises(BadInput, match="simulator"):
        device.measure_counters_on_device(SMALL)


@pytest.mark.needs_simulator
@pytest.mark.parametrize("kernel", ["flash2", "standard"])
def test_the_counters_come_back_from_the_simulator_as_from_a_device(kernel: str) -> None:
    """Numba's simulator behind the same calls: arrays go there and back, and nothing is lost between the launches of a kernel."""
    from iosim_gpu.cuda import cuda

    there = Device(Simulated(cuda), allow=lambda kernel, nbytes, cuda: pytest.fail("48 KB are enough"))
    case = Case(kernel, 13, 4, 8, 8, 6, nk=9, heads=2)
    measured = counters.measure(case, runner=there.launch)
    assert [row.failure for row in compare(case, measured) if not row.sound] == []


class Simulated:
    """The simulator's module with what only a device has: a limit, and kernels that are compiled."""

    def __init__(self, cuda: Any) -> None:
        self.to_device, self.simulator = cuda.to_device, cuda

    def get_current_device(self) -> Any:
        return SimpleNamespace(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=H100)

    def jit(self, function: Any, **options: Any) -> Any:
        return Compiled(self.simulator.jit(function))


class Compiled:
    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def typeof_pyval(self, value: Any) -> type:
        return type(value)

    def compile(self, signature: tuple[type, ...]) -> Any:
        return SimpleNamespace(max_threads_per_block=1024, regs_per_thread=90)

    def __getitem__(self, configured: tuple[Any, ...]) -> Any:
        return self.kernel[configured]


@pytest.mark.needs_compiler
def test_what_a_hopper_gpu_is_given_is_what_the_emulator_executes() -> None:
    """Numba launches for sm_90a, the emulator runs sm_90; without link-time optimisation the instructions are the same."""
    from iosim_gpu.compiling import instructions, to_ptx
    from iosim_gpu.cuda import cuda

    call = calls(SMALL, prepared(SMALL))[0]
    function = call.step.make(call.tiling)
    assert cuda.jit(function, **device.OPTIONS).targetoptions["lto"] is False
    signature = tuple(cuda.jit(function).typeof_pyval(value) for _, value in call.args)
    native = cuda.compile_ptx(function, signature, cc=(9, 0, "a"))[0]
    assert ".target sm_90a" in native
    assert list(instructions(native)) == list(instructions(to_ptx(call, "sm_90")))
