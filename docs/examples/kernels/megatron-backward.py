from iosim import Attention, simulate

for dropout in (0.0, 0.1):
    made = simulate("megatron-backward", Attention(n=512, d=64, dropout=dropout), sram="1MiB", reuse="ideal", overflow="record")
    print(f"dropout {dropout}: {made.total:9,} words, in N² {made.total / 512**2:.2f}")
