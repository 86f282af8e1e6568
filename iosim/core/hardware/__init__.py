"""GPUs as data: every number with its unit, its source, and whether it was read there.

Tables print KB and MB for the memories on a chip and mean KiB and MiB (1024 B, 1024 KiB); memory and bandwidth are in GB of 10^9 bytes.
"""

from iosim.core.hardware.chip import Device
from iosim.core.hardware.files import DEVICES, device
from iosim.core.hardware.quantity import KINDS, Quantity

__all__ = ["DEVICES", "KINDS", "Device", "Quantity", "device"]
