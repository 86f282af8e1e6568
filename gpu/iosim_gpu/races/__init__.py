"""Races: a deterministic scheduler for simulated threads, and a hunt that takes each barrier of a kernel away."""
