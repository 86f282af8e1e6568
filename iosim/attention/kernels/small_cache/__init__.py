"""Listings for a small SRAM, M < d^2, forward and backward: every product in tiles that are bounded both ways."""
