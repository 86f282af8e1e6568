"""Every opcode that the emulator accepts, lane by lane, against plain Python integers, fractions and floats.

The references read an opcode's name afresh and share nothing with the emulator's tables.
"""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

from iosim_gpu.ptx import emulate
from iosim_gpu.ptx.opcodes import OPS
from iosim_gpu.ptx.text import kernel_text

Number = int | float
Reference = Callable[..., Number]

# Values


def _bits(kind: str) -> int:
    return int(kind[1:]) if kind != "pred" else 1


def _is_float(kind: str) -> bool:
    return kind[0] == "f"


def _wrapped(value: int, kind: str) -> int:
    """The integer that the low bits of `value` mean as `kind`."""
    low = value % (1 << _bits(kind))
    return low - (1 << _bits(kind)) if kind[0] == "s" and low >> (_bits(kind) - 1) else low


_PATTERNS = {"f16": "<e", "f32": "<f", "f64": "<d"}


def _float_of(pattern: int, kind: str) -> float:
    value = struct.unpack(_PATTERNS[kind], pattern.to_bytes(_bits(kind) // 8, "little"))[0]
    assert isinstance(value, float)
    return value


def _pattern(value: Number, kind: str) -> int:
    if _is_float(kind):
        return int.from_bytes(struct.pack(_PATTERNS[kind], value), "little")
    return int(value) % (1 << _bits(kind))


def _examples(kind: str, *, few: bool) -> list[Number]:
    chance = random.Random(f"{kind}{few}")
    if kind == "pred":
        return [0, 1]
    if not _is_float(kind):
        edge = 1 << (_bits(kind) - 1)
        wanted = [0, 1, 2, 3, 7, -1, -2, -7, edge, edge - 1, edge + 1, 0x5DEECE66D]
        wanted += [chance.randrange(2 * edge) for _ in range(0 if few else 12)]
        return sorted({_wrapped(value, kind) for value in wanted})
    special = [0.0, -0.0, 1.0, -1.0, 1.5, 0.1, -2.5, math.inf, -math.inf, math.nan, 1e-40, -1e-42, 2.0**-126, 3e38]
    more = [3.5, 1e-20, -7e9, 2.0**31, 2.0**63, *(_float_of(chance.getrandbits(_bits(kind)), kind) for _ in range(8))]
    near = [chance.uniform(-4, 4) for _ in range(2 if few else 4)]
    return [_float_of(_pattern(_clipped(x, kind), kind), kind) for x in special + near + ([] if few else more)]


def _clipped(x: float, kind: str) -> float:
    return math.copysign(60000.0, x) if kind == "f16" and math.isfinite(x) and abs(x) > 60000 else x


# Rounding


def _to_f32(exact: Fraction, *, down: bool = False) -> float:
    """The nearest float32, ties to even, or the one below."""
    if exact == 0:
        return 0.0
    exponent = max(_exponent(abs(exact)), -126)
    quantum = Fraction(2) ** (exponent - 23)
    steps = math.floor(exact / quantum) if down else round(exact / quantum)
    result = steps * quantum
    if abs(result) >= Fraction(2) ** 128:
        return math.inf if result > 0 and not down else _float_of(0x7F7FFFFF, "f32") if result > 0 else -math.inf
    return math.copysign(float(result), exact)


def _exponent(positive: Fraction) -> int:
    guess = positive.numerator.bit_length() - positive.denominator.bit_length()
    return guess if Fraction(2) ** guess <= positive else guess - 1


def _flushed(x: Number) -> Number:
    return math.copysign(0.0, x) if isinstance(x, float) and abs(x) < 2.0**-126 else x


# References, by the name before the types; each gets the types of the operands as they stand in the opcode


def _divided(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _float_result(kind: str, double: Callable[..., float], exact: Callable[..., Fraction] | None = None) -> Reference:
    """Rounded once: as Python's floats do for f64; for f32 from the exact value, where there is a finite one."""

    def of(*x: float) -> float:
        plain = double(*x)
        if kind == "f64" or plain == 0 or not all(map(math.isfinite, x)) or not math.isfinite(plain):
            return plain
        return _to_f32(exact(*map(Fraction, x)) if exact else Fraction(plain))

    return of


def _fma(a: float, b: float, c: float, *, down: bool) -> float:
    product = a * b  # exact, for 48 bits fit a double
    if not all(map(math.isfinite, (a, b, c))):
        return product + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return product + c if not down or (product == c == 0 and math.copysign(1, product) == math.copysign(1, c)) else -0.0
    return _to_f32(exact, down=down)


def _root(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def _minimum(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return min(a, b) if a != b else (a if math.copysign(1, a) < 0 else b)


def _exp2(x: float) -> float:
    return math.inf if x > 1000 else math.exp2(x)


def _log2(x: float) -> float:
    return math.nan if x < 0 or math.isnan(x) else -math.inf if x == 0 else math.log2(x)


def _cut_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_INTEGER: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "mad.lo": lambda a, b, c: a * b + c,
    "mul.wide": lambda a, b: a * b,
    "mad.wide": lambda a, b, c: a * b + c,
    "div": _cut_quotient,
    "rem": lambda a, b: a - _cut_quotient(a, b) * b,
    "min": min,
    "max": max,
    "neg": lambda a: -a,
    "abs": abs,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "shl": lambda a, n: a << min(n, 64),
    "shr": lambda a, n: a >> min(n, 64),
    "selp": lambda a, b, p: a if p else b,
    "mov": lambda a: a,
    "cvta.to.global": lambda a: a,
    "cvta.global": lambda a: a,
}

_ORDERED: dict[str, Callable[[Number, Number], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _float_reference(name: str, kind: str) -> Reference:
    def nearest(double: Callable[..., float], exact: Callable[..., Fraction] | None = None) -> Reference:
        return _float_result(kind, double, exact)

    table: dict[str, Reference] = {
        "add": nearest(lambda a, b: a + b, lambda a, b: a + b),
        "sub": nearest(lambda a, b: a - b, lambda a, b: a - b),
        "mul": nearest(lambda a, b: a * b, lambda a, b: a * b),
        "div.rn": nearest(_divided, lambda a, b: a / b),
        "rcp.rn": nearest(lambda a: _divided(1.0, a), lambda a: 1 / a),
        "sqrt.rn": nearest(_root),  # a double root rounded again: 53 bits are enough for 24 (Figueroa 1995)
        "min": _minimum,
        "max": lambda a, b: -_minimum(-a, -b),
        "neg": lambda a: -a,
        "abs": abs,
        "copysign": lambda sign, size: math.copysign(size, sign),
        "fma.rn": lambda a, b, c: _fma(a, b, c, down=False),
        "fma.rm": lambda a, b, c: _fma(a, b, c, down=True),
        "ex2.approx": nearest(_exp2),
        "lg2.approx": nearest(_log2),
        "sqrt.approx": nearest(_root),
        "rsqrt.approx": nearest(lambda a: _divided(1.0, _root(a))),
        "rcp.approx": nearest(lambda a: _divided(1.0, a)),
        "div.approx": nearest(_divided),
        "div.full": nearest(_divided),
        "tanh.approx": nearest(math.tanh),
        "selp": lambda a, b, p: a if p else b,
        "mov": lambda a: a,
    }
    for plain in ("add", "sub", "mul"):
        table[plain + ".rn"] = table[plain]
    return table[name]


class Case:
    """What an opcode should do, from its name alone."""

    def __init__(self, opcode: str) -> None:
        *parts, self.kind = opcode.split(".")
        self.flushes = "ftz" in parts
        name = ".".join(part for part in parts if part != "ftz")
        self.approximate = "approx" in parts or "full" in parts
        if name.startswith("setp."):
            self.result, self.function = "pred", self._comparison(name.removeprefix("setp."))
            self.sources = [self.kind] * 2
        elif name.startswith("cvt.") and not name.endswith((".sat.f32",)):
            self._conversion(name.removeprefix("cvt.").split("."))
        elif name == "cvt.sat.f32":
            self.result, self.sources = "f32", ["f32"]
            self.function = lambda a: min(a, 1.0) if a > 0 else 0.0
        elif _is_float(self.kind):
            self.result, self.function = self.kind, _float_reference(name, self.kind)
            self.sources = [self.kind] * _arity(name, self.function)
        else:
            self._integer(name)
        if name == "selp":
            self.sources[2] = "pred"

    def _integer(self, name: str) -> None:
        kind = "u" + self.kind[1:] if self.kind[0] == "b" else self.kind
        self.result = kind[0] + str(2 * _bits(kind)) if name.endswith(".wide") else kind
        if name == "mul.hi":
            self.function, self.sources = lambda a, b: a * b >> _bits(kind), [kind] * 2
            return
        self.function = _INTEGER[name]
        self.sources = [kind] * _arity(name, self.function)
        if name == "mad.wide":
            self.sources[2] = self.result
        if name in {"shl", "shr"}:
            self.sources[1] = "u32"

    def _comparison(self, name: str) -> Reference:
        if name in {"num", "nan"}:
            return lambda a, b: (math.isnan(a) or math.isnan(b)) == (name == "nan")
        if not _is_float(self.kind):
            return _ORDERED[name]
        compare, unordered = _ORDERED[name.removesuffix("u")], name.endswith("u")
        return lambda a, b: unordered if math.isnan(a) or math.isnan(b) else compare(a, b)

    def _conversion(self, parts: list[str]) -> None:
        rounding, self.result = parts if len(parts) == 2 else ("", parts[0])
        self.sources = [self.kind]
        whole: dict[str, Callable[[float], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
        if rounding in whole:
            whole_of = whole[rounding]
            self.function = _whole_float(whole_of) if _is_float(self.result) else _clamped(whole_of, self.kind, self.result)
        elif _is_float(self.result):
            assert rounding == "rn" or _bits(self.kind) < _bits(self.result)
            to_float: dict[str, Reference] = {"f16": _to_f16, "f32": _any_to_f32, "f64": float}
            self.function = to_float[self.result]
        else:
            assert not rounding
            self.function = lambda a: a

    def expected(self, operands: Sequence[Number]) -> int:
        """The bits of the result, with all NaN alike."""
        x = [_flushed(a) if self.flushes and kind == "f32" else a for a, kind in zip(operands, self.sources, strict=True)]
        value = self.function(*x)
        if self.result == "f32" and self.flushes:
            value = _flushed(value)
        if isinstance(value, float) and math.isnan(value):
            return -1
        return _pattern(value, self.result)


def _arity(name: str, function: Callable[..., object]) -> int:
    """Operands of a function, by its name where Python cannot tell."""
    base = name.split(".", maxsplit=1)[0]
    return {"fma": 3, "mad": 3, "selp": 3}.get(base, 1 if base in _UNARY else 2)


_UNARY = {"neg", "abs", "not", "mov", "cvta", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "tanh"}


def _whole_float(rounding: Callable[[float], int]) -> Reference:
    return lambda a: math.copysign(float(rounding(a)), a) if math.isfinite(a) else a


def _clamped(rounding: Callable[[float], int], source: str, target: str) -> Reference:
    """The PTX ISA on NaN: zero from f32 to 32 bits, otherwise the highest bit alone."""
    low, high = (0, (1 << _bits(target)) - 1) if target[0] == "u" else (-(1 << (_bits(target) - 1)), (1 << (_bits(target) - 1)) - 1)

    def of(a: float) -> int:
        if math.isnan(a):
            return 0 if source == "f32" and _bits(target) == 32 else 1 << (_bits(target) - 1)
        if math.isinf(a):
            return low if a < 0 else high
        return min(max(rounding(a), low), high)

    return of


def _to_f16(a: float) -> float:
    try:
        return _float_of(_pattern(a, "f16"), "f16")
    except OverflowError:
        return math.copysign(math.inf, a)


def _any_to_f32(a: Number) -> float:
    return _to_f32(Fraction(a)) or math.copysign(0.0, a) if math.isfinite(a) else float(a)


# A kernel around one opcode


def _register(kind: str) -> str:
    return {"pred": "p", "f32": "f", "f64": "fd"}.get(kind, {1: "p", 8: "rs", 16: "rs", 32: "r", 64: "rd"}[_bits(kind)])


def _kernel(opcode: str, case: Case) -> str:
    lines = ["mov.u32 %r60, %tid.x;"]
    names = []
    for i, kind in enumerate(case.sources):
        lines += _address(f"A{i}", kind, f"%rd{40 + i}") + _fetched(kind, i)
        names.append(f"%{_register(kind)}{i}")
    result = f"%{_register(case.result)}10"
    lines.append(f"{opcode} {result}, {', '.join(names)};")
    lines += _address("R", case.result, "%rd50")
    if case.result == "pred":
        lines += ["selp.u32 %r11, 1, 0, %p10;", "st.global.u8 [%rd50], %r11;"]
    else:
        lines.append(f"st.global.{_plain(case.result)} [%rd50], {result};")
    return kernel_text("\n".join(lines), arrays=[f"A{i}" for i in range(len(case.sources))] + ["R"])


def _plain(kind: str) -> str:
    return kind if kind in {"f32", "f64"} else f"u{max(_bits(kind), 8)}"


def _address(array: str, kind: str, register: str) -> list[str]:
    return [f"mul.wide.s32 {register}, %r60, {max(_bits(kind) // 8, 1)};", f"add.s64 {register}, {register}, %{array};"]


def _fetched(kind: str, i: int) -> list[str]:
    if kind == "pred":
        return [f"ld.global.u8 %rs{i}, [%rd{40 + i}];", f"setp.ne.s16 %p{i}, %rs{i}, 0;"]
    return [f"ld.global.{_plain(kind)} %{_register(kind)}{i}, [%rd{40 + i}];"]


def _array(values: Sequence[Number], kind: str) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(b"".join(_pattern(value, kind).to_bytes(max(_bits(kind) // 8, 1), "little") for value in values), np.uint8)


def _dtype(kind: str) -> str:
    return f"f{_bits(kind) // 8}" if kind in {"f32", "f64"} else f"u{max(_bits(kind) // 8, 1)}"


def _inputs(opcode: str, case: Case) -> list[tuple[Number, ...]]:
    few = len(case.sources) == 3
    drawn = list(itertools.product(*(_examples(kind, few=few) for kind in case.sources)))
    if opcode.startswith(("div.s", "div.u", "rem.")):
        drawn = [each for each in drawn if each[1] != 0]
    if opcode.startswith("sh"):
        drawn += list(itertools.product(_examples(case.sources[0], few=False), range(70)))
    return random.Random(opcode).sample(drawn, min(len(drawn), 1024))


def _is_close(bits: int, expected: int) -> bool:
    """One unit in the last place apart: both a double function rounded to float32, but of two libraries."""
    return abs(bits - expected) <= 1


@pytest.mark.parametrize("opcode", sorted(OPS))
def test_every_opcode_does_what_plain_python_does(opcode: str) -> None:
    case = Case(opcode)
    inputs = _inputs(opcode, case)
    columns = list(zip(*inputs, strict=True))
    arrays = [
        (f"A{i}", _array(column, kind).view(_dtype(kind))) for i, (column, kind) in enumerate(zip(columns, case.sources, strict=True))
    ]
    result = np.zeros(len(inputs), _dtype(case.result))
    emulate(_kernel(opcode, case), grid=(1, 1), threads=len(inputs), args=[*arrays, ("R", result)])
    for operands, bits in zip(inputs, result.view(f"u{result.itemsize}").tolist(), strict=True):
        expected = case.expected(operands)
        got = -1 if _is_float(case.result) and math.isnan(_float_of(bits, case.result)) else bits
        assert got == expected or (case.approximate and _is_close(got, expected)), (opcode, operands, hex(got), hex(expected))


def test_a_fused_product_is_rounded_once() -> None:
    """Triples whose float64 sum lies halfway between two float32 while the exact one does not: rounding twice goes wrong."""
    triples = []
    for i in range(200):
        a = 1 + (2 * i + 1) * 2.0**-23
        half = Fraction(a) * Fraction(a) // Fraction(2) ** -23 * Fraction(2) ** -23 + Fraction(2) ** -24 - Fraction(a) * Fraction(a)
        near = _to_f32(half + Fraction(2) ** -80)
        triples.append((a, a, near))
        triples.append((1 + 2.0**-12, 1 + 2.0**-12, (2.0**-60) * (-1) ** i))
        triples.append((1 + 2.0**-12, -1 - 2.0**-12, (2.0**-60) * (-1) ** i))
    columns = [np.array(column, np.float32) for column in zip(*triples, strict=True)]
    case = Case("fma.rn.f32")
    result = np.zeros(len(triples), np.float32)
    args = [(f"A{i}", column) for i, column in enumerate(columns)]
    emulate(_kernel("fma.rn.f32", case), grid=(1, 1), threads=len(triples), args=[*args, ("R", result)])
    assert [_pattern(x, "f32") for x in result.tolist()] == [case.expected(triple) for triple in triples]
    twice = (columns[0].astype(float) * columns[1] + columns[2]).astype(np.float32)
    assert (twice != result).any()  # the cases are such that the shortcut shows


def test_immediates_of_every_type() -> None:
    body = """
    mov.f32 %f0, 0fC0490FDB; add.f32 %f1, %f0, 0f3F800000; mov.f64 %fd0, 0d400921FB54442D18;
    mov.u32 %r0, 0xFFFFFFFF; add.s32 %r1, %r0, -2147483648; mov.u64 %rd0, -1; mov.pred %p0, -1; mov.pred %p1, 0;
    selp.b32 %r2, 7, 8, %p0; selp.b32 %r3, 7, 8, %p1; mov.u16 %rs0, -2;
    st.global.f32 [%F], %f1; st.global.f64 [%D], %fd0; st.global.u32 [%U], %r1; st.global.u32 [%U+4], %r2; st.global.u32 [%U+8], %r3;
    st.global.u64 [%L], %rd0; st.global.u64 [%L+8], -5; st.global.u16 [%H], %rs0;
    """
    f, d, u = np.zeros(1, np.float32), np.zeros(1), np.zeros(3, np.uint32)
    long, half = np.zeros(2, np.int64), np.zeros(1, np.uint16)
    text = kernel_text(body, arrays=["F", "D", "U", "L", "H"])
    emulate(text, grid=(1, 1), threads=1, args=[("F", f), ("D", d), ("U", u), ("L", long), ("H", half)])
    assert f[0] == np.float32(-math.pi) + np.float32(1)
    assert d[0] == math.pi
    assert u.tolist() == [(2**32 - 1 + 2**31) % 2**32, 7, 8]
    assert long.tolist() == [-1, -5]
    assert half.tolist() == [2**16 - 2]


def test_special_registers() -> None:
    names = [f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"] + ["dynamic_smem_size"]
    stores = "".join(f"mov.u32 %r0, %{name}; st.global.u32 [%rd1+{4 * i}], %r0;" for i, name in enumerate(names))
    place = """mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.s32 %r4, %r1, %r2, %r3;
    mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.x; mad.lo.s32 %r7, %r4, %r5, %r6; mad.wide.s32 %rd1, %r7, 52, %A;"""
    a = np.zeros((3, 2, 5, 13), np.int32)
    emulate(
        kernel_text(place + stores, arrays=["A"], shared={"S": 0}), grid=(2, 3), threads=5, args=[("A", a.reshape(-1))], dynamic_shared=48
    )
    for y, x, t in itertools.product(range(3), range(2), range(5)):
        assert a[y, x, t].tolist() == [t, 0, 0, 5, 1, 1, x, y, 0, 2, 3, 1, 48]
