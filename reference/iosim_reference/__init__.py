"""Independent oracles for attention: values in float64, a recount of traces, float error bounds. Never imports iosim."""

from iosim_reference import scalar, softmax
from iosim_reference.attention import Result, allowed, attention
from iosim_reference.bounds import lse_bound, output_bound
from iosim_reference.replay import Replay, ReplayError, Traffic, read_jsonl, replay

__all__ = [
    "Replay",
    "ReplayError",
    "Result",
    "Traffic",
    "allowed",
    "attention",
    "lse_bound",
    "output_bound",
    "read_jsonl",
    "replay",
    "scalar",
    "softmax",
]
