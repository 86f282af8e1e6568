"""The moving picture: a run, event by event, as one page that needs nothing else."""

from iosim.show.animation.moving import MovingPicture, animate, from_trace

__all__ = ["MovingPicture", "animate", "from_trace"]
