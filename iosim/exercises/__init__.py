"""Exercises: a course in which students write tiled attention, and a grader that judges values, memory rules and words moved.

>>> from iosim.exercises import check
>>> from iosim.exercises.course.e08_flash2.source import flash2
>>> check(flash2, seed=1).passed
True
"""

from iosim.exercises.here import check

__all__ = ["check"]
