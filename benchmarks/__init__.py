"""Benchmarks of torch_slang beside its rivals: ``python -m benchmarks`` or ``make bench``; docs/benchmarks.md.

Each name is a module of this package with ``main(quick: bool)``, which prints its tables with ``measure.print_table``.
"""

ALL = ["limits", "kernels_speed", "host_cost", "functions", "accumulation", "cold_load"]
