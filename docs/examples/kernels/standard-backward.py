from iosim import Attention, both

for kernel in ("standard", "flash2"):
    made = both(kernel, Attention(n=1024, d=64), sram="100KiB")
    forward, backward = made.reports
    print(f"{kernel:8}: forward {forward.total:9,}, backward {backward.total:9,} words; {backward.total / forward.total:.1f} times")
