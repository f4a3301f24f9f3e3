"""Matrix products beside cuBLAS and Triton: the four transposes with gradients, many shapes, and their errors."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from benchmarks.comparison import OURS
from benchmarks.measure import device, print_table
from benchmarks.products import SHORT, Product, blas, check, measure_all, print_rows
from benchmarks.repeats import QUICK, Pace, own_stream

Shape = tuple[int, int, int, int]  # batch, M, N, K

LAYOUTS = {"NN": (False, False), "NT": (False, True), "TN": (True, False), "TT": (True, True)}
STEADY = {(torch.bfloat16, False): list(LAYOUTS), (torch.bfloat16, True): ["NN"], (torch.float16, False): ["NN"]}
PACE = Pace(rounds=5)
SIZES_PACE = Pace(rounds=10)
SQUARES = [(1, size, size, size) for size in range(512, 8193, 512)]
TALL = [(1, 8192, 512, 512), (1, 8192, 512, 4096), (1, 16384, 256, 1024)]
WIDE = [(1, 512, 8192, 512), (1, 512, 8192, 4096), (1, 256, 16384, 1024)]
SHALLOW = [(1, 4096, 4096, 64), (1, 4096, 4096, 256), (1, 8192, 8192, 128)]
DEEP = [(1, 512, 512, 8192), (1, 1024, 1024, 8192)]
BATCHED = [(256, 128, 128, 128), (64, 512, 512, 512), (16, 1024, 1024, 1024), (8, 2048, 2048, 2048)]
SHAPES = [*SQUARES, *TALL, *WIDE, *SHALLOW, *DEEP, *BATCHED]
QUICK_SHAPES = [(1, 64, 64, 64), (1, 128, 16, 24), (1, 16, 128, 24), (1, 64, 64, 4), (1, 16, 16, 200), (3, 32, 32, 32)]
WIDELY = [(1, 512, 512, 512), (1, 4096, 4096, 4096), (1, 8192, 512, 4096), (1, 512, 512, 8192)]  # types but bfloat16
RANDOM = "random normal numbers; repeated calls find small operands in the L2 cache, all alike"


# --- The four transposes


def plain(transpose_a: bool, transpose_b: bool, a: Tensor, b: Tensor) -> Tensor:
    return torch.mm(a.mT if transpose_a else a, b.mT if transpose_b else b)


def ours(transpose_a: bool, transpose_b: bool, a: Tensor, b: Tensor) -> Tensor:
    result: Tensor = torch.ops.slang.dot(a, b, transpose_a, transpose_b)
    return result


def gradients(
    function: Callable[..., Tensor], leaves: Sequence[Tensor], grad: Tensor
) -> Callable[[], Sequence[Tensor]]:
    """The backward alone: its forward runs once, when it is first called."""
    wanted = [leaf.detach().requires_grad_() for leaf in leaves]
    result = functools.cache(lambda: function(*wanted))
    return lambda: torch.autograd.grad(result(), wanted, grad, retain_graph=True)


def triton_product(backward: bool, transposes: tuple[bool, bool], a: Tensor, b: Tensor, grad: Tensor) -> list[Tensor]:
    from benchmarks.rivals import triton_matmul

    left, right = (x.mT if transposed else x for x, transposed in zip((a, b), transposes, strict=True))
    if not backward:
        return [triton_matmul.mm(left, right)]
    grads = triton_matmul.mm(grad, right.mT), triton_matmul.mm(left.mT, grad)
    return [x.mT if transposed else x for x, transposed in zip(grads, transposes, strict=True)]


def has_triton() -> bool:
    return device() == "cuda" and importlib.util.find_spec("triton") is not None


def layout_product(dtype: torch.dtype, size: int, layout: str, backward: bool) -> Product:
    a, b, grad = torch.randn(3, size, size, device=device()).to(dtype)
    transposes = LAYOUTS[layout]
    functions = {OURS: functools.partial(ours, *transposes), blas(): functools.partial(plain, *transposes)}
    if backward:
        runs = {name: gradients(function, [a, b], grad) for name, function in functions.items()}
    else:
        runs = {name: functools.partial(function, a, b) for name, function in functions.items()}
    if has_triton():
        runs["Triton"] = functools.partial(triton_product, backward, transposes, a, b, grad)

    def expected() -> Sequence[Tensor]:
        wide = a.double(), b.double()
        if backward:
            return gradients(functions[blas()], wide, grad.double())()
        return [functions[blas()](*wide)]

    return Product(
        f"{SHORT[dtype]} {size} {layout} {'backward' if backward else 'forward'}",
        runs,
        expected,
        (4 if backward else 2) * size**3,
        dtype,
        steady=[OURS, blas()] if layout in STEADY.get((dtype, backward), ()) else [],
    )


@own_stream()
def main(quick: bool) -> None:
    pace = QUICK if quick else PACE
    products = [
        functools.partial(layout_product, dtype, size, layout, backward)
        for dtype in ((torch.bfloat16,) if quick else (torch.bfloat16, torch.float16))
        for backward in (False, True)
        for size in ((64,) if quick else (4096, 8192))
        for layout in LAYOUTS
    ]
    notes = ["N: as it lies in memory, T: transposed; backward: both gradient products, by autograd", RANDOM]
    if not has_triton():
        notes.append("without Triton: not here")
    print_rows("matrix products", measure_all(products, pace), pace, notes=notes)


# --- Shapes


def shape_title(shape: Shape) -> str:
    batch, *sizes = shape
    return (f"{batch} of " if batch > 1 else "") + " x ".join(map(str, sizes))


def shape_product(dtype: torch.dtype, shape: Shape, title: str = "", allowed: float | None = None) -> Product:
    batch, m, n, k = shape
    leading = [batch] if batch > 1 else []
    a, b = (torch.randn(*leading, *size, device=device()).to(dtype) for size in ((m, k), (k, n)))
    product = torch.bmm if leading else torch.mm
    return Product(
        title or shape_title(shape),
        {OURS: functools.partial(torch.ops.slang.matmul, a, b), blas(): functools.partial(product, a, b)},
        lambda: product(a.double(), b.double()),
        2 * batch * m * n * k,
        dtype,
        allowed,
        [OURS, blas()] if batch == 1 and m == n == k and m in (4096, 8192) else [],
    )


@own_stream()
def sizes(quick: bool) -> None:
    pace = QUICK if quick else SIZES_PACE
    shapes = QUICK_SHAPES if quick else SHAPES
    rows = measure_all([functools.partial(shape_product, torch.bfloat16, shape) for shape in shapes], pace)
    notes = ["M x N x K, both as they lie in memory", RANDOM]
    print_rows("matrix products in bf16 by shape", rows, pace, unit="us", notes=notes, ratios=True)


# --- Errors


def shape_errors(product: Product) -> tuple[list[object], list[dict[str, object]]]:
    """The row, if both are right, and how wrong each was."""
    checks: list[dict[str, object]] = []
    right = check(product, checks)
    if right.keys() != product.runs.keys():
        return [], checks
    expected = product.expected()
    assert isinstance(expected, Tensor)
    largest, norm = expected.abs().max(), expected.norm()
    worst, overall = [], []
    for run in right.values():
        result = run()
        assert isinstance(result, Tensor)
        difference = result.double() - expected
        worst.append(float(difference.abs().max() / largest))
        overall.append(float(difference.norm() / norm))
    return [product.title, *worst, worst[1] / worst[0], *overall, overall[1] / overall[0]], checks


def error_products(quick: bool) -> Iterator[Callable[[], Product]]:
    cases: Mapping[torch.dtype, Sequence[Shape]] = {
        torch.bfloat16: QUICK_SHAPES if quick else SHAPES,
        torch.float16: [] if quick else WIDELY,
        torch.float32: QUICK_SHAPES[:2] if quick else WIDELY,
    }
    for dtype, shapes in cases.items():
        for shape in shapes:
            yield functools.partial(shape_product, dtype, shape, f"{SHORT[dtype]} {shape_title(shape)}")


@own_stream()
def errors(quick: bool) -> None:
    rows, checks = [], []
    for make in error_products(quick):
        row, checked = shape_errors(make())
        checks += checked
        if row:
            rows.append(row)
    names = [OURS, blas(), f"{blas()} / ours"]
    print_table(
        f"errors of matrix products, on {device()}",
        ["", *(f"max, {name}" for name in names), *(f"Frobenius, {name}" for name in names)],
        rows,
        notes=[
            "max: the largest difference from a product in float64, as a part of the largest element; Frobenius: the "
            "norm of all differences, as a part of the product's; ratios above 1: ours is more exact",
            "random normal numbers; fp32 without TF32",
        ],
        checks=checks,
    )
