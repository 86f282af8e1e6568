"""Attention on the machine: kernels, plans, runs, and the judges of every number."""
