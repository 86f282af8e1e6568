"""The memory column of the FlashAttention paper, tensor by tensor: what lives in HBM during both passes (Table 21)."""

from __future__ import annotations

from dataclasses import dataclass

ONE_BLOCK = 256  # up to this N the released kernel has one key block and needs no accumulator in HBM


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor in HBM: its ``elements``, of ``itemsize`` bytes each."""

    name: str
    elements: int
    itemsize: int

    @property
    def bytes(self) -> int:
        """What it takes, in bytes."""
        return self.elements * self.itemsize


def pytorch_live(n: int, d: int = 64, instances: int = 128) -> list[Tensor]:
    """What standard attention keeps in float16, without mask and dropout: four N x N tensors and ten N x d ones.

    The counts are those that Table 21 requires. Four and eight of the tensors are those of Algorithms 0 and 3; what the ninth and
    the tenth N x d tensor are is not known.

    >>> sum(tensor.bytes for tensor in pytorch_live(4096)) / 2**20
    17024.0
    """
    square, tall = instances * n * n, instances * n * d
    named = [*_each("S P dP dS", square, 2), *_each("Q K V O dO dQ dK dV", tall, 2)]
    return [*named, Tensor("unnamed 1", tall, 2), Tensor("unnamed 2", tall, 2)]


def flash_live(n: int, d: int = 64, instances: int = 128) -> list[Tensor]:
    """What the first release of FlashAttention keeps: inputs, outputs, their gradients, a copy of the inputs, O(N) statistics.

    The accumulator, of O and then of dQ, is float32 and exists only where there is more than one key block.

    >>> [sum(tensor.bytes for tensor in flash_live(n)) / 2**20 for n in (4096, 128)]
    [836.0, 22.125]
    """
    tall = instances * n * d
    halves = _each("Q K V O dO dQ dK dV Q_unpadded K_unpadded V_unpadded", tall, 2)
    accumulator = [Tensor("O_tmp or dQ_tmp", tall, 4)] if n > ONE_BLOCK else []
    return [*halves, *accumulator, *_each("LSE D", instances * n, 4)]


def _each(names: str, elements: int, itemsize: int) -> list[Tensor]:
    return [Tensor(name, elements, itemsize) for name in names.split()]
