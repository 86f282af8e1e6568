"""Exercise 4."""
