"""What exercises 6, 7 and 11 judge beside O: the scores S, the weights P and the statistics l and m."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iosim.core.masks.grid import index_rule
from iosim.core.problem import Attention
from iosim.course.answers import softmax_bounds, softmax_rows
from iosim.course.spec import Trial
from iosim.course.trials import Data, Expected, forward_answers

Float = NDArray[np.float64]


def problem_of(asked: Trial) -> Attention:
    """The problem of a trial."""
    (n, d), (nk, dv) = asked.inputs["Q"], asked.inputs["V"]
    return asked.mask or Attention(n, d, nk=nk, dv=dv, scale=float(asked.params["scale"]))


def scores(problem: Attention, data: Data) -> Float:
    """S = scale Q K^T (N_q, N_k) in float64, -inf where a pair may not attend."""
    q, k = (data[name].astype(np.float64) for name in ("Q", "K"))
    s = problem.softmax_scale * (q @ k.T)
    rule = index_rule(problem, with_blocks=True)
    return s if rule is None else np.where(rule(np.arange(problem.n)[:, None], np.arange(problem.nk)[None, :]), s, -np.inf)


def weight_answers(asked: Trial, data: Data) -> Expected:
    """S, P and O with their bounds: a score is the LSE of one key, and a weight the output of keys whose values are 0 and 1."""
    problem = problem_of(asked)
    s, right = scores(problem, data), forward_answers(problem, data)
    return {"S": (s, right["LSE"][1]), "P": (softmax_rows(s)[0], softmax_bounds(s, "float32")[0]), "O": right["O"]}


def statistic_answers(asked: Trial, data: Data) -> Expected:
    """m, l and O with their bounds: m is a score, and log l the difference of the LSE and m; l = 0 and m = -inf where nothing is seen."""
    problem = problem_of(asked)
    right = forward_answers(problem, data)
    lse, bound = right["LSE"]
    m = scores(problem, data).max(axis=1, keepdims=True)
    l = np.exp(lse - np.where(np.isneginf(m), 0.0, m))
    return {"m": (m, bound), "l": (l, float(l.max() * np.expm1(2 * bound))), "O": right["O"]}
