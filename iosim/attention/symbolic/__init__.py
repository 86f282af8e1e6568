"""Closed forms derived by running a listing on a machine whose sizes are symbols. This is the one place that imports sympy."""

from iosim.core.errors import MissingExtra

try:
    from iosim.attention.symbolic.derived import closed_form, derived, derived_terms
    from iosim.attention.symbolic.form import ClosedForm
    from iosim.attention.symbolic.machine import Everywhere, SymbolicMachine
    from iosim.attention.symbolic.moves import Moves
    from iosim.attention.symbolic.sizes import SIZES
except ImportError as error:
    raise MissingExtra(f'symbolic runs need sympy, which does not load here ({error}); pip install "iosim[symbolic]"') from error

__all__ = ["SIZES", "ClosedForm", "Everywhere", "Moves", "SymbolicMachine", "closed_form", "derived", "derived_terms"]
