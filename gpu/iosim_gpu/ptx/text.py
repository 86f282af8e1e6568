"""PTX by hand: a whole kernel around a few instructions, in the form that NVVM gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
_WIDTHS = {"pred": "p", "b16": "rs", "b32": "r", "b64": "rd", "f32": "f", "f64": "fd"}
_PARAMETERS_OF_A_VECTOR = 7


def kernel_text(
    body: str,
    *,
    arrays: Sequence[str] = (),
    scalars: Mapping[str, str] | None = None,
    shared: Mapping[str, int] | None = None,
    local_bytes: int = 0,
    registers: int = 64,
) -> str:
    """A kernel that takes one-dimensional `arrays` and then `scalars` (name to PTX type), and runs `body` and `ret`.

    The address of array `A` is in `%A`, the scalar `n` in `%n`. There are `registers` of each kind: `%p0` (predicates), `%rs0`
    (16 bits), `%r0` (32), `%rd0` (64), `%f0`, `%fd0` and so on. `shared` names shared memory by its bytes, 0 for the open size;
    `depot` names `local_bytes` of local memory.

    >>> import numpy as np
    >>> from iosim_gpu.ptx import emulate
    >>> body = "mov.u32 %r0, %tid.x; mul.wide.s32 %rd0, %r0, 4; add.s64 %rd1, %A, %rd0; st.global.u32 [%rd1], %r0;"
    >>> text = kernel_text(body, arrays=["A"])
    >>> a = np.zeros(3, np.int32)
    >>> run = emulate(text, grid=(1, 1), threads=3, args=[("A", a)])
    >>> a.tolist(), run.arrays["A"].stores
    ([0, 1, 2], 3)
    """
    scalars = scalars or {}
    kinds = ["u64"] * (_PARAMETERS_OF_A_VECTOR * len(arrays)) + list(scalars.values())
    parameters = ",\n".join(f"\t.param .{kind} k_param_{i}" for i, kind in enumerate(kinds))
    lines = [f"\t.reg .{width} \t%{name}<{registers}>;" for width, name in _WIDTHS.items()]
    lines += [f"\t.reg .b64 \t%{name};" for name in arrays]
    lines += [f"\t.reg .{_kept_as(kind)} \t%{name};" for name, kind in scalars.items()]
    if local_bytes:
        lines.insert(0, f"\t.local .align 16 .b8 \tdepot[{local_bytes}];")
    for i, name in enumerate(arrays):
        lines.append(f"\tld.param.u64 \t%{name}, [k_param_{_PARAMETERS_OF_A_VECTOR * i + 4}];")
        lines.append(f"\tcvta.to.global.u64 \t%{name}, %{name};")
    first = _PARAMETERS_OF_A_VECTOR * len(arrays)
    lines += [f"\tld.param.{kind} \t%{name}, [k_param_{first + i}];" for i, (name, kind) in enumerate(scalars.items())]
    lines += ["\t" + statement.strip() for statement in body.replace(";", ";\n").splitlines() if statement.strip()]
    return f"{_HEAD}{_rooms(shared or {})}\n.visible .entry k(\n{parameters}\n)\n{{\n" + "\n".join(lines) + "\n\tret;\n\n}\n"


def _kept_as(kind: str) -> str:
    """The register for a scalar; the narrowest has 16 bits."""
    return kind if kind[0] == "f" else f"b{max(int(kind[1:]), 16)}"


def _rooms(shared: Mapping[str, int]) -> str:
    fixed = [f".visible .shared .align 16 .b8 {name}[{size}];\n" for name, size in shared.items() if size]
    return "".join(fixed + [f".extern .shared .align 16 .b8 {name}[];\n" for name, size in shared.items() if not size])
