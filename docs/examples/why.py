from iosim import Attention, simulate
from iosim.core.hardware import device

gpu = device("a100-40gb")
problem = Attention(n=4096, d=64, batch=16, heads=8, dtype="float16")
print("               moved      takes |     products      take |   flop/byte |    all else")
for kernel in ("standard", "flash", "flash2"):
    made = simulate(kernel, problem, sram="164KiB", execute=False)
    products, other = made.flops.matmul, made.flops.elementwise + made.flops.exp
    bytes_ms, flops_ms = 1e3 * made.bytes / gpu.bandwidth, 1e3 * products / gpu.fp16_tensor_rate
    print(
        f"{kernel:8} {made.bytes / 1e9:8.2f} GB {bytes_ms:7.2f} ms | {products / 1e9:6.1f} Gflop {flops_ms:6.2f} ms"
        f" | {products / made.bytes:11.0f} | {other / 1e9:5.1f} Gflop"
    )
