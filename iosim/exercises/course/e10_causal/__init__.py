"""Exercise 10."""
