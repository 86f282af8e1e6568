"""Sizes as expressions: ``n``, ``nk * d``, ``n * ceil(nk / Bc)``, over whole numbers and over symbols alike."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from typing import Any

from iosim.core.errors import BadInput


def evaluate(expression: str, sizes: Mapping[str, Any]) -> Any:
    """The value of ``expression``: names of ``sizes`` and whole numbers with ``+ - *``, and ``ceil(a / b)``.

    Raises :class:`BadInput` for anything else.

    >>> evaluate("2 * n + ceil(n / Br)", {"n": 10, "Br": 4})
    23
    """
    try:
        return _value(_parsed(expression), sizes)
    except (SyntaxError, KeyError, TypeError, AttributeError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        known = ", ".join(sizes)
        raise BadInput(f"{expression!r} is no size; use {known}, whole numbers, + - * and ceil(a / b)") from None


@cache
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression.strip(), mode="eval").body


def _value(node: ast.expr, sizes: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name(id=name):
            return sizes[name]
        case ast.Constant(value=number) if type(number) is int:
            return number
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, sizes) + _value(right, sizes)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left, sizes) - _value(right, sizes)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left, sizes) * _value(right, sizes)
        case ast.Call(func=ast.Name(id="ceil"), args=[ast.BinOp(left=left, op=ast.Div(), right=right)], keywords=[]):
            return ceiling(_value(left, sizes), _value(right, sizes))
    raise TypeError


def ceiling(rows: Any, height: Any) -> Any:
    """``rows / height``, rounded up; a symbol rounds itself."""
    return -(-rows // height)
