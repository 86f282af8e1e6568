"""Independent oracles for attention: values and gradients in float64, dropout, error bounds, a recount of traces. Never imports iosim."""

from iosim_reference import softmax
from iosim_reference.attention import Result, allowed, attention
from iosim_reference.bounds import gradient_bound, lse_bound, output_bound
from iosim_reference.dropout import kept
from iosim_reference.gradients import Gradients, Magnitudes, PerGradient, gradients
from iosim_reference.philox import philox
from iosim_reference.replay import Replay, ReplayError, Traffic, read_jsonl, replay

__all__ = [
    "Gradients",
    "Magnitudes",
    "PerGradient",
    "Replay",
    "ReplayError",
    "Result",
    "Traffic",
    "allowed",
    "attention",
    "gradient_bound",
    "gradients",
    "kept",
    "lse_bound",
    "output_bound",
    "philox",
    "read_jsonl",
    "replay",
    "softmax",
]
