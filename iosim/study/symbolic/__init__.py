"""Closed forms derived by running a listing on a machine whose sizes are symbols. This is the one place that imports sympy."""

from iosim.core.errors import MissingExtra

try:
    from iosim.study.symbolic.derived import UNSUPPORTED, closed_form
    from iosim.study.symbolic.form import ClosedForm
    from iosim.study.symbolic.machine import Everywhere, SymbolicMachine
    from iosim.study.symbolic.moves import Moves
    from iosim.study.symbolic.sizes import SIZES
except ImportError as error:
    raise MissingExtra(f'symbolic runs need sympy, which does not load here ({error}); pip install "iosim[symbolic]"') from error

__all__ = ["SIZES", "UNSUPPORTED", "ClosedForm", "Everywhere", "Moves", "SymbolicMachine", "closed_form"]
