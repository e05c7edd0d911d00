"""Exercises, their answers, copies for a class, and grading."""
