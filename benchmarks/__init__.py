"""Benchmarks of torch_slang beside its rivals: ``python -m benchmarks`` or ``make bench``."""
