"""Benchmarks of torch_slang beside its rivals: ``python -m benchmarks`` or ``make bench``; docs/benchmarks.md.

Each name stands for a function of one argument, ``quick``, which prints its tables with ``measure.print_table``. The
most important stand first.
"""

ALL = {
    "limits": "limits.main",
    "sqr": "kernels_speed.sqr",
    "stencil": "kernels_speed.stencil",
    "gather": "kernels_speed.gather",
    "biased": "kernels_speed.biased",
    "along": "kernels_speed.along",
    "matmul": "matmul.main",
    "matmul_sizes": "matmul.sizes",
    "matmul_linear": "matmul_linear.main",
    "matmul_distances": "matmul_distances.main",
    "matmul_float": "matmul_float.main",
    "matmul_errors": "matmul.errors",
    "block_sparse": "block_sparse.main",
    "block_sparse_break_even": "block_sparse.break_even",
    "host_cost": "host_cost.main",
    "launch_cost": "launch_cost.main",
    "second_derivatives": "second_derivatives.main",
    "vmap": "vmap.main",
    "trilinear": "trilinear.main",
    "functions": "functions.main",
    "texture": "texture.main",
    "accumulation": "accumulation.main",
    "meetings": "meetings.main",
    "splatting": "splatting.main",
    "cold_load": "cold_load.main",
    "audit_cost": "audit_cost.main",
}
