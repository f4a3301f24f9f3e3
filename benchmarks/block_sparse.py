"""Block-sparse linear products beside the dense one of the whole matrix, torch's own BSR, and the package stk if it is
installed (stanford-stk; blocks of 128 alone): ``x @ W.mT``.

The number behind the dense product's name is its time / ours: above 1 is faster than dense.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.comparison import OURS
from benchmarks.matmul_float import tf32
from benchmarks.measure import device, print_table
from benchmarks.products import ALLOWED_TF32, SHORT, Product, Row, blas, measure_all, print_rows
from benchmarks.repeats import QUICK, Pace, Repeated, burst, own_stream
from torch_slang import BlockPattern, block_sparse_mm

PACE = Pace(rounds=8, rest=8.0, seconds=150.0)
BLOCKS, DENSITIES = (128, 64, 32, 16), (0.5, 0.25, 0.1)


@dataclass(frozen=True)
class Case:
    """`sizes`: rows of x, in, out. `kind`: how the pattern is drawn."""

    sizes: tuple[int, int, int]
    block: int
    density: float
    backward: bool = False
    dtype: torch.dtype = torch.bfloat16
    kind: str = "random"
    tf32: bool = False

    @property
    def title(self) -> str:
        rows, columns, results = self.sizes
        what = "forward + backward" if self.backward else "forward"
        return (
            f"{'tf32' if self.tf32 else SHORT[self.dtype]} [{rows}, {columns}] -> {results}, block {self.block}, "
            f"density {self.density:g}, "
            f"{self.kind}, {what}"
        )

    def pattern(self) -> BlockPattern:
        shape, block = (self.sizes[2], self.sizes[1]), (self.block, self.block)
        generator = torch.Generator().manual_seed(0)
        if self.kind == "random":
            return BlockPattern.random(shape, block, self.density, generator, device())
        across = BlockPattern.full(shape, block).mask()
        if self.kind == "triangle":
            return BlockPattern.from_mask(across.tril().to(device()), block)
        rest = round(self.density * across.numel()) - across.shape[1]  # "one full row"
        scores = torch.rand(across.shape, generator=generator)
        scores[0] = -1
        mask = torch.zeros_like(across)
        mask.view(-1)[scores.flatten().argsort(descending=True)[:rest]] = True
        mask[0] = True
        return BlockPattern.from_mask(mask.to(device()), block)


def product(case: Case) -> Product:
    rows, columns, results = case.sizes
    pattern = case.pattern()
    random = functools.partial(torch.randn, device=device())
    x = random(rows, columns).to(case.dtype).requires_grad_(case.backward)
    values = (random(pattern.count, *pattern.block_shape) / columns**0.5).to(case.dtype).requires_grad_(case.backward)
    whole = (random(results, columns) / columns**0.5).to(case.dtype).requires_grad_(case.backward)
    grad = random(rows, results).to(case.dtype)

    def with_gradients(function: Callable[[], Tensor], leaves: Sequence[Tensor]) -> Callable[[], list[Tensor]]:
        def run() -> list[Tensor]:
            with tf32(True) if case.tf32 else contextlib.nullcontext():
                if not case.backward:
                    return [function()]
                result = function()
                return [result.detach(), *torch.autograd.grad(result, leaves, grad)]

        return run

    def expected() -> list[Tensor]:
        wide_x, wide = (tensor.detach().double().requires_grad_(case.backward) for tensor in (x, values))
        dense = pattern.to_dense(wide)
        result = wide_x @ dense.mT
        if not case.backward:
            return [result]
        return [result.detach(), *torch.autograd.grad(result, [wide_x, wide], grad.double())]

    runs: dict[str, Any] = {OURS: with_gradients(lambda: block_sparse_mm(x, values, pattern, True), [x, values])}
    has_whole_blocks = all(size % case.block == 0 for size in pattern.shape)  # torch's BSR has no others
    if not case.backward and device() == "cuda" and has_whole_blocks:
        sparse = pattern.to_bsr(values)
        runs["torch BSR"] = bsr_product(x, sparse)
    if has_stk() and case.block == 128 and is_half(case.dtype):
        runs["stk"] = with_gradients(stk_product(x, values, pattern), [x, values])
    dense_name = f"dense {blas()}"
    return Product(
        case.title,
        runs,
        expected,
        int(2 * rows * pattern.count * case.block**2 * (3 if case.backward else 1)),
        case.dtype,
        beside={dense_name: with_gradients(lambda: F.linear(x, whole), [x, whole])},
        allowed=ALLOWED_TF32 if case.tf32 else None,
    )


def is_half(dtype: torch.dtype) -> bool:
    return dtype in {torch.float16, torch.bfloat16}


def bsr_product(x: Tensor, sparse: Tensor) -> Callable[[], Tensor]:
    """``x @ sparse.mT``; of halves by the fastest settings of torch's Triton kernel, which the first run finds."""
    fastest = functools.cache(functools.partial(fastest_bsr, x, sparse))

    def run() -> Tensor:
        return fastest()()

    return run


