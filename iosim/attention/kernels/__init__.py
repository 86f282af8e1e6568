"""The forward listings of the papers, one a file; beside them the backward ones, and software."""
