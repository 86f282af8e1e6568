"""Exercise 6."""
