"""Kernels and host functions as Python functions."""
