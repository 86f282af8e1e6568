"""Exercise 7."""
