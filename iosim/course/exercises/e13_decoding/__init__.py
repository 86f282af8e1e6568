"""Exercise 13."""
