from iosim import Attention, BadInput, simulate

for n in (128, 512, 2048):
    try:
        made = simulate("fmha", Attention(n=n, d=64, dtype="float16"), sram="164KiB")
        print(f"N = {n:5,}: {made.total:7,} words, P written {made.arrays['P'].writes:,}")
    except BadInput as error:
        print(f"N = {n:5,}: {error}")