def fastest_bsr(x: Tensor, sparse: Tensor) -> Callable[[], Tensor]:
    operators: Any = importlib.import_module("torch.sparse._triton_ops")
    out, rows = sparse.shape[0], x.shape[0]
    nothing = x.new_zeros(out, rows)

    def with_settings(meta: dict[str, int]) -> Tensor:
        result: Tensor = operators.bsr_dense_addmm(nothing, sparse, x.mT, beta=0, meta=dict(meta)).mT
        return result

    calls: dict[str, Callable[[], Tensor]] = {"torch's own": lambda: F.linear(x, sparse)}
    if is_half(x.dtype) and rows >= 256 and sparse.values().shape[1] >= 32:
        for columns, stages, warps in itertools.product((64, 128, 256), (2, 3, 4), (4, 8)):
            meta = {"SPLIT_N": rows // columns, "GROUP_SIZE_ROW": 4, "num_stages": stages, "num_warps": warps}
            calls[str(meta)] = functools.partial(with_settings, meta)
    repeated = {}
    for name, call in calls.items():
        with contextlib.suppress(Exception):  # some want more shared memory than there is
            repeated[name] = Repeated(call, QUICK)
    times = burst(repeated, QUICK)
    return calls[min(times, key=lambda name: times[name])]


def has_stk() -> bool:
    return device() == "cuda" and importlib.util.find_spec("stk") is not None


def stk_product(x: Tensor, values: Tensor, pattern: BlockPattern) -> Callable[[], Tensor]:
    matrix_type: Any = importlib.import_module("stk.matrix").Matrix
    operators: Any = importlib.import_module("stk.ops.linear_ops")
    rows, columns = pattern.rows.short(), pattern.columns.short()
    matrix = matrix_type(torch.Size(pattern.shape), values, rows, columns, pattern.row_offsets)
    result: Callable[[], Tensor] = functools.partial(operators.dds, x, matrix.t())
    return result


def cases(quick: bool) -> list[Case]:
    if quick:
        return [Case((40, 128, 96), block, 0.5, backward) for block in (32, 64) for backward in (False, True)]
    square, mlp = (4096, 4096, 4096), (16384, 1024, 4096)
    found = [Case(square, *one) for one in itertools.product(BLOCKS, DENSITIES, (False, True))]
    found += [Case(mlp, block, 0.25, backward) for block in (128, 64, 32) for backward in (False, True)]
    found += [Case((8192, 8192, 8192), block, 0.25) for block in (128, 64)]
    found += [Case(square, block, 0.5, kind=kind) for block in (128, 64) for kind in ("one full row", "triangle")]
    found += [Case((rows, 16384, 16384), block, 0.25) for block in (128, 64, 32) for rows in (1, 16)]
    halves_and_floats = [(torch.float16, False), (torch.float32, True), (torch.float32, False)]
    for (dtype, is_tf32), block in itertools.product(halves_and_floats, (64, 128)):
        found.append(Case(square, block, 0.5, dtype=dtype, tf32=is_tf32))
    return found


@own_stream()
def main(quick: bool) -> None:
    pace = QUICK if quick else PACE
    rows = measure_all([functools.partial(product, case) for case in cases(quick)], pace)
    notes = ["operations are those of the blocks; dense: the whole matrix, which is another product"]
    print_rows("block-sparse linear products", rows, pace, notes=notes)


@own_stream()
def break_even(quick: bool) -> None:
    """The time of the sparse product by that of the dense one, for each size of blocks and density."""
    pace = QUICK if quick else PACE
    size = 128 if quick else 4096
    densities = (1.0, 0.5) if quick else (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
    table: list[list[object]] = []
    for density in densities:
        cases = [Case((size, size, size), block, density) for block in BLOCKS]
        rows = [measure_all([functools.partial(without_rivals, case)], pace) for case in cases]
        table.append([f"{density:g}", *(of_dense(row) for row in rows)])
    names = [f"block {block}" for block in BLOCKS]
    print_table(
        f"block-sparse product bf16 [{size}, {size}] -> {size}, time / dense {blas()}",
        ["density", *names],
        table,
        chart=names,
        unit="time / dense",
        lines=[1.0],
        notes=["below 1 the sparse product is faster"],
    )


def without_rivals(case: Case) -> Product:
    whole = product(case)
    return replace(whole, runs={OURS: whole.runs[OURS]})


def of_dense(rows: Sequence[Row]) -> float | None:
    return rows[0].burst[OURS] / rows[0].burst[f"dense {blas()}"] if rows else None
