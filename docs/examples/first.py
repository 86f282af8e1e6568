from iosim import Attention, simulate

problem = Attention(n=1024, d=64, causal=True)
for kernel in ("standard", "flash", "flash2"):
    report = simulate(kernel, problem, sram=49152)
    print(f"{kernel:9} blocks {report.blocks!s:7} {report.total:9,} words, sound: {report.sound}")
