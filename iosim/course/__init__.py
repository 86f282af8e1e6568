"""The course: exercises in which students write tiled attention, and a grader that judges values, memory rules and words moved."""
