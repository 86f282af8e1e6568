"""The closed forms of the kernels, one file a family: what each moves, and what stands on chip."""
