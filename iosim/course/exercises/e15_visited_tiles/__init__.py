"""Exercise 15."""
