"""Exercise 9."""
