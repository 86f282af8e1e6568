"""``python -m iosim_gpu.profile_target CASE``: the launches of one case on a GPU and nothing else, for a profiler to watch.

CASE is JSON, as :func:`iosim_gpu.meters.nsight.command` writes it. The kernels are those without counters. Exit status 2: one line on
standard error says what is missing or refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

from iosim.core.errors import BadInput
from iosim_gpu.calls import Call, calls, prepared
from iosim_gpu.case import Case
from iosim_gpu.meters import device
from iosim_gpu.wire import Job, job_from_json, job_to_json

NAME = "iosim_gpu.profile_target"


def spelled(case: Case) -> str:
    """``case`` as an argument of this program."""
    return json.dumps(job_to_json(Job("nsight", case)), separators=(",", ":"))


def case_of(text: str) -> Case:
    """The case that :func:`spelled` was given; raises :class:`iosim.core.errors.BadInput` for anything that it does not write."""
    try:
        return job_from_json(json.loads(text)).case
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise BadInput(f"a case is spelled as profile_target.spelled does, not {text!r} ({type(error).__name__}: {error})") from error


def main(arguments: Sequence[str], launch: Callable[[Call], None] = device.launch) -> int:
    """Launch the case that the one argument spells."""
    try:
        case = case_of(*arguments) if len(arguments) == 1 else _usage()
        for call in calls(case, prepared(case)):
            launch(call)
    except BadInput as refused:
        sys.stderr.write(f"{NAME}: {refused}\n")
        return 2
    return 0


def _usage() -> Case:
    raise BadInput(f"usage: python -m {NAME} CASE, where CASE is one JSON text")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
