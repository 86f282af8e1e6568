"""The text of an exercise: starter file, page and solution, all made from its one source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from iosim.core.errors import BadInput
from iosim.course.spec import Exercise, KernelCheck, Mistake

WIDTH = 100
MACHINE = (
    ("for i in m.tiles(n, b):", "the rows 0 .. n - 1 in tiles of b, the last one short; i.size rows each, and no index"),
    ("x = m.load(X[i])", "reads rows of X from HBM; X[i, j] a tile of both axes, X[:, j] whole columns; X.shape is known"),
    ("m.store(Y[i], value)", "writes a value to HBM; loads and stores are what is counted"),
    ("m.full(0.0, i.size, 1, name='l_i')", "room in SRAM for rows x columns of one number"),
    ("y = m.let(value, 'y')", "gives a value a name and room; both end with the tile in which they were made"),
    ("y[...] = value;  y += value", "overwrites in place what has room, in this tile or in one around it"),
    ("+ - * /  @  .T  .rowmax()  .rowsum()", "arithmetic; (rows, 1) stretches over (rows, columns)"),
    ("exp log maximum(x, y)", "element by element; finite(x): -inf becomes finite; nonzero(x): 0 becomes 1"),
)
MASK = (
    ("m.tiles(n, b, seen=mask.grid.row(i))", "only the key tiles that some query of tile i sees; mask.grid.col(j): the other way"),
    ("mask.hide(m, s, i, j)", "sets the scores in s of pairs that do not attend to -inf"),
    ("j.full  j.first  j.last", "every pair of this tile attends; the first, the last visit to it"),
)
UNNAMED = (
    "What has no room is used exactly once, before a tile begins or ends; how many words live so, without a name, is limited too. "
    "What is loaded stays until its tile ends."
)
IMPORTS = {
    "function": "Only numpy and Python's own modules can be imported.",
    "kernel": "Only numpy and iosim.memory can be imported.",
    "mask": "Only numpy and iosim.memory can be imported.",
}


def solution_source(exercise: Exercise) -> str:
    """The solution as a file: the imports and the function."""
    return f"{exercise.header}\n\n\n{function_source(exercise)}".lstrip("\n")


def starter(exercise: Exercise) -> str:
    """What a student starts from: the imports, what is asked for, and the function without its body."""
    left = f"{exercise.number} {exercise.name}: replace this line with {about(exercise)}"
    body = f'    raise NotImplementedError("{left}")\n'
    return f"{exercise.header}\n\n{commented(brief(exercise))}\n\n\n{signature(exercise)}\n{body}".lstrip("\n")


def page(exercise: Exercise) -> str:
    """Everything that is said of the exercise before it is solved, as plain text."""
    return f"{brief(exercise)}\n\n{textwrap.indent(signature(exercise), '    ')}\n"


def mistaken(exercise: Exercise, mistake: Mistake) -> str:
    """The solution with a mistake in it; raises :class:`BadInput` for an edit that does not match exactly once."""
    source = solution_source(exercise)
    for old, new in mistake.edits:
        if (times := source.count(old)) != 1:
            raise BadInput(f"{exercise.name}, {mistake.name}: the edit of {old!r} matches {times} times; it must match once")
        source = source.replace(old, new)
    return source


def built(source: str, function: str) -> Callable[..., Any]:
    """The function of that name in a source text of this project (never a student's)."""
    names: dict[str, Any] = {"__name__": "exercise"}
    exec(compile(source, "<exercise>", "exec"), names)
    made: Callable[..., Any] = names[function]
    return made


def function_source(exercise: Exercise) -> str:
    """The function that solves it, as it is written in the course."""
    return inspect.getsource(exercise.solution)


def signature(exercise: Exercise) -> str:
    """The first lines of the function: its signature and its docstring."""
    source = function_source(exercise)
    return "\n".join(source.splitlines()[: _docstring(source).end_lineno])


def lines(exercise: Exercise) -> int:
    """How many lines the solution's body has, without comments and blank lines."""
    source = function_source(exercise)
    body = source.splitlines()[_docstring(source).end_lineno :]
    return sum(1 for line in body if line.strip() and not line.strip().startswith("#"))


def about(exercise: Exercise) -> str:
    """The same in words."""
    return "about one line" if lines(exercise) == 1 else f"about {lines(exercise)} lines"


def file_name(exercise: Exercise) -> str:
    """What a starter file is called."""
    return f"e{exercise.number:02}_{exercise.name.replace('-', '_')}.py"


def brief(exercise: Exercise) -> str:
    """What is asked for, in paragraphs."""
    told = [
        f"Exercise {exercise.number}, {exercise.name}: {exercise.title}",
        exercise.learn,
        f"Formula: {exercise.formula}",
        f"Paper: {exercise.paper}",
        f"Why it matters: {exercise.why}",
        *_judged(exercise),
        IMPORTS["mask" if masked(exercise) else exercise.kind],
        f"To write: {exercise.function}, {about(exercise)}. Check it with: iosim exercise check {file_name(exercise)}",
        f"There are {len(exercise.hints)} hints: iosim exercise hint {exercise.name}",
    ]
    return "\n\n".join([*(textwrap.fill(part, WIDTH - 2, break_on_hyphens=False) for part in told), *_machine(exercise)])


def commented(text: str) -> str:
    """The text as a comment block."""
    return "\n".join(f"# {line}".rstrip() for line in text.splitlines())


def masked(exercise: Exercise) -> bool:
    """Whether its function gets a mask."""
    return "mask" in inspect.signature(exercise.solution).parameters


def _judged(exercise: Exercise) -> list[str]:
    if not isinstance(exercise.check, KernelCheck):
        return ["Judged: the values, on freshly drawn inputs, unusual ones among them."]
    budget = f" ({exercise.check.closed_form})" if exercise.check.closed_form else ""
    return [
        "Judged, on freshly drawn problems with ragged tails and huge logits: the values; the memory rules, in an SRAM as large as the "
        f"solution needs; and the words moved, which may be as many as the solution moves{budget}."
    ]


def _machine(exercise: Exercise) -> list[str]:
    """How the machine is spoken to, for kernels."""
    if exercise.kind == "function":
        return []
    said_of = [*MACHINE, *(MASK if masked(exercise) else ())]
    wide = max(len(said) for said, _ in said_of) + 2
    spoken = [
        textwrap.fill(meaning, WIDTH - 2, initial_indent=said.ljust(wide), subsequent_indent=" " * wide, break_on_hyphens=False)
        for said, meaning in said_of
    ]
    return ["\n".join(["The machine:", *spoken, textwrap.fill(UNNAMED, WIDTH - 2)])]


def _docstring(source: str) -> ast.Expr:
    """The docstring of the function in ``source``, as a statement."""
    function = ast.parse(source).body[0]
    if not isinstance(function, ast.FunctionDef) or ast.get_docstring(function) is None:
        raise BadInput("a solution is one function with a docstring")
    first = function.body[0]
    assert isinstance(first, ast.Expr)
    return first
