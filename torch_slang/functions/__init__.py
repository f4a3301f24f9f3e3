"""Plain functions as Python functions."""
