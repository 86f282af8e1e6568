"""Every load, store and atomic that the emulator accepts: the bytes that arrive, the order of atomics, and what is counted."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from iosim_gpu.ptx import Access, emulate
from iosim_gpu.ptx.text import kernel_text
from iosim_gpu.ptx.transfers import TRANSFERS

LANES = 40  # a whole warp and a quarter of one


class Name:
    """What an opcode says, read afresh."""

    def __init__(self, opcode: str) -> None:
        self.opcode = opcode
        head, *parts, self.kind = opcode.split(".")
        self.head = head
        self.space = next((part for part in parts if part in {"global", "shared", "local"}), "global")
        self.vector = next((int(part[1:]) for part in parts if part in {"v2", "v4"}), 1)
        self.operation = parts[-1] if head in {"atom", "red"} else ""
        self.size = int(self.kind[1:]) // 8
        self.span = self.size * self.vector

    @property
    def register(self) -> str:
        return {"f32": "f", "f64": "fd"}.get(self.kind, {1: "rs", 2: "rs", 4: "r", 8: "rd"}[self.size])

    @property
    def plain(self) -> str:
        return self.kind if self.kind[0] == "f" else f"u{8 * self.size}"

    def vector_text(self, registers: list[str]) -> str:
        return registers[0] if self.vector == 1 else "{" + ", ".join(registers) + "}"

    def value(self, raw: bytes) -> int:
        """The integer that a wider register gets: by the sign for s, with zeros otherwise."""
        return int.from_bytes(raw, "little", signed=self.kind[0] == "s")


def _sectors(addresses: list[int], lanes: list[int]) -> int:
    return len({(lane // 32, address // 32) for lane, address in zip(lanes, addresses, strict=True)})


# The place of each lane's access: neither in order nor all in one sector.
PLACES = [(7 * lane) % LANES for lane in range(LANES)]
WHERE = """mov.u32 %r60, %tid.x; mul.lo.s32 %r61, %r60, 7; rem.u32 %r61, %r61, 40;
mul.wide.u32 %rd60, %r60, {span}; mul.wide.u32 %rd61, %r61, {span};"""


def _base(name: Name) -> str:
    """The address of a lane's access, in the space of the opcode, into %rd62; local memory is each thread's own."""
    return {
        "global": "add.s64 %rd62, %B, %rd61;",
        "shared": "mov.u64 %rd63, S; add.s64 %rd62, %rd63, %rd61;",
        "local": "mov.u64 %rd62, depot;",
    }[name.space]


def _text(body: str, name: Name) -> str:
    return kernel_text(
        WHERE.format(span=name.span) + _base(name) + body,
        arrays=["B", "G", "R"],
        shared={"S": LANES * name.span} if name.space == "shared" else {},
        local_bytes=name.span if name.space == "local" else 0,
    )


RAW = bytes((37 * i + 11) % 251 for i in range(LANES * 16))


@pytest.mark.parametrize("opcode", sorted(name for name in TRANSFERS if name.startswith("ld.")))
def test_every_load_brings_the_bytes(opcode: str) -> None:
    name = Name(opcode)
    registers = [f"%{name.register}{i}" for i in range(name.vector)]
    fill = "" if name.space == "global" else _fill(name)
    keep = "".join(f"st.global.{name.plain} [%rd59+{i * name.size}], {each};" for i, each in enumerate(registers))
    text = _text(f"{fill} add.s64 %rd59, %R, %rd60; {opcode} {name.vector_text(registers)}, [%rd62]; {keep}", name)
    source = np.frombuffer(RAW[: LANES * name.span], _dtype(name)).copy()
    result = np.zeros_like(source)
    run = emulate(text, grid=(1, 1), threads=LANES, args=[("B", source), ("G", source.view(np.uint8)), ("R", result)])
    pieces = [RAW[place * name.span : (place + 1) * name.span] for place in PLACES]
    assert result.tobytes() == b"".join(pieces)
    _check_counts(run.arrays["B"], name, "load")
    assert run.shared_loads == (LANES * name.vector if name.space == "shared" else 0)


def _fill(name: Name) -> str:
    """Copy bytes into shared or local memory: each lane those that it will not always be the one to read."""
    source, target = ("%rd60", "%rd57") if name.space == "shared" else ("%rd61", "%rd62")
    start = f"add.s64 %rd58, %G, {source};" + ("mov.u64 %rd63, S; add.s64 %rd57, %rd63, %rd60;" if name.space == "shared" else "")
    moves = "".join(f"ld.global.u8 %rs60, [%rd58+{i}]; st.{name.space}.u8 [{target}+{i}], %rs60;" for i in range(name.span))
    return start + moves + ("bar.sync 0;" if name.space == "shared" else "")


def _dtype(name: Name) -> str:
    return f"u{name.size}"


def _check_counts(access: Access, name: Name, kind: str) -> None:
    counted = {each: getattr(access, f"{kind}s{each}" if not each else f"{kind}{each}") for each in ("", "_sectors", "_requests")}
    if name.space != "global":
        assert access == Access()
        return
    addresses = [place * name.span for place in PLACES]
    assert counted == {"": LANES * name.vector, "_sectors": _sectors(addresses, list(range(LANES))), "_requests": 2}


@pytest.mark.parametrize("opcode", sorted(name for name in TRANSFERS if name.startswith("st.")))
def test_every_store_leaves_the_bytes(opcode: str) -> None:
    name = Name(opcode)
    registers = [f"%{name.register}{i}" for i in range(name.vector)]
    fetch = "".join(f"ld.global.{name.plain} {each}, [%rd59+{i * name.size}];" for i, each in enumerate(registers))
    text = _text(f"add.s64 %rd59, %R, %rd60; {fetch} {opcode} [%rd62], {name.vector_text(registers)}; {_drain(name)}", name)
    values = np.frombuffer(RAW[: LANES * name.span], _dtype(name)).copy()
    target = np.zeros_like(values)
    drained = np.zeros(LANES * name.span, np.uint8)
    run = emulate(text, grid=(1, 1), threads=LANES, args=[("B", target), ("G", drained), ("R", values)])
    expected = bytearray(LANES * name.span)
    for lane, place in enumerate(PLACES):
        expected[place * name.span : (place + 1) * name.span] = RAW[lane * name.span : (lane + 1) * name.span]
    assert (target.tobytes() if name.space == "global" else drained.tobytes()) == expected
    _check_counts(run.arrays["B"], name, "store")
    assert run.shared_stores == (LANES * name.vector if name.space == "shared" else 0)


def _drain(name: Name) -> str:
    if name.space == "global":
        return ""
    moves = "".join(f"ld.{name.space}.u8 %rs60, [%rd62+{i}]; st.global.u8 [%rd58+{i}], %rs60;" for i in range(name.span))
    return ("bar.sync 0;" if name.space == "shared" else "") + "add.s64 %rd58, %G, %rd61;" + moves


@pytest.mark.parametrize("kind", ["b8", "s8", "u8", "b16", "s16", "u16", "b32", "s32", "u32"])
def test_a_wider_register_gets_sign_or_zeros(kind: str) -> None:
    size = int(kind[1:]) // 8
    text = kernel_text(f"ld.global.{kind} %rd0, [%A+{size}]; st.global.u64 [%R], %rd0; st.global.{kind} [%A], %rd0;", arrays=["A", "R"])
    a = np.array([0, 0xF1F2F3F4 % (1 << 8 * size)], f"u{size}")
    result = np.zeros(1, np.int64)
    emulate(text, grid=(1, 1), threads=1, args=[("A", a), ("R", result)])
    assert result[0] == Name(f"ld.global.{kind}").value(a[1:].tobytes())
    assert a[0] == a[1]  # stored again, from a wider register: the low bits


# Atomics: lane after lane on three cells, in plain Python


def _as(kind: str, pattern: int) -> Any:
    if kind in {"f32", "f64"}:
        value = struct.unpack("<f" if kind == "f32" else "<d", pattern.to_bytes(int(kind[1:]) // 8, "little"))[0]
        assert isinstance(value, float)
        return value
    bits = int(kind[1:])
    return pattern - (1 << bits) if kind[0] == "s" and pattern >> (bits - 1) else pattern


def _pattern(kind: str, value: float) -> int:
    if kind in {"f32", "f64"}:
        return int.from_bytes(struct.pack("<f" if kind == "f32" else "<d", value), "little")
    return int(value) % (1 << int(kind[1:]))


def _flushed(x: float) -> float:
    return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x


def _flushed_sum(a: float, b: float, _: float) -> float:
    """float32 in global memory: subnormals count as zero."""
    return _flushed(_as("f32", _pattern("f32", _flushed(a) + _flushed(b))))


UPDATES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda old, b, c: old + b,
    "min": lambda old, b, c: min(old, b),
    "max": lambda old, b, c: max(old, b),
    "and": lambda old, b, c: old & b,
    "or": lambda old, b, c: old | b,
    "xor": lambda old, b, c: old ^ b,
    "inc": lambda old, b, c: 0 if old >= b else old + 1,
    "dec": lambda old, b, c: b if old == 0 or old > b else old - 1,
    "exch": lambda old, b, c: b,
    "cas": lambda old, b, c: c if old == b else old,
}


def _operands(name: Name) -> list[int]:
    if name.kind in {"f32", "f64"}:  # only subnormals for the cell that starts with one
        drawn = [(0.5, 1e-41, 2.0**-100), (-1.25, -3e-42, 3.0)] * LANES
        return [_pattern(name.kind, drawn[lane // 3][lane % 3]) for lane in range(LANES)]
    if name.operation in {"cas", "inc", "dec"}:
        return [5, 6, 9, 7, 0] * (LANES // 5)
    return [(0x9E3779B97F4A7C15 * (lane + 1) % (1 << 64) >> (64 - 8 * name.size)) if lane % 3 else lane for lane in range(LANES)]


@pytest.mark.parametrize("opcode", sorted(name for name in TRANSFERS if name.startswith(("atom.", "red."))))
def test_every_atomic_updates_lane_after_lane(opcode: str) -> None:
    name = Name(opcode)
    register = name.register
    cell = (
        f"rem.u32 %r58, %r60, 3; mul.wide.u32 %rd56, %r58, {name.size}; "
        + {"global": "add.s64 %rd62, %B, %rd56;", "shared": "mov.u64 %rd63, S; add.s64 %rd62, %rd63, %rd56;"}[name.space]
    )
    fetch = f"add.s64 %rd59, %R, %rd60; ld.global.{name.plain} %{register}1, [%rd59]; add.s64 %rd58, %B, %rd56;"
    fill = f"ld.global.{name.plain} %{register}3, [%rd58]; st.shared.{name.plain} [%rd62], %{register}3; bar.sync 0;"
    drain = f"bar.sync 0; ld.shared.{name.plain} %{register}3, [%rd62]; st.global.{name.plain} [%rd58], %{register}3;"
    third = ", 7" if name.operation == "cas" else ""
    result = f"%{register}2, " if name.head == "atom" else ""
    keep = f"add.s64 %rd57, %G, %rd60; st.global.{name.plain} [%rd57], %{register}2;" if name.head == "atom" else ""
    work = f"{opcode} {result}[%rd62], %{register}1{third}; {keep}"
    shared = name.space == "shared"
    text = _text(cell + fetch + (fill if shared else "") + work + (drain if shared else ""), name)

    start, operands = [5, 6, 7], _operands(name)
    if name.kind in {"f32", "f64"}:
        start = [_pattern(name.kind, value) for value in (0.0, 1e-40, 2.0)]
    cells, old = list(start), []
    update = _flushed_sum if name.kind == "f32" and not shared else UPDATES[name.operation]
    for lane, operand in enumerate(operands):
        before = cells[lane % 3]
        old.append(before)
        cells[lane % 3] = _pattern(name.kind, update(_as(name.kind, before), _as(name.kind, operand), 7))
    b, r = np.array(start, _dtype(name)), np.array(operands, _dtype(name))
    g = np.zeros(LANES, _dtype(name))
    run = emulate(text, grid=(1, 1), threads=LANES, args=[("B", b), ("G", g), ("R", r)])
    assert b.tolist() == cells
    if name.head == "atom":
        assert g.tolist() == old
    access = run.arrays["B"]
    assert (access.atomics, access.atomic_sectors, access.atomic_requests) == ((0, 0, 0) if shared else (LANES, 2, 2))
    assert run.shared_atomics == (LANES if shared else 0)


def test_pointers_to_two_arrays_in_one_instruction_are_counted_apart() -> None:
    body = """mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 1; setp.eq.s32 %p0, %r1, 0; selp.b64 %rd0, %A, %B, %p0;
    mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd0, %rd1; ld.global.f32 %f0, [%rd2]; add.f32 %f1, %f0, 0f3F800000;
    st.global.f32 [%rd2], %f1; atom.global.add.f32 %f2, [%rd2], %f1;"""
    a, b = np.arange(16, dtype=np.float32), np.arange(100, 116, dtype=np.float32)
    run = emulate(kernel_text(body, arrays=["A", "B"]), grid=(1, 1), threads=16, args=[("A", a), ("B", b)])
    assert a.tolist() == [i if i % 2 else 2 * (i + 1) for i in range(16)]
    assert b.tolist() == [2 * (101 + i) if i % 2 else 100 + i for i in range(16)]
    expected = Access(8, 8, 8, 2, 2, 2, 1, 1, 1)
    assert run.arrays == {"A": expected, "B": expected}


def test_an_array_passed_twice_is_counted_under_each_name() -> None:
    a = np.zeros(4, np.float32)
    text = kernel_text("ld.global.f32 %f0, [%A]; st.global.f32 [%B+4], 0f40000000;", arrays=["A", "B"])
    run = emulate(text, grid=(1, 1), threads=1, args=[("A", a), ("B", a)])
    assert a.tolist() == [0, 2, 0, 0]
    assert (run.arrays["A"].loads, run.arrays["A"].stores) == (1, 0)
    assert (run.arrays["B"].loads, run.arrays["B"].stores) == (0, 1)


def test_where_threads_store_to_one_place_the_last_one_s_value_stays() -> None:
    a = np.zeros(2, np.int32)
    body = "mov.u32 %r0, %tid.x; setp.ne.s32 %p0, %r0, 39; @%p0 st.global.u32 [%A], %r0; st.global.u32 [%A+4], %r0;"
    run = emulate(kernel_text(body, arrays=["A"]), grid=(1, 1), threads=40, args=[("A", a)])
    assert a.tolist() == [38, 39]
    assert run.arrays["A"].stores == 79


def test_coalesced_strided_and_uniform_warps() -> None:
    """The textbook cases: 32 neighbours in 4 sectors, stride 8 in 32 sectors, one address in a single sector."""
    for stride, sectors in ((1, 4), (2, 8), (8, 32), (0, 1)):
        text = kernel_text(
            f"mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, {4 * stride}; add.s64 %rd1, %A, %rd0; ld.global.f32 %f0, [%rd1];", arrays=["A"]
        )
        run = emulate(text, grid=(3, 1), threads=64, args=[("A", np.zeros(64 * 8, np.float32))])
        assert run.arrays["A"] == Access(loads=192, load_sectors=6 * sectors, load_requests=6)


def test_local_memory_is_each_thread_s_own_and_starts_as_nan() -> None:
    body = """mov.u32 %r0, %tid.x; cvt.rn.f32.u32 %f0, %r0; mov.u64 %rd0, depot;
    st.local.f32 [%rd0+4], %f0; ld.local.v2.f32 {%f1, %f2}, [%rd0];
    mul.wide.u32 %rd1, %r0, 8; add.s64 %rd2, %A, %rd1; st.global.v2.f32 [%rd2], {%f1, %f2};"""
    a = np.zeros((70, 2), np.float32)
    emulate(kernel_text(body, arrays=["A"], local_bytes=8), grid=(1, 1), threads=70, args=[("A", a.reshape(-1))])
    assert np.isnan(a[:, 0]).all()
    assert a[:, 1].tolist() == list(range(70))


def test_shared_memory_is_each_block_s_own_and_starts_as_nan() -> None:
    body = """mov.u32 %r0, %ctaid.x; setp.eq.s32 %p0, %r0, 1; @!%p0 bra $read; st.shared.f32 [S+4], 0f40400000;
