"""Exercise 2."""
