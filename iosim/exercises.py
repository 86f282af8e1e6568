"""The course, as students' files import it.

>>> from iosim.exercises import check
>>> from iosim.course.exercises.e08_flash2.source import flash2
>>> check(flash2, seed=1).passed
True
"""

from iosim.course.here import check

__all__ = ["check"]
