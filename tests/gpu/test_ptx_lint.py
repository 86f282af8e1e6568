"""What is said of a kernel without running it: every access to global memory, local memory as it is laid out, and 64-bit floats."""

from __future__ import annotations

import pytest

from iosim_gpu.ptx import lint
from iosim_gpu.ptx.text import kernel_text

BODY = """ld.global.f32 %f0, [%A]; ld.global.v2.u32 {%r0, %r1}, [%A]; ld.u32 %r0, [%A]; st.global.f32 [%A], %f0; ld.shared.u32 %r0, [S];
st.shared.u32 [S], %r0; atom.global.add.f32 %f1, [%A], %f0; red.global.add.f32 [%A], %f0; atom.shared.add.u32 %r1, [S], %r0;"""


def test_accesses_to_global_memory_are_counted_in_the_text() -> None:
    found = lint(kernel_text(BODY, arrays=["A"], shared={"S": 4}))
    assert (found.global_loads, found.global_stores, found.global_atomics) == (3, 1, 2)
    assert {"red.global.add.f32", "ld.u32", "ret"} <= found.opcodes
    assert "ld.param.u64" in found.opcodes
    assert (found.local_bytes, found.double) == (0, True)  # registers of 64-bit floats are declared


@pytest.mark.parametrize(("body", "double"), [("", False), ("add.f64 %x, %x, %x;", True), ("cvt.f64.f32 %x, %f0;", True)])
def test_a_64_bit_float_shows_in_opcodes_and_registers(body: str, double: bool) -> None:
    text = "\n".join(line for line in kernel_text(body).splitlines() if ".reg .f64" not in line)
    assert lint(text).double == double


def test_local_memory_is_aligned() -> None:
    text = kernel_text("", local_bytes=16).replace("depot[16];", "depot[16];\n\t.local .align 1 .b8 a[3];\n\t.local .align 8 .b8 b[8];")
    assert lint(text).local_bytes == 32
