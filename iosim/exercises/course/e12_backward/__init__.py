"""Exercise 12."""
