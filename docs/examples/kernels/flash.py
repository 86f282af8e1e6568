from iosim import Attention, simulate

problem = Attention(n=1024, d=64)
for rows in (32, 64, 128, 256):
    made = simulate("flash", problem, sram="1MiB", blocks=(64, rows))
    print(f"Tc = {1024 // rows:2}: Q read {made.arrays['Q'].reads:9,}, O moved {made.arrays['O'].reads + made.arrays['O'].writes:9,}")
