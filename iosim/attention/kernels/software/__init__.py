"""Attention as pieces of software run it, forward and backward: what the papers compare with."""
