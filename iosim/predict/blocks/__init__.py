"""The search for blocks: what fits, what is best, and the fewest words at every SRAM."""
