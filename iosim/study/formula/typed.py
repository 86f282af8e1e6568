"""Formulas that people type: arithmetic over the sizes of attention in Python's grammar, never run as code, and evaluated exactly."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate

from iosim.core.errors import BadInput
from iosim.study.formula.intervals import FUNCTIONS, OPERATORS, Number, exactly

NAMES = ("N", "N_q", "N_k", "d", "d_v", "M", "Br", "Bc")
MOST_CHARACTERS = 500
DEEPEST = 50

_KNOWN = f"{', '.join(NAMES)}, {', '.join(FUNCTIONS)}"
_STRANGE = re.compile(r"[^\w\s.+*/%^(),-]|,\s*\)", re.A)
_NAME = re.compile(r"[A-Za-z_]\w*", re.A)
_ZEROS = re.compile(r"(?<![\w.])0+(?=[0-9])", re.A)  # before a number, where Python refuses them
_PRODUCT = re.compile("|".join(sorted(NAMES, key=len, reverse=True)))
_TILES = {"Tr": "ceil(N_q/Br)", "Tc": "ceil(N_k/Bc)"}


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula: its text, the sizes it names, and the nodes of its tree, each before its operands."""

    text: str
    names: frozenset[str]
    source: str = field(repr=False)
    nodes: tuple[ast.expr, ...] = field(repr=False)

    def value(self, sizes: Mapping[str, int]) -> Number:
        """The formula at a point; raises :class:`BadInput` naming the part and the point where it is undefined or too large.

        >>> str(parse("2*N*d*(1 + ceil(N/Br))").value({"N": 30, "d": 4, "Br": 8}))
        '1,200'
        """
        values: dict[ast.expr, Number] = {}
        for node in reversed(self.nodes):
            try:
                values[node] = self._value(node, values, sizes)
            except BadInput as error:
                where = at({name: size for name, size in sizes.items() if name in self.names})
                raise BadInput(f"{error}, in {_cut(_part(self.source, node))!r}{where and f' at {where}'}") from None
        return values[self.nodes[0]]

    def _value(self, node: ast.expr, values: Mapping[ast.expr, Number], sizes: Mapping[str, int]) -> Number:
        if isinstance(node, ast.Name):
            return exactly(sizes[node.id])
        if isinstance(node, ast.Constant):
            return exactly(Fraction(_part(self.source, node)))  # node.value is a rounded float where a point stands
        apply, operands = _operation(self.source, node)
        return apply(*(values[operand] for operand in operands))


def at(sizes: Mapping[str, int]) -> str:
    """A point in words.

    >>> at({"N": 30, "Br": 8})
    'N=30, Br=8'
    """
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def parse(text: str) -> Formula:
    """Read a formula over N, N_q, N_k, d, d_v, M, Br, Bc with + - * / // % ** (or ^) and ceil, floor, min, max, sqrt.

    Operators bind as in Python: -x**2 is -(x**2), and ** groups to the right. Raises :class:`BadInput` for anything else, for
    more than 500 characters and for more than 50 levels of parentheses, signs and powers.

    >>> sorted(parse("N*d + N^2/M").names)
    ['M', 'N', 'd']
    """
    if not isinstance(text, str):
        raise BadInput(f"a formula is text such as '2*N*d', not {type(text).__name__}")
    if len(text) > MOST_CHARACTERS:
        raise BadInput(f"the formula has {len(text):,} characters; at most {MOST_CHARACTERS} are read")
    if strange := _STRANGE.search(text):
        raise BadInput(f"a formula cannot hold {strange[0]!r}; it is made of {_KNOWN}, numbers, + - * / // % ** and parentheses")
    words = _NAME.findall(text)
    for word in words:
        if word not in NAMES and word not in FUNCTIONS:
            raise BadInput(f"unknown name {_cut(word)!r} in a formula; known: {_KNOWN}{_hint(word)}")
    source = _ZEROS.sub("", " ".join(text.split())).replace("^", "**")
    return Formula(text.strip(), frozenset(NAMES).intersection(words), source, _nodes(source))


def _nodes(source: str) -> tuple[ast.expr, ...]:
    """The nodes of the tree, each before its operands; raises :class:`BadInput` for all but arithmetic, and for deep nesting."""
    parentheses = [*accumulate(((sign == "(") - (sign == ")") for sign in source), initial=1)]
    if max(parentheses) > DEEPEST:
        raise _too_deep()
    try:
        nodes = [ast.parse(source, mode="eval").body]
    except SyntaxError as error:
        raise _unread(source, error.offset - 1 if error.offset else len(source)) from None
    nested = {nodes[0]: 0}  # in how many signs and powers a node stands
    for node in nodes:  # which grows
        if parentheses[node.col_offset] + nested[node] > DEEPEST:
            raise _too_deep()
        if not _is_leaf(node):
            _, operands = _operation(source, node)
            nodes += operands
            nested |= {operand: nested[node] + _nests(node, operand) for operand in operands}
    return tuple(nodes)


def _is_leaf(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id in NAMES) or (isinstance(node, ast.Constant) and node.value is not ...)


def _nests(node: ast.expr, operand: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and operand is node.right)


def _operation(source: str, node: ast.expr) -> tuple[Callable[..., Number], list[ast.expr]]:
    """What a node does, and with which others; raises :class:`BadInput` for whatever is no arithmetic."""
    match node:
        case ast.BinOp(left, op, right):
            return OPERATORS[type(op)], [left, right]
        case ast.UnaryOp(op, operand):
            return OPERATORS[type(op)], [operand]
        case ast.Call(ast.Name(name), arguments, []) if name in FUNCTIONS:
            apply, fewest = FUNCTIONS[name]
            if len(arguments) < fewest or (fewest == 1 and len(arguments) > 1):
                wanted = "one argument" if fewest == 1 else "two arguments or more"
                raise BadInput(f"{name} takes {wanted}, not {len(arguments)}")
            return apply, arguments
        case ast.Name(name):
            raise BadInput(f"{name} is a function; write {name}(...)")
    raise _unread(source, node.col_offset)


def _unread(source: str, place: int) -> BadInput:
    found = re.match(r"[\w.]+|\S", source[place:].lstrip())
    where = f"character {place + 1}, where {_cut(found[0])!r} stands" if found else "its end"
    return BadInput(f"cannot read the formula {_cut(source)!r} at {where}; a product is written with *, a function as ceil(...)")


def _too_deep() -> BadInput:
    return BadInput(f"the formula is nested more than {DEEPEST} levels deep")


def _part(source: str, node: ast.expr) -> str:
    return source[node.col_offset : node.end_col_offset]


def _hint(name: str) -> str:
    if name in _TILES:
        return f"; {name} is {_TILES[name]}"
    near = next((known for known in NAMES if known.replace("_", "").lower() == name.lower()), None)
    if near is not None:
        return f"; did you mean {near}?"
    parts = _PRODUCT.findall(name)
    return f"; a product is written {'*'.join(parts)}" if "".join(parts) == name else ""


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
