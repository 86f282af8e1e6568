from iosim import Attention, simulate

problem = Attention(n=1024, d=64)
for dq_pass in ("shared", "own"):
    made = simulate("flash2-backward", problem, sram=49152, blocks="best", dq_pass=dq_pass)
    print(f"{dq_pass:6}: blocks {made.blocks}, dQ moved {made.arrays['dQ'].reads + made.arrays['dQ'].writes:7,}, all {made.total:,}")
