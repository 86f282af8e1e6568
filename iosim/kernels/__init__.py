"""The listings, one a file, and the registry that runs them."""
