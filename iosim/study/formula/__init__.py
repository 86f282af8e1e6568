"""Formulas that people type, held against the count."""
