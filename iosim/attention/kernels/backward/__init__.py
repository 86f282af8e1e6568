"""The backward listings, one a file, and what only they need."""
