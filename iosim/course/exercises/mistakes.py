"""Mistakes that several exercises know: the listings of attention share lines, and so what goes wrong in them.

Where an exercise says or edits something of its own, the mistake is a function that takes it; the rest stands in the exercise itself.
"""

from __future__ import annotations

from iosim.course.spec import Mistake

Edit = tuple[str, str]

# whichever loop is outside

SCALED: Edit = ("scale * (q @ k.T)", "q @ k.T")

TAIL_KEYS_DROPPED = Mistake(
    "tail keys dropped",
    "The last key tile may be short, but it counts: loop over m.tiles(N_k, Bc), which hands out the tail too.",
    (("m.tiles(N_k, Bc)", "(j for j in m.tiles(N_k, Bc) if j.size == Bc)"),),
)

S_WITHOUT_ROOM = Mistake(
    "S without room",
    "S_ij is needed twice, for its row maximum and for P, and what has no room is used once: give it room with m.let when it is "
    "computed. P can then be written over it.",
    (('m.let(scale * (q @ k.T), "S_ij")', "scale * (q @ k.T)"),),
    fails="rules",
)


def p_used_twice(maximum: str = "m_new") -> Mistake:
    """P without a name, where ``maximum`` was taken off S."""
    return Mistake(
        "P used twice without a name",
        "An unnamed value is gone once it was used, and P is needed for l and for O: give it room, over S, with s[...] = ...",
        ((f"s[...] = exp(s - {maximum})", f"p = exp(s - {maximum})"), ("s.rowsum()", "p.rowsum()"), ("s @ v", "p @ v")),
        fails="rules",
    )


# queries outside: exercises 8, 10 and 13

RESCALE_OF_O_MISSING = Mistake(
    "rescale of O missing",
    "When the maximum grows, what O has summed so far was weighted against the old one: multiply O by exp(m_old - m_new) first.",
    (("alpha * o + s @ v", "o + s @ v"),),
)

SCALE_MISSING = Mistake("scale missing", "The scores are scale Q K^T; multiply by scale before the maximum is taken.", (SCALED,))


def q_loaded_again(name: str) -> Mistake:
    """Q_i in the inner loop."""
    return Mistake(
        name,
        "Q_i is the same for every key tile: load it once, before the inner loop.",
        (("        q = m.load(Q[i])\n", ""), ("k, v = m.load(K[j])", "q, k, v = m.load(Q[i]), m.load(K[j])")),
        fails="words",
    )


# keys outside: exercises 7 and 11

SCORES_NOT_SCALED = Mistake(
    "scale missing",
    "The scores are scale Q K^T, and the softmax of other scores is another one: multiply by scale before the maximum is taken.",
    (SCALED,),
)


def old_o_without_its_l(edit: Edit) -> Mistake:
    """O as it came from HBM, where a sum is wanted."""
    return Mistake(
        "old O not multiplied by its l",
        "O in HBM has been divided by l. Before anything is added to it, it must become a sum again: multiply it by the l that came "
        "with it.",
        (edit,),
    )


def k_and_v_loaded_again(edit: Edit) -> Mistake:
    """K_j and V_j in the inner loop: ``edit`` loads them there."""
    return Mistake(
        "K and V loaded for every pair of tiles",
        "K_j and V_j are the same for every query tile: load them once, between the two loops. That is what keys outside are for.",
        (("        k, v = m.load(K[j]), m.load(V[j])\n", ""), edit),
        fails="words",
    )


def state_in_a_list(*edits: Edit) -> Mistake:
    """O, l and m of all query tiles on chip, without room."""
    return Mistake(
        "O, l and m kept in a list",
        "A Python list has no room on chip: what was made in a turn of a loop is released when that turn ends. Between key tiles O, l "
        "and m wait in HBM.",
        edits,
        fails="rules",
    )
