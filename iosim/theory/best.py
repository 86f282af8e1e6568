"""The best blocks: fewest words among all that fit, found without trying all pairs of sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from iosim.specs import Blocks
from iosim.theory.band import Band, Streams
from iosim.theory.case import Case
from iosim.theory.patterns import Everywhere, Pairs
from iosim.theory.remedy import largest
from iosim.theory.room import Room
from iosim.theory.sizes import Int, ceil_div
from iosim.theory.tiles import Kinds, Tile, axis
from iosim.theory.visits import Visits, summed

# Why only the outer block is searched. At a given outer block, cutting the inner tiles into single rows never adds words:
# a row that visits an outer tile belongs to an inner tile that visits it, so no row visits more often than before. Every term grows with the
# visits of the rows (flash with first_pass="create" with max(visits - 1, 0) for O, l and m), but for the mask's, and a row
# that is partly hidden in an outer tile lies in an inner tile that is. Nor does it add residents: each single row is part of a larger tile
# of the same columns, and where it is the first one of its row and holds a computed O, the tile's own first one, which is no narrower, did so too.
# So the fewest words are found with an inner block of 1, and then the inner block grows as long as the words stay the same.
