"""The course: one folder an exercise, each with a single source."""
