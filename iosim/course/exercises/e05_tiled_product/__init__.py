"""Exercise 5."""
