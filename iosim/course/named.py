"""Which exercise a file is for, and whose it is, by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import PurePath

from iosim.core.errors import BadInput
from iosim.course.catalogue import EXERCISES, exercise
from iosim.course.spec import Exercise
from iosim.course.text import file_name

WORD = re.compile(r"[^\W_]+")
NUMBER = re.compile(r"(?:e|ex|exercise)0*([1-9][0-9]{0,2})")


def exercise_by_name(path: PurePath) -> Exercise:
    """The exercise that a file's name speaks of, or else the name of the nearest folder that speaks of any.

    A name may have more in it: e08_flash2.py, flash2.py, flash2_alice.py, alice_123_flash2 (1).py, alice/e08_flash2.py, flash2/alice.py.
    Raises :class:`BadInput` where none does, and where one speaks of two.

    >>> exercise_by_name(PurePath("alice/flash2.py")).number, exercise_by_name(PurePath("e01_softmax/online softmax.py")).number
    (8, 2)
    """
    for name in _names(path):
        found = exercises_in(name)
        if len(found) > 1:
            raise BadInput(f"the name {name!r} speaks of {' and '.join(found)}; say which with --exercise")
        if found:
            return exercise(found[0])
    example = file_name(next(iter(EXERCISES.values())))
    raise BadInput(f"the name does not say which exercise; call it as {example} is called, or say which with --exercise")


def student_of(path: PurePath, folder: str = "") -> str:
    """Whose it is: the folders that it lies in, but for those of exercises, or else what its name has beside the exercise, or its name.

    ``folder``: the name of the one that is graded; that of the student, where the files in it are called as exercises and nothing else.

    >>> [student_of(PurePath(path)) for path in ("alice/e08_flash2.py", "flash2_alice.py", "flash2.py", "flash2/bob.py")]
    ['alice', 'alice', 'flash2', 'bob']
    >>> student_of(PurePath("e08_flash2.py"), "alice"), student_of(PurePath("flash2_bob.py"), "alice")
    ('alice', 'bob')
    """
    folders = [name for name in path.parts[:-1] if not exercises_in(name)]
    whose = "" if exercises_in(folder) else folder
    return "/".join(folders) or beside(path.stem) or whose or path.stem


def exercises_in(name: str) -> list[str]:
    """The names of the exercises that a name speaks of, by number or by name; both together where they agree.

    >>> exercises_in("e08_flash2_alice"), exercises_in("online-softmax"), exercises_in("e07_flash2"), exercises_in("notes")
    (['flash2'], ['online-softmax'], ['flash', 'flash2'], [])
    """
    words = split(name)
    numbers = {int(match[1]) for word in words if (match := NUMBER.fullmatch(word))}
    numbered = {one.name for one in EXERCISES.values() if one.number in numbers}
    spelled = {words_there for _, _, words_there in spans(words)}
    found = numbered if numbered <= spelled and numbered else numbered | spelled
    return [one for one in EXERCISES if one in found]


def spans(words: list[str]) -> list[tuple[int, int, str]]:
    """Where the words of an exercise stand, as (first, stop, name); one within a longer one does not count."""
    every = [
        (start, start + len(asked), one.name)
        for one in EXERCISES.values()
        for asked in {tuple(split(one.name)), tuple(split(one.function))}
        for start in range(len(words) - len(asked) + 1)
        if tuple(words[start : start + len(asked)]) == asked
    ]
    return [span for span in every if not any(_within(span, other) for other in every)]


def beside(name: str) -> str:
    """What a name has beside the exercise.

    >>> beside("e08_flash2-Alice_Li"), beside("e08_flash2")
    ('Alice_Li', '')
    """
    words = split(name)
    taken = {place for first, stop, _ in spans(words) for place in range(first, stop)}
    taken |= {place for place, word in enumerate(words) if NUMBER.fullmatch(word)}
    places = count()
    kept = WORD.sub(lambda word: "" if next(places) in taken else word[0], name)
    return re.sub(r"([ _.-])[ _.-]+", r"\1", kept).strip(" _-.")


def split(name: str) -> list[str]:
    """The words of a name, in small letters."""
    return [word.lower() for word in WORD.findall(name)]


def _within(span: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    return other[0] <= span[0] and span[1] <= other[1] and other[1] - other[0] > span[1] - span[0]


def _names(path: PurePath) -> Iterator[str]:
    yield path.stem
    yield from reversed(path.parts[:-1])
