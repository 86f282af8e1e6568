"""The exercises by name, in the order of the course; each is imported when the first one is asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from iosim.core.errors import BadInput
from iosim.course import exercises
from iosim.course.spec import Exercise

EXERCISES: dict[str, Exercise]
"""All exercises by name, in the order of their numbers."""


def __getattr__(name: str) -> dict[str, Exercise]:
    if name == "EXERCISES":
        return found()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def found() -> dict[str, Exercise]:
    """What the folders of the course hold."""
    folders = [module.name for module in iter_modules(exercises.__path__) if module.ispkg]
    sources = (import_module(f"{exercises.__name__}.{folder}.source") for folder in folders)
    found: list[Exercise] = sorted((source.EXERCISE for source in sources), key=lambda exercise: exercise.number)
    return {exercise.name: exercise for exercise in found}


def exercise(name: str | int) -> Exercise:
    """The exercise of this name or number; raises :class:`BadInput` naming those that exist.

    >>> exercise(8).name, exercise("flash2").number, exercise("08").function
    ('flash2', 8, 'flash2')
    """
    for one in found().values():
        if str(name) == one.name or (str(name).isdecimal() and int(name) == one.number):
            return one
    raise BadInput(f"there is no exercise {name!r}; there are {', '.join(f'{one.number} {one.name}' for one in found().values())}")


def exercise_of(function: str) -> Exercise:
    """The exercise in which a function of this name is to be written; raises :class:`BadInput` naming the functions that are asked for."""
    for one in found().values():
        if one.function == function:
            return one
    raise BadInput(f"no exercise asks for a function {function!r}; they ask for {', '.join(one.function for one in found().values())}")
