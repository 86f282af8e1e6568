"""Exercise 1."""
