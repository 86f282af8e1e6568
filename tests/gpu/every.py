"""What tests run through: every variant of every CUDA kernel, and every launch."""

from __future__ import annotations

from iosim_gpu.catalogue import KERNELS

VARIANTS = {" ".join([name, *one.values()]): (name, one) for name, kernel in KERNELS.items() for one in kernel.variants}
STEPS = {step.name: step for name, one in VARIANTS.values() for step in KERNELS[name].steps(**one)}
