"""What the emulator refuses and what it stops, each in one line that names the place."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from iosim.core.errors import BadInput, IosimError
from iosim_gpu.ptx import KernelFault, UnsupportedPtx, emulate, parse
from iosim_gpu.ptx.faults import quoted
from iosim_gpu.ptx.text import kernel_text


def _run(text: str, *args: tuple[str, Any], grid: tuple[int, int] = (1, 1), threads: int = 1, **options: int) -> None:
    emulate(text, grid=grid, threads=threads, args=args, **options)


def _line_of(text: str, statement: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), start=1) if statement in line)


def _caught(error: type[IosimError], text: str, *args: tuple[str, Any], **options: Any) -> str:
    with pytest.raises(error) as caught:
        _run(text, *args, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


UNKNOWN = [
    ("popc.b32 %r1, %r0;", "does not know popc.b32"),
    ("sin.approx.f32 %f1, %f0;", "does not know sin.approx.f32"),
    ("fma.rn.f64 %fd1, %fd0, %fd0, %fd0;", "does not know fma.rn.f64"),
    ("add.sat.s32 %r1, %r0, %r0;", "does not know add.sat.s32"),
    ("add.cc.u32 %r1, %r0, %r0;", "does not know add.cc.u32"),
    ("add.rz.f32 %f1, %f0, %f0;", "does not know add.rz.f32"),
    ("fma.rz.f32 %f1, %f0, %f0, %f0;", "does not know fma.rz.f32"),
    ("mul.s32 %r1, %r0, %r0;", "does not know mul.s32"),
    ("mul.hi.f32 %f1, %f0, %f0;", "does not know mul.hi.f32"),
    ("max.NaN.f32 %f1, %f0, %f0;", "does not know max.NaN.f32"),
    ("cvt.rn.s32.f32 %r1, %f0;", "does not know cvt.rn.s32.f32"),
    ("cvt.sat.u8.s32 %r1, %r0;", "does not know cvt.sat.u8.s32"),
    ("setp.lt.and.s32 %p0, %r0, %r1, %p1;", "does not know setp.lt.and.s32"),
    ("shfl.sync.down.b32 %r1, %r0, 1, 31, -1;", "does not know shfl.sync.down.b32"),
    ("ld.const.u32 %r0, [%A];", "does not know ld.const.u32"),
    ("ld.global.ca.u32 %r0, [%A];", "does not know ld.global.ca.u32"),
    ("ld.global.v8.f32 %f0, [%A];", "does not know ld.global.v8.f32"),
    ("ld.global.v4.f64 %fd0, [%A];", "does not know ld.global.v4.f64"),
    ("ld.shared.nc.f32 %f0, [%A];", "does not know ld.shared.nc.f32"),
    ("st.global.f16 [%A], %rs0;", "does not know st.global.f16"),
    ("atom.global.add.f16 %rs0, [%A], %rs1;", "does not know atom.global.add.f16"),
    ("atom.global.gpu.add.u32 %r0, [%A], 1;", "does not know atom.global.gpu.add.u32"),
    ("bar.warp.sync -1;", "does not know bar.warp.sync"),
    ("membar.gl 3;", "does not know membar.gl"),
    ("bar.sync 1;", "only barrier 0"),
    ("bar.sync 0, 64;", "only barrier 0"),
    ("@%p0 bar.sync 0;", "only barrier 0"),
    ("bra $nowhere;", "no such label"),
    ("mov.u32 %r0, %laneid;", "no register %laneid"),
    ("mov.u32 %r0, %clock;", "no register %clock"),
    ("mov.u32 %r0, %tid.w;", "no form"),
    ("mov.u32 %r999, 1;", "must go to a register"),
    ("mov.u32 %tid.x, 1;", "must go to a register"),
    ("mov.u64 %rd0, somewhere;", "knows no somewhere"),
    ("@%q bra $nowhere;", "%q is not a predicate"),
    ("@%r0 mov.u32 %r1, 1;", "%r0 is not a predicate"),
    ("add.s64 %rd0, %r0, 1;", "%r0 is kept as int32"),
    ("add.s32 %r0, %rd0, 1;", "%rd0 is kept as int64"),
    ("add.f32 %f0, %f1, %fd1;", "%fd1 is kept as float64"),
    ("mov.u32 %p0, 1;", "%p0 is kept as bool"),
    ("selp.b32 %r0, 1, 2, %rs0;", "%rs0 is kept as int16"),
    ("ld.global.f32 %rd0, [%A];", "%rd0 is kept as int64"),
    ("ld.global.u32 %fd0, [%A];", "%fd0 is kept as float64"),
    ("ld.global.u64 %r0, [%A];", "%r0 is kept as int32"),
    ("st.global.u64 [%A], %r0;", "%r0 is kept as int32"),
    ("atom.global.add.u32 %rd0, [%A], 1;", "%rd0 is kept as int64"),
    ("atom.global.add.u32 %r0, [%A], %rd1;", "%rd1 is kept as int64"),
    ("ld.global.u32 %r0, [%r1];", "%r1 is kept as int32"),
    ("ld.global.u32 %r0, %A;", "address in brackets"),
    ("ld.global.u32 %r0, [S];", "S is not in global memory"),
    ("ld.shared.u32 %r0, [T];", "knows no T"),
    ("ld.param.u64 %rd0, [k_param_99];", "no such parameter"),
    ("ld.param.u32 %r0, [k_param_0];", "of type .u64"),
    ("ld.param.u64 %rd0, [k_param_0+8];", "of type .u64"),
    ("ld.param.x64 %rd0, [k_param_0];", "of type .u64"),
    ("ld.global.v2.f32 %f0, [%A];", "moves 2 elements"),
    ("ld.global.f32 {%f0, %f1}, [%A];", "moves 1 elements"),
    ("ld.global.v2.f32 {%f0}, [%A];", "moves 2 elements"),
    ("add.s32 %r0, %r1;", "takes 3 operands"),
    ("add.s32 %r0, %r1, %r2, %r3;", "takes 3 operands"),
    ("add.s32 %r0, %r1, {%r2, %r3};", "cannot be written so"),
    ("add.s32 %r0, %r1, [%rd0];", "cannot be written so"),
    ("mov.u32 %r0, S;", "cannot be written so"),
    ("add.s32 %r0, %r1, 4294967296;", "not of type .b32"),
    ("add.s32 %r0, %r1, -2147483649;", "not of type .b32"),
    ("add.f32 %f0, %f1, 1;", "not of type .f32"),
    ("add.f32 %f0, %f1, 0d3FF0000000000000;", "not of type .f32"),
    ("mov.b32 %r0, 0f3F800000;", "not of type .b32"),
    ("add.f32 %f0, %f1, 1.5;", "no form"),
    ("atom.global.add.u32 _, [%A], 1;", "no form"),
    ("mov.b64 %rd0, {%r0, $x};", "a vector holds registers"),
    ("setp.lt.s32 %p0|%p1, %r0, %r1;", "no form"),
    ("call.uni (%r0), f, (%r1);", "no form"),
    ("add.s32 %r0, %r1, 2", "not one whole instruction"),
    ("{ mov.u32 %r0, 7;", "not one whole instruction"),
    (".reg .b128 %q<2>;", "not a declaration"),
    (".branchtargets $a;", "not a declaration"),
    (".shared .b8 x[4];", "not a declaration"),
    # Text that would take long to read, ask for memory that is not there, or mean something else than it seems to.
    ("a" * 100_000, "more than 4096 characters"),
    (f"mov.u32 %r0, {'1' * 5000};", "more than 4096 characters"),
    (f"mov.b32 %r0, {'{' * 1500}%r1{'}' * 1500};", "no form"),
    ("mov.b32 %r0, {%r1, {%r2, %r3}};", "no form"),
    (".reg .b32 %q<99999999999>;", "more than 100000 registers"),
    (".reg .b32 %q<07>;", "not a declaration"),
    (".local .align 0 .b8 l[4];", "power of two"),
    (".local .align 12 .b8 l[4];", "power of two"),
    (".local .align 4 .b8 l[9999999999999];", "524288 bytes at most"),
    ("mov.u32 %r0, 010;", "no form"),
    ("mov.u32 %r0, \u0663;", "no form"),
    ("ld.global.u32 %r0, [%A+010];", "no form"),
    ("ld.global.u32 %r0, [%A+2147483648];", "no form"),
    ("ld.global.u32 %r0, [%A+-99999999999999999999];", "no form"),
    (".reg .b64 %A;", "%A is declared twice"),
    (".reg .f32 %r<2>;", "%r0 is declared twice"),
    ("ret 3;", "ret takes 0 operands"),
    ('.pragma "nounroll"; mov.u32 %r0, 7;', "not a declaration"),
    (".loc 1 2 3; mov.u32 %r0, 7;", "not a declaration"),
]


@pytest.mark.parametrize(("statement", "why"), UNKNOWN, ids=[statement[:60] for statement, _ in UNKNOWN])
def test_what_is_not_known_exactly_is_refused_with_its_line(statement: str, why: str) -> None:
    text = kernel_text("mov.u32 %r0, 0;\n@MARK", arrays=["A"], shared={"S": 16}).replace("@MARK", statement)
    message = _caught(UnsupportedPtx, text, ("A", np.zeros(4, np.uint32)))
    number = _line_of(text, statement)
    assert message.startswith(f"{quoted(number, statement)}: ")
    assert why in message
    assert len(message) < 300


OUTSIDE = [
    (".func f()", "not a declaration"),
    (".const .align 4 .b8 c[4];", "not a declaration"),
    (".global .align 4 .b8 table[4] = {1, 2, 3, 4};", "not a declaration"),
    (".local .align 4 .b8 l[4];", "not a declaration"),
    ("ret;", "not a declaration"),
    (".shared .align 0 .b8 x[4];", "power of two"),
    (".shared .align 4 .b8 x[99999999999999999];", "524288 bytes at most"),
]


@pytest.mark.parametrize(("line", "why"), OUTSIDE, ids=[line for line, _ in OUTSIDE])
def test_unknown_lines_outside_a_kernel(line: str, why: str) -> None:
    with pytest.raises(UnsupportedPtx, match=re.escape(f'PTX line 4 "{line}"') + ".*" + why):
        parse(kernel_text("").replace(".address_size 64\n", f".address_size 64\n{line}\n"))


def test_unknown_lines_between_a_kernel_s_name_and_its_body() -> None:
    for line in (".param .align 8 .b8 k_param_0[16]", ".param .u128 k_param_0", ".reqntid 32, 1, 1"):
        with pytest.raises(UnsupportedPtx, match=r"PTX line \d+ .* not a parameter or limit"):
            parse(kernel_text("").replace("k(\n", f"k(\n{line}\n"))
    for line in (".maxntid x", ".maxntid 0", ".maxntid 8,", ".maxntid 8, 8, 8, 8"):
        with pytest.raises(UnsupportedPtx, match=r"PTX line \d+ .* not a parameter or limit"):
            parse(kernel_text("").replace(")\n{", f")\n{line}\n{{"))


def test_names_stand_for_one_thing() -> None:
    for text, name in (
        (kernel_text("", scalars={"n": "u32"}).replace("\n)", ",\n\t.param .u32 k_param_0\n)"), "k_param_0"),
        (kernel_text("", shared={"S": 4}).replace("\n.visible .entry", "\n.shared .align 4 .b8 S[8];\n.visible .entry"), "S"),
        (kernel_text("").replace("ret;", "$a:\nret;\n$a:\nret;"), "$a"),
    ):
        with pytest.raises(UnsupportedPtx, match=re.escape(f"{name} is declared twice")):
            parse(text)


def test_a_kernel_must_be_whole_and_alone() -> None:
    one = kernel_text("")
    _caught(UnsupportedPtx, one.replace("ret;", "")).index("runs off its end")
    _caught(UnsupportedPtx, one.replace("ret;", "@%p0 bra $a;\n$a:\nmov.u32 %r0, 1;")).index("runs off its end")
    _caught(UnsupportedPtx, one.replace("ret;", "@%p0 ret;")).index("runs off its end")
    _caught(UnsupportedPtx, one.replace("\n}\n", "\n")).index("ends inside the kernel k, which begins in line 5")
    _caught(UnsupportedPtx, one + one.split("64\n", maxsplit=1)[1].replace("entry k", "entry l")).index("2 kernels")
    _caught(UnsupportedPtx, ".version 9.0\n").index("0 kernels")


def test_long_lines_are_cut() -> None:
    text = kernel_text(f"mov.u32 %r0, {'x' * 300};")
    assert len(_caught(UnsupportedPtx, text)) < 250


# Arguments


def test_arguments_must_fit() -> None:
    text = kernel_text("", arrays=["A"], scalars={"n": "u32", "x": "f32", "b": "u8"})
    a = np.zeros((4, 2), np.float32)
    good: list[tuple[str, Any]] = [("A", a[:, 0].copy()), ("n", 3), ("x", 0.5), ("b", np.bool_(True))]
    _run(text, *good)
    _run(text, good[0], ("n", np.uint32(2**32 - 1)), ("x", np.float64(2)), ("b", True))
    assert "takes 10 parameters, but the arguments make 9: A 7, n 1, x 1" in _caught(BadInput, text, *good[:3])
    assert "make 12: A 9" in _caught(BadInput, text, ("A", a), *good[1:])
    assert "takes 10 parameters, but the arguments make 0: none" in _caught(BadInput, text)
    for value in (2**32, -(2**31) - 1, 1.5, np.float32(2)):
        assert f"n = {value}" in _caught(BadInput, text, good[0], ("n", value), *good[2:])
    assert "C-contiguous" in _caught(BadInput, text, ("A", a[:, 0]), *good[1:])
    assert "plain numbers" in _caught(BadInput, text, ("A", np.array([None])), *good[1:])
    assert "must be an array or a real number: got complex" in _caught(BadInput, text, good[0], ("n", np.complex64(1)), *good[2:])
    assert "different names" in _caught(BadInput, kernel_text("", arrays=["A", "B"]), good[0], good[0])


def test_launches_must_fit() -> None:
    text = kernel_text("", shared={"S": 4})
    assert "1 to 1024 threads: got 0" in _caught(BadInput, text, threads=0)
    assert "1 to 1024 threads: got 1025" in _caught(BadInput, text, threads=1025)
    assert "grid" in _caught(BadInput, text, grid=(0, 1))
    assert "no shared memory of open size" in _caught(BadInput, text, dynamic_shared=4)
    assert "-1 bytes" in _caught(BadInput, kernel_text("", shared={"S": 0}), dynamic_shared=-1)
    limited = text.replace(")\n{", ")\n.maxntid 16, 2, 1\n.minnctapersm 2\n{")
    _run(limited, threads=32)
    assert "1 to 32 threads: got 33" in _caught(BadInput, limited, threads=33)


# Memory

AT = "mov.u32 %r0, %tid.x; add.s32 %r1, %r0, %n; mul.wide.s32 %rd0, %r1, 4; add.s64 %rd1, %A, %rd0;"


def _at(access: str) -> str:
    return kernel_text(AT + access, arrays=["B", "A", "C"], scalars={"n": "u32"})


@pytest.mark.parametrize(
    "access", ["ld.global.f32 %f0, [%rd1];", "st.global.f32 [%rd1], 0f00000000;", "atom.global.add.f32 %f0, [%rd1], %f1;"]
)
@pytest.mark.parametrize(
    ("shift", "thread", "element", "index"),
    [(3, 3, 6, (3, 0)), (-1, 0, -1, (-1, 1)), (7, 0, 7, (1, 0, 1)), (1000, 0, 1000, (500, 0)), (-2000, 0, -2000, (-1000, 0))],
)
def test_out_of_bounds_names_the_array_and_the_index(access: str, shift: int, thread: int, element: int, index: tuple[int, ...]) -> None:
    shape = (3, 2) if len(index) == 2 else (1, 3, 2)
    text = _at(access)
    flat = np.zeros(6, np.float32)
    args = [("B", np.zeros(99, np.float32)), ("A", flat), ("C", np.zeros(99, np.float32)), ("n", shift)]
    message = _caught(KernelFault, text, *args, threads=4)
    place = f'PTX line {_line_of(text, access)} "{access}": thread {thread} of block (0, 0): '
    assert message == place + f"outside A: element {element} of 6, index ({element},) of shape (6,)"
    shaped = _caught(KernelFault, _shaped(text, len(shape)), args[0], ("A", flat.reshape(shape)), *args[2:], threads=4)
    assert shaped.endswith(f"outside A: element {element} of 6, index {index} of shape {shape}")


def _shaped(text: str, rank: int) -> str:
    """The same kernel where A, the second array, has more axes: two more parameters each, which it does not read."""
    more = 2 * (rank - 1)
    extra = "".join(f"\t.param .u64 extra_{i},\n" for i in range(more))
    return text.replace("\t.param .u64 k_param_14,\n", extra + "\t.param .u64 k_param_14,\n")


def test_out_of_bounds_in_a_mixed_access_and_far_away() -> None:
    body = """mov.u32 %r0, %tid.x; setp.eq.s32 %p0, %r0, 0; selp.b64 %rd0, %A, %B, %p0; mul.wide.s32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1; ld.global.f32 %f0, [%rd2];"""
    args = [("A", np.zeros(4, np.float32)), ("B", np.zeros(2, np.float32))]
    text = kernel_text(body, arrays=["A", "B"])
    assert "thread 2 of block (0, 0): outside B: element 2 of 2" in _caught(KernelFault, text, *args, threads=3)
    null = kernel_text("mov.u64 %rd0, 0; ld.global.f32 %f0, [%rd0];", arrays=["A", "B"])
    assert "outside A: element -" in _caught(KernelFault, null, *args)
    assert "was given no array" in _caught(KernelFault, kernel_text("ld.global.f32 %f0, [%rd0];"))


def test_misaligned_or_wrong_width() -> None:
    a = ("A", np.zeros(8, np.float32))
    assert "byte 2 of A is not a multiple of 4: misaligned" in _caught(
        KernelFault, kernel_text("ld.global.f32 %f0, [%A+2];", arrays=["A"]), a
    )
    vector = kernel_text("ld.global.v2.f32 {%f0, %f1}, [%A+4];", arrays=["A"])
    assert "byte 4 of A is not a multiple of 8: misaligned" in _caught(KernelFault, vector, a)
    beyond = kernel_text("ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%A+32];", arrays=["A"])
    assert "outside A: element 8 of 8" in _caught(KernelFault, beyond, a)
    half = kernel_text("ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%A+16];", arrays=["A"])
    assert "outside A: element 4 of 6" in _caught(KernelFault, half, ("A", np.zeros(6, np.float32)))
    room = kernel_text("st.shared.v4.f32 [S+16], {%f0, %f1, %f2, %f3};", shared={"S": 24})
    assert "byte 16 is outside its 24 bytes for an access of 16 bytes" in _caught(KernelFault, room, grid=(2, 1))
    assert "A has elements of 4 bytes, not 8" in _caught(KernelFault, kernel_text("ld.global.u64 %rd0, [%A];", arrays=["A"]), a)


def test_read_only_arrays_are_not_written() -> None:
    a = np.zeros(4, np.float32)
    a.flags.writeable = False
    _run(kernel_text("ld.global.f32 %f0, [%A];", arrays=["A"]), ("A", a))
    for access in ("st.global.f32 [%A], %f0;", "red.global.add.f32 [%A], %f0;"):
        assert "A is read-only" in _caught(KernelFault, kernel_text(access, arrays=["A"]), ("A", a))


@pytest.mark.parametrize("space", ["shared", "local"])
def test_shared_and_local_memory_have_ends(space: str) -> None:
    name = {"shared": "S", "local": "depot"}[space]
    for offset, wrong in ((8, "outside its 8 bytes"), (-4, "outside its 8 bytes"), (6, "is outside"), (2, "is misaligned")):
        for access in (f"ld.{space}.f32 %f0, [%rd1+{offset}];", f"st.{space}.f32 [%rd1+{offset}], %f0;"):
            body = f"mov.u64 %rd0, {name}; mov.u32 %r0, %tid.x; setp.eq.s32 %p0, %r0, 37; mov.u64 %rd1, %rd0;\n@%p0 {access}"
            text = kernel_text(body, shared={"S": 8} if space == "shared" else {}, local_bytes=8 if space == "local" else 0)
            message = _caught(KernelFault, text, grid=(2, 2), threads=64)
            assert f"thread 37 of block (0, 0): {space} memory: byte {offset} is" in message
            assert wrong in message


def test_lanes_that_take_no_part_do_no_harm() -> None:
    """Behind a guard or a branch, wild pointers and zero divisors of the other lanes are of no account."""
    body = """mov.u32 %r0, %tid.x; mul.wide.s32 %rd0, %r0, 4; add.s64 %rd1, %A, %rd0; setp.lt.s32 %p0, %r0, 4; mov.u32 %r1, 0;
    @%p0 ld.global.u32 %r1, [%rd1]; setp.ne.s32 %p1, %r1, 0; @%p1 div.s32 %r2, 100, %r1; @%p0 st.global.u32 [%rd1], %r2;"""
    a = np.array([5, 0, 7, 9], np.int32)
    _run(kernel_text(body, arrays=["A"]), ("A", a), threads=40)
    assert a.tolist() == [20, -1, 14, 11]  # a register that was never written has all its bits set


def test_a_guard_leaves_the_other_lanes_what_they_had() -> None:
    body = """mov.u32 %r0, %tid.x; mul.wide.s32 %rd0, %r0, 4; add.s64 %rd1, %A, %rd0; mov.u32 %r1, 7; mov.u32 %r2, 9;
    setp.lt.s32 %p0, %r0, 2; @%p0 mov.u32 %r1, 8; @!%p0 ld.global.u32 %r2, [%A]; add.s32 %r3, %r1, %r2; st.global.u32 [%rd1], %r3;"""
    a = np.full(4, 1, np.int32)
    _run(kernel_text(body, arrays=["A"]), ("A", a), threads=4)
    assert a.tolist() == [17, 17, 8, 8]


@pytest.mark.parametrize("opcode", ["div.s32", "rem.u32", "div.u64", "rem.s64"])
def test_integer_division_by_zero(opcode: str) -> None:
    register = "%r" if opcode.endswith("32") else "%rd"
    widen = "" if register == "%r" else "cvt.s64.s32 %rd2, %r2;"
    body = f"mov.u32 %r1, %tid.x; sub.s32 %r2, %r1, 3; {widen} {opcode} {register}3, {register}2, {register}2;"
    text = kernel_text(body)
    message = _caught(KernelFault, text, grid=(1, 2), threads=8)
    statement = f"{opcode} {register}3, {register}2, {register}2;"
    place = f'PTX line {_line_of(text, opcode)} "{statement}": thread 3 of block (0, 0): '
    assert message == place + "integer division by zero"
    _run(text, threads=3)


# Control


def test_an_endless_loop_ends() -> None:
    text = kernel_text("mov.u32 %r0, 1;\n$L1:\nadd.s32 %r0, %r0, 1;\nbra $L1;")
    message = _caught(KernelFault, text, step_limit=1000)
    assert f"PTX line {_line_of(text, 'add.s32')}: no end in sight" in message
    assert "1000 basic blocks" in message


def test_the_step_limit_is_not_below_what_is_needed() -> None:
    text = kernel_text("mov.u32 %r0, 0;\n$L1:\nadd.s32 %r0, %r0, 1;\nsetp.lt.s32 %p0, %r0, 10;\n@%p0 bra $L1;")
    _run(text, step_limit=12, grid=(3000, 1))
    _caught(KernelFault, text, step_limit=11)


def test_a_grid_is_not_laid_out_before_it_runs() -> None:
    """The first thread block goes wrong, long before there would be room for the numbers of all."""
    text = kernel_text("ld.global.f32 %f0, [%rd0];")
    assert "was given no array" in _caught(KernelFault, text, grid=(2**31 - 1, 65_535))


HALF = "mov.u32 %r0, %tid.x; setp.lt.s32 %p0, %r0, 16;"


def test_a_barrier_that_some_threads_skip() -> None:
    skipped = kernel_text(HALF + "@!%p0 bra $skip;\nbar.sync 0;\n$skip:\nmov.u32 %r1, 1;\nbar.sync 0;\nmov.u32 %r2, 1;")
    first, second = (number for number, line in enumerate(skipped.splitlines(), start=1) if "bar.sync" in line)
    message = _caught(KernelFault, skipped, threads=40, grid=(1, 1))
    assert message.startswith(f'PTX line {first} "bar.sync 0;": not all threads of block (0, 0) come to this barrier: of 40, 16 wait here')
    assert f"24 wait in line {second}" in message
    _run(skipped, threads=16)


def test_a_barrier_after_some_threads_have_ended() -> None:
    for body in ("@!%p0 bra $end;\nbar.sync 0;\n$end:\nmov.u32 %r1, 1;", "@!%p0 ret;\nbar.sync 0;"):
        text = kernel_text(HALF + body)
        message = _caught(KernelFault, text, threads=40, grid=(2, 1))
        assert "of 40, 16 wait here, 24 have ended" in message
        _run(text, threads=16, grid=(2, 1))


def test_thread_blocks_reach_barriers_on_their_own() -> None:
    """Each block goes round the loop, and so to the barrier, as often as its number says."""
    body = """mov.u32 %r0, %ctaid.x; mov.u32 %r1, 0;
$L1:
    setp.ge.s32 %p0, %r1, %r0; @%p0 bra $end; bar.sync 0; add.s32 %r1, %r1, 1; bra $L1;
$end:
"""
    run = emulate(kernel_text(body), grid=(5, 1), threads=8, args=[])
    assert run.barriers == 0 + 1 + 2 + 3 + 4


def test_errors_are_iosim_errors() -> None:
    assert issubclass(UnsupportedPtx, BadInput)
    assert issubclass(KernelFault, IosimError)
    assert not issubclass(KernelFault, BadInput)
