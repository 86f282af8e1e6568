"""Exercise 8."""
