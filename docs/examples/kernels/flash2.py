from iosim import Attention, simulate

for causal in (False, True):
    problem = Attention(n=1024, d=64, causal=causal)
    made = simulate("flash2", problem, sram=49152, blocks=(64, 64))
    print(f"causal={causal}: K read {made.arrays['K'].reads:9,}, O written {made.arrays['O'].writes:,}, all {made.total:9,}")
