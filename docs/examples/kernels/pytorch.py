from iosim import Attention, simulate

for title, problem in {
    "plain": Attention(n=512, d=64),
    "causal": Attention(n=512, d=64, causal=True),
    "dropout": Attention(n=512, d=64, dropout=0.1),
}.items():
    made = simulate("pytorch", problem, sram="1MiB", reuse="ideal", overflow="record")
    print(f"{title:8}{made.total:10,} words, of which 4 N² are {4 * 512**2:,}")