$read:
    bar.sync 0; ld.shared.f32 %f0, [S+4]; ld.shared.f32 %f1, [D]; mul.wide.u32 %rd0, %r0, 8; add.s64 %rd1, %A, %rd0;
    st.global.f32 [%rd1], %f0; st.global.f32 [%rd1+4], %f1;"""
    a = np.zeros((3, 2), np.float32)
    text = kernel_text(body, arrays=["A"], shared={"S": 8, "D": 0})
    run = emulate(text, grid=(3, 1), threads=2, args=[("A", a.reshape(-1))], dynamic_shared=4)
    assert np.isnan(a[[0, 2]]).all()
    assert a[1, 0] == 3
    assert np.isnan(a[1, 1])
    assert (run.shared_loads, run.shared_stores, run.barriers) == (12, 2, 3)


def test_arrays_and_numbers_in_numba_s_convention() -> None:
    """Null, null, size, item size, data, shape, strides; then the number. A matrix and a number make ten parameters."""
    body = "".join(f"ld.param.u64 %rd0, [k_param_{7 + i}]; st.global.u64 [%R+{8 * i}], %rd0;" for i in range(10))
    text = kernel_text(body, arrays=["R"], scalars={f"x{i}": "u64" for i in range(10)})
    r, matrix = np.zeros(10, np.int64), np.zeros((3, 5), np.float32)
    emulate(text, grid=(1, 1), threads=1, args=[("R", r), ("M", matrix), ("n", -7)])
    assert r[4] % 256 == 0  # the address of the data
    assert np.delete(r, 4).tolist() == [0, 0, 15, 4, 3, 5, 20, 4, -7]


def test_the_open_shared_memory_begins_after_the_rest() -> None:
    body = "st.shared.u32 [D], 7; ld.shared.u32 %r0, [D]; ld.shared.u32 %r1, [S]; st.global.u32 [%A], %r0; st.global.u32 [%A+4], %r1;"
    text = kernel_text(body, arrays=["A"], shared={"S": 12, "D": 0})
    fixed, grows = (line + "\n" for line in text.splitlines() if ".shared" in line and ".b8" in line)
    for each in (text, text.replace(fixed + grows, grows + fixed)):
        a = np.zeros(2, np.uint32)
        emulate(each, grid=(1, 1), threads=1, args=[("A", a)], dynamic_shared=4)
        assert a.tolist() == [7, 2**32 - 1]
