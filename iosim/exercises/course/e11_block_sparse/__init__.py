"""Exercise 11."""
