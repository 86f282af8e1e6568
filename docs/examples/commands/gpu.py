from iosim_gpu.case import Case

case = Case("flash2", 100, 32, 16, 32, 128, causal=True)
for array, moved in case.predicted().items():
    print(f"{array:4}{moved.reads:7,} read {moved.writes:6,} written")
