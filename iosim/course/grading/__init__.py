"""Grading what nobody trusts: a submission runs apart, and only a one-way stream of what it did comes back."""
