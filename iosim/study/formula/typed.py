"""Formulas that people type: arithmetic over the sizes of attention, parsed by hand, never run as code, and evaluated exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple, NoReturn

from iosim.core.errors import BadInput
from iosim.study.formula import intervals as exact
from iosim.study.formula.intervals import FUNCTIONS, OPERATORS, Number

NAMES = ("N", "N_q", "N_k", "d", "d_v", "M", "Br", "Bc")
MOST_CHARACTERS = 500
DEEPEST = 50

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<sign>\*\*|//|[-+*/%^(),])|(?P<end>$))", re.A
)
_PRODUCT = re.compile("|".join(sorted(NAMES, key=len, reverse=True)))
_TILES = {"Tr": "ceil(N_q/Br)", "Tc": "ceil(N_k/Bc)"}

Kind = Literal["number", "name", "sign", "end"]


class Token(NamedTuple):
    """A number, a name or a sign, and where it begins and stops; ``end`` stands behind the last."""

    kind: Kind
    text: str
    start: int
    stop: int


class Step(NamedTuple):
    """One step of a stack machine: push a number or a name, or replace the last ``takes`` numbers by what ``apply`` makes of them.

    ``span`` is the part of the text that it stands for, to be shown where the step makes no sense.
    """

    apply: Callable[..., Number] | str | Number
    takes: int
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula: its text, the sizes it names, and the steps that evaluate it."""

    text: str
    names: frozenset[str]
    steps: tuple[Step, ...] = field(repr=False)

    def value(self, sizes: Mapping[str, int]) -> Number:
        """The formula at a point; raises :class:`BadInput` naming the part and the point where it is undefined or too large.

        >>> str(parse("2*N*d*(1 + ceil(N/Br))").value({"N": 30, "d": 4, "Br": 8}))
        '1,200'
        """
        stack: list[Number] = []
        for step in self.steps:
            try:
                stack[len(stack) - step.takes :] = [_done(step, stack, sizes)]
            except BadInput as error:
                where = at({name: size for name, size in sizes.items() if name in self.names})
                raise BadInput(f"{error}, in {_cut(self.text[slice(*step.span)])!r}{where and f' at {where}'}") from None
        return stack[0]


def at(sizes: Mapping[str, int]) -> str:
    """A point in words.

    >>> at({"N": 30, "Br": 8})
    'N=30, Br=8'
    """
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _done(step: Step, stack: list[Number], sizes: Mapping[str, int]) -> Number:
    if isinstance(step.apply, Number):
        return step.apply
    if isinstance(step.apply, str):
        return exact.exactly(sizes[step.apply])
    return step.apply(*stack[len(stack) - step.takes :])


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
    reader = _Reader(text, list(_tokens(text)))
    reader.sum()
    if reader.next.kind != "end":
        reader.unexpected("an operator")
    return Formula(text.strip(), frozenset(step.apply for step in reader.steps if isinstance(step.apply, str)), reader.shown())


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while True:
        match = _TOKEN.match(text, place)
        if match is None:
            wrong = text[place:].lstrip()[0]
            raise BadInput(f"a formula cannot hold {wrong!r}; it is made of {_KNOWN}, numbers, + - * / // % ** and parentheses")
        kind: Kind = match.lastgroup  # type: ignore[assignment]  # the groups of the pattern are the kinds
        yield Token(kind, match[kind], match.start(kind), match.end())
        place = match.end()
        if kind == "end":
            return


_KNOWN = f"{', '.join(NAMES)}, {', '.join(FUNCTIONS)}"


class _Reader:
    """A parser by recursive descent that writes the steps in the order in which a stack machine takes them."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text, self.tokens, self.place, self.depth = text, tokens, 0, 0
        self.steps: list[Step] = []

    @property
    def next(self) -> Token:
        """The token to be read."""
        return self.tokens[self.place]

    def taken(self, *signs: str) -> Token | None:
        """The next token, read, if it is one of these signs."""
        token = self.next
        if token.kind != "sign" or token.text not in signs:
            return None
        self.place += 1
        return token

    def unexpected(self, wanted: str) -> NoReturn:
        """Raise :class:`BadInput` for the next token."""
        token = self.next
        found = "it ends" if token.kind == "end" else f"{_cut(token.text)!r} stands"
        times = "; a product is written with *" if token.kind in ("name", "number") or token.text == "(" else ""
        raise BadInput(f"cannot read the formula {_cut(self.text)!r}: {wanted} is due where {found} (character {token.start + 1}){times}")

    def deeper(self) -> None:
        """Enter one more level; raises :class:`BadInput` below the deepest."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise BadInput(f"the formula is nested more than {DEEPEST} levels deep")

    def put(self, apply: Callable[..., Number] | str | Number, takes: int, start: int) -> None:
        """Write a step for the text from ``start`` to the last token read."""
        self.steps.append(Step(apply, takes, (start, self.tokens[self.place - 1].stop)))

    def sum(self) -> None:
        """Products, added and subtracted."""
        self.joined(self.product, "+", "-")

    def product(self) -> None:
        """Signed operands, multiplied and divided."""
        self.joined(self.signed, "*", "/", "//", "%")

    def joined(self, operand: Callable[[], None], *signs: str) -> None:
        """Operands joined by ``signs``, from left to right."""
        start = self.next.start
        operand()
        while sign := self.taken(*signs):
            operand()
            self.put(OPERATORS[sign.text], 2, start)

    def signed(self) -> None:
        """An operand with a sign, or a power."""
        self.deeper()
        start = self.next.start
        if sign := self.taken("-", "+"):
            self.signed()
            if sign.text == "-":
                self.put(exact.negative, 1, start)
        else:
            self.power()
        self.depth -= 1

    def power(self) -> None:
        """An operand, to a power where one follows."""
        start = self.next.start
        self.operand()
        if self.taken("**", "^"):
            self.signed()
            self.put(OPERATORS["**"], 2, start)

    def operand(self) -> None:
        """A number, a size, a function of something, or something in parentheses."""
        token = self.next
        if self.taken("("):
            self.sum()
            self.close()
        elif token.kind == "number":
            self.place += 1
            self.put(exact.exactly(Fraction(token.text)), 0, token.start)
        elif token.kind == "name":
            self.place += 1
            self.named(token)
        else:
            self.unexpected("a number, a name or '('")

    def named(self, token: Token) -> None:
        """A size, or a function with its arguments."""
        if token.text in FUNCTIONS:
            self.call(token)
        elif token.text in NAMES:
            self.put(token.text, 0, token.start)
        else:
            raise BadInput(f"unknown name {_cut(token.text)!r} in a formula; known: {_KNOWN}{_hint(token.text)}")

    def call(self, token: Token) -> None:
        """The arguments of a function."""
        apply, fewest = FUNCTIONS[token.text]
        if not self.taken("("):
            self.unexpected(f"'(' behind {token.text}")
        self.sum()
        given = 1
        while self.taken(","):
            self.sum()
            given += 1
        self.close()
        if given < fewest or (fewest == 1 and given > 1):
            raise BadInput(f"{token.text} takes {'one argument' if fewest == 1 else 'two arguments or more'}, not {given}")
        self.put(apply, given, token.start)

    def close(self) -> None:
        """A closing parenthesis."""
        if not self.taken(")"):
            self.unexpected("an operator or ')'")

    def shown(self) -> tuple[Step, ...]:
        """The steps, with their places in the text without the blanks around it."""
        lead = len(self.text) - len(self.text.lstrip())
        return tuple(step._replace(span=(step.span[0] - lead, step.span[1] - lead)) for step in self.steps)


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
