"""The stream that a listing leaves, recorded in this process: for our own solutions, and for tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from iosim import memory
from iosim.course.grading import kernel_child, submission
from iosim.course.grading.job import Job
from iosim.course.grading.standin import Machine

OWN = ("iosim.attention.kernels.", "iosim.course.")  # packages of listings, whose functions may call one another


def record(listing: Callable[..., Any] | str | bytes, job: Job) -> bytes:
    """The stream of ``listing``, a function or the source of one, run against the stand-in machine as a child runs it, unprotected.

    A function runs with the stand-in's names in place of those of :mod:`iosim.machine`, and so do the functions of its own module and the
    listings of iosim that it calls.
    """
    frames: list[bytes] = []
    asked = json.loads(job.to_json())
    if isinstance(listing, str | bytes):
        source = listing.encode() if isinstance(listing, str) else listing
        with kernel_child.open_modules():
            kernel_child.run(Machine(frames.append), asked, lambda: submission.load(source, job.function))
    else:
        copy = transplanted(listing, {})
        kernel_child.run(Machine(frames.append), asked, lambda: copy)
    return b"".join(frames)


def transplanted(function: Callable[..., Any], done: dict[int, Any]) -> Any:
    """A copy of ``function`` that knows the stand-in's names only; ``done`` holds the copies so far, by the identity of what is copied."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is no plain function")
    if id(function) not in done:
        world = dict(function.__globals__)
        copy = FunctionType(renamed(function.__code__), world, function.__name__, function.__defaults__, function.__closure__)
        copy.__kwdefaults__ = function.__kwdefaults__
        done[id(function)] = copy
        world.update({name: moved(value, function.__module__, done) for name, value in world.items()})
    return done[id(function)]


def renamed(code: CodeType) -> CodeType:
    """Code that says it comes from a submission, so that its lines are those that are written down."""
    inside = tuple(renamed(part) if isinstance(part, CodeType) else part for part in code.co_consts)
    return code.replace(co_filename=submission.FILE, co_consts=inside)


def moved(value: Any, home: str, done: dict[int, Any]) -> Any:
    """What stands for ``value``, which a module ``home`` knows, in the stand-in's world."""
    if id(value) in STAND_INS:
        return STAND_INS[id(value)]
    if isinstance(value, FunctionType) and (value.__module__ == home or value.__module__.startswith(OWN)):
        return transplanted(value, done)
    return value


STAND_INS = {id(getattr(memory, name)): stand_in for name, stand_in in kernel_child.OPEN["iosim.memory"].items()}
