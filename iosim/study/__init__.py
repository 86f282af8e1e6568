"""Questions about many runs: regimes, caches, papers, formulas."""
