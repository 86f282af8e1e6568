"""Exercise 14."""
