"""Exercise 3."""
