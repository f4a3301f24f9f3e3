"""Kernels whose blocks multiply matrices: the Slang module torch_slang.mma, on each device and for each tile."""

from __future__ import annotations

import itertools
import math
import os
import random
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import nvrtc_is_here
from devices import needs_cuda
from long_tests import dear_test, some_cases, some_tests

import torch_slang

pytestmark = some_tests(3)

Tensor = torch.Tensor
OPS = Path(torch_slang.__file__).with_name("ops")
EXAMPLE = Path(__file__).parents[2] / "examples" / "distances" / "distances.py"

# As in the [Tune] lists of ops/matmul.slang: one for two turns, stages or none, rows, columns and parts.
HALF_TILES = [1282561, 1281281, 640641, 1281921, 80641281, 641281, 80640641, 1282241, 1281601, 1281441, 1281284, 641284]
TILE_IN_TURNS = 101282561  # of products with an epilogue
WIDE_TILES = [1281281, 1282561, 641281, 1280641, 640641, 641284]
TF32_TILES = [1281281, 1282561, 641281, 1280641, 640641]

HOPPER_TILES = [1282241, 1281601, 1281441]  # refused when code is compiled for other GPUs

SIZES = [(1, 8, 8, 8), (2, 130, 257, 70), (3, 1, 1, 1), (1, 264, 1032, 520), (1, 5, 3, 999), (1, 257, 129, 1)]
SIZES += [(1, 140, 200, 130), (1, 70, 216, 64)]


def tuned(kernel: str) -> list[list[int]]:
    """The [Tune] lists in front of a kernel of ops/matmul.slang: with an epilogue and without, if these differ."""
    lines = (OPS / "matmul.slang").read_text().splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith((f"void {kernel}<", f"void {kernel} ")))
    begin = max(i for i, line in enumerate(lines[:end]) if not line)
    return [[int(value) for value in line.split('"')[3].split(",")] for line in lines[begin:end] if "[Tune(" in line]


def test_all_tiles_are_listed_here() -> None:
    assert tuned("PRODUCT") == [[HALF_TILES[0], TILE_IN_TURNS, *HALF_TILES[1:]], HALF_TILES]
    assert tuned("PRODUCT_WIDE") == [WIDE_TILES]
    assert tuned("PRODUCT_TF32") == [TF32_TILES]


def sides(tile: int) -> tuple[int, int]:
    return tile // 10000 % 1000, tile // 10 % 1000


def is_for_hopper() -> bool:
    return torch.cuda.get_device_capability() == (9, 0) and "TORCH_SLANG_CUDA_ARCHITECTURE" not in os.environ


def half_tile(tile: int) -> Any:
    if tile in HOPPER_TILES and not is_for_hopper():
        pytest.skip("a tile of Hopper's")
    return with_tile(tile)


def with_tile(tile: int) -> Any:
    return torch_slang.load(OPS / "matmul.slang", namespace=f"tile_{tile}", defines={"TILE": tile})


def matrices(batch: int, rows: int, columns: int, layout: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Random ones that lie by rows, by columns, or so that 16-byte vectors begin in the midst of elements."""
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    values = torch.randn(batch, rows, columns, generator=generator, dtype=torch.float64).to(device, dtype)
    if layout == "columns":
        return values.mT.contiguous().mT
    if layout == "apart":
        place = torch.zeros(batch, rows, columns * 2 + 1, dtype=dtype, device=device)[:, :, 1::2]
        return place.copy_(values)
    return values


def error_of(result: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The largest, as a part of what is added up."""
    a, b = a.double(), b.double()
    return ((result.double() - a @ b).abs() / (a.abs() @ b.abs()).clamp_min(1)).max()


def check(product: Any, layouts: tuple[str, str], dtype: torch.dtype, device: torch.device, digits: float) -> None:
    for batch, m, n, k in SIZES:
        a = matrices(batch, m, k, layouts[0], dtype, device)
        b = matrices(batch, k, n, layouts[1], dtype, device)
        del_me = torch.full((batch, m, n), float("nan"), dtype=dtype, device=device)
        del del_me  # what is not stored shows
        assert error_of(product(a, b), a, b) <= digits, (batch, m, n, k)


LAYOUTS = [*itertools.product(["rows", "columns"], repeat=2), ("apart", "rows"), ("columns", "apart")]


@needs_cuda
@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("tile", [*HALF_TILES, TILE_IN_TURNS])
def test_every_tile_of_halves(tile: int, layouts: tuple[str, str]) -> None:
    product = half_tile(tile).matrix_product
    for dtype, digits in ((torch.bfloat16, 2**-8), (torch.float16, 2**-11)):
        check(product, layouts, dtype, torch.device("cuda"), digits)


@needs_cuda
@pytest.mark.parametrize("tile", [*HALF_TILES, TILE_IN_TURNS])
def test_blocks_go_from_tile_to_tile(tile: int) -> None:
    product, device = half_tile(tile).matrix_product, torch.device("cuda")
    for columns in (2100, 2104):
        a = matrices(1, 2100, 200, "rows", torch.bfloat16, device)
        b = matrices(1, 200, columns, "rows", torch.bfloat16, device)
        assert error_of(product(a, b), a, b) <= 2**-8


@needs_cuda
@pytest.mark.parametrize("tile", [*HALF_TILES, TILE_IN_TURNS])
def test_what_lies_beside_a_result_stays(tile: int) -> None:
    module, device = half_tile(tile), torch.device("cuda")
    rows, columns = sides(tile)
    for n in (200, 203, 216, 257):
        a = matrices(2, 150, 70, "rows", torch.bfloat16, device)
        b = matrices(2, 70, n, "rows", torch.bfloat16, device)
        memory = torch.full((2, 150, 264), 7.0, dtype=torch.bfloat16, device=device)
        blocks = tile % 10 * 2 * math.ceil(150 / rows) * math.ceil(n / columns)
        module.matrix_product_launch(a, b, memory[:, :, :n], block_size=[256], grid_size=[blocks])
        assert error_of(memory[:, :, :n], a, b) <= 2**-8, n
        assert memory[:, :, n:].eq(7).all(), n


@needs_cuda
@pytest.mark.parametrize("tile", [*HALF_TILES, TILE_IN_TURNS])
def test_what_lies_beside_operands_is_not_multiplied(tile: int) -> None:
    product, device = half_tile(tile).matrix_product, torch.device("cuda")
    for m, n, k in ((150, 203, 70), (131, 257, 65), (70, 66, 131)):
        for layouts in itertools.product(["rows", "columns"], repeat=2):
            a = among_nans(matrices(2, m, k, layouts[0], torch.bfloat16, device))
            b = among_nans(matrices(2, k, n, layouts[1], torch.bfloat16, device))
            assert error_of(product(a, b), a, b) <= 2**-8, (m, n, k, layouts)


def among_nans(x: Tensor) -> Tensor:
    """The same, its rows (or its columns, where these follow each other) padded to multiples of 16 bytes."""
    if x.stride(-1) != 1:
        return among_nans(x.mT).mT
    padded = x.new_full((*x.shape[:-1], -(-x.shape[-1] // 8) * 8), float("nan"))
    padded[..., : x.shape[-1]] = x
    return padded[..., : x.shape[-1]]


@needs_cuda
@pytest.mark.parametrize("tile", WIDE_TILES)
def test_long_sums_of_floats_are_sums_of_shorter_ones(tile: int) -> None:
    if torch.cuda.get_device_capability() not in [(9, 0), (10, 0)]:
        pytest.skip("shared memory has no room for all tiles")
    generator = torch.Generator("cuda").manual_seed(0)
    # Terms one after the other: 3.6e-6 and 1.5e-6; 2048 of them at a time: 8e-7, 512 of 1024: 8e-7.
    for depth in (8192, 1024):
        a = torch.rand(1, 64, depth, device="cuda", generator=generator)
        b = torch.rand(1, depth, 64, device="cuda", generator=generator)
        assert error_of(with_tile(tile).matrix_product_wide(a, b), a, b) <= 6e-7


@needs_cuda
@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("tile", WIDE_TILES)
def test_every_tile_of_wide_types(tile: int, layouts: tuple[str, str]) -> None:
    product = with_tile(tile).matrix_product_wide
    check(product, layouts, torch.float32, torch.device("cuda"), 1e-6)
    if tile != 1282561:  # more sums than registers
        check(product, layouts, torch.float64, torch.device("cuda"), 1e-15)


@needs_cuda
@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("tile", TF32_TILES)
def test_every_tile_of_tf32(tile: int, layouts: tuple[str, str]) -> None:
    product = with_tile(tile).matrix_product_tf32
    check(product, layouts, torch.float32, torch.device("cuda"), 2**-10)  # both operands are rounded


@needs_cuda
def test_tf32_is_as_torch_says() -> None:
    a, b = (matrices(1, 256, 256, "rows", torch.float32, torch.device("cuda")) for _ in range(2))
    expected = a.double() @ b.double()
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = False
        exact = (torch.ops.slang.mm(a, b) - expected).abs().max()
        torch.backends.cuda.matmul.allow_tf32 = True
        rounded = (torch.ops.slang.mm(a, b) - expected).abs().max()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert exact < 1e-4 < rounded < 0.1


TILED = """
import torch_slang.mma;
struct Scaled<T : mma.IElement> : mma.IEpilogue<T.Sum>
{
    TensorView<T> row_scale;
    T.Sum apply(T.Sum value, uint3 at) { return value * row_scale[at.y].widen() + T.Sum(at.z); }
}
// Of two products one sum, then something that depends on the place.
[PyBindCUDA(Auto)] [CudaKernel] [BlockSize(256, 1, 1)]
[LaunchTotal("256 * PARTS * cdiv(M, 128) * cdiv(N, 128)")] [Tune("PARTS", "1, 2, 4, 8")]
void scaled<T : mma.IElement>(
    [Shape("M, K")] [In] TensorView<T> a, [Shape("K, N")] [In] TensorView<T> b, [Shape("M, L")] [In] TensorView<T> c,
    [Shape("L, N")] [In] TensorView<T> d, [Shape("M")] [In] TensorView<T> row_scale, [Out("M, N")] TensorView<T> result)
{
    uint3 at = mma.corner<128, 128>(result, PARTS);
    mma.Accumulator<T, 128, 128, PARTS> sum;
    sum.multiply(a, b, at);
    sum.multiply(c, d, at);
    Scaled<T> epilogue = { row_scale };
    sum.apply(epilogue, result, at);
    sum.store(result, at);
}
"""


@some_cases(2)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("parts", [1, 2, 8])
def test_a_kernel_of_ones_own(parts: int, dtype: torch.dtype, device: torch.device) -> None:
    module = torch_slang.load(
        source=TILED, name=f"own{parts}.slang", namespace=f"own_{parts}", defines={"PARTS": parts}
    )
    for size in [(150, 140, 70, 33), (1, 300, 5, 64), (257, 7, 130, 1)]:
        check_scaled(module, size, dtype, device)


def check_scaled(module: Any, size: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device) -> None:
    m, n, k, depth = size
    a, b, c, d = (
        matrices(1, rows, columns, "rows", dtype, device)[0]
        for rows, columns in [(m, k), (k, n), (m, depth), (depth, n)]
    )
    scale = torch.linspace(-1, 1, m, dtype=dtype, device=device)
    result = module.scaled(a, b, c, d, scale)
    product = a.double() @ b.double() + c.double() @ d.double()
    expected = product * scale.double()[:, None] + torch.arange(n, device=device)
    # The product and the column's number are added in float32. A result near zero keeps the rounding error of that sum.
    torch.testing.assert_close(result, expected.to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-4)


# 0 is as many as two blocks of a multiprocessor have room for, 100 more than anything has.
@some_cases(1)
@pytest.mark.parametrize("stages", [0, 2, 5, 100])
def test_results_do_not_depend_on_stages(stages: int, device: torch.device) -> None:
    source = TILED.replace("corner<128, 128>(result, PARTS)", "corner<64, 128>(result)")
    source = source.replace("<T, 128, 128, PARTS>", f"<T, 64, 128, 1, mma.FullPrecision, {stages}>")
    source = source.replace("256 * PARTS * cdiv(M, 128)", "256 * cdiv(M, 64)")
    source = source.replace('[Tune("PARTS", "1, 2, 4, 8")]', "")
    assert "PARTS" not in source
    module = torch_slang.load(source=source, name="stages.slang", namespace=f"own_stages_{stages}")
    for size in [(64, 128, 640, 104), (1500, 2200, 136, 8)]:  # many steps, and tiles after each other
        check_scaled(module, size, torch.bfloat16, device)


# Products, batches and tiles follow each other, and each half of the threads has its own place in the ring.
@some_cases(1)
@pytest.mark.parametrize("tile", [(64, 128), (64, 256), (128, 128), (128, 256)])
def test_results_do_not_depend_on_turns(tile: tuple[int, int], device: torch.device) -> None:
    rows, columns = tile
    source = TILED.replace("corner<128, 128>(result, PARTS)", f"corner<{rows}, {columns}>(result)")
    source = source.replace("<T, 128, 128, PARTS>", f"<T, {rows}, {columns}, 1, mma.FullPrecision, 0, 2>")
    source = source.replace("256 * PARTS * cdiv(M, 128) * cdiv(N, 128)", f"256 * cdiv(M, {rows}) * cdiv(N, {columns})")
    source = source.replace('[Tune("PARTS", "1, 2, 4, 8")]', "")
    assert "PARTS" not in source
    name = f"turns_{rows}_{columns}"
    module = torch_slang.load(source=source, name=f"{name}.slang", namespace=f"own_{name}")
    for size in [(64, 128, 640, 104), (1500, 2200, 136, 8), (70, 2208, 1000, 64), (1, 1, 1, 1), (150, 72, 33, 5)]:
        check_scaled(module, size, torch.bfloat16, device)
    if device.type == "cuda":
        check_scaled(module, (2500, 4100, 200, 72), torch.float16, device)


@pytest.mark.parametrize("turns", [0, 3])
def test_other_turns_are_refused(turns: int, device: torch.device) -> None:
    source = TILED.replace("128, 128, PARTS>", f"128, 128, PARTS, mma.FullPrecision, 0, {turns}>")
    module = torch_slang.load(source=source, name="turn.slang", namespace=f"own_turn_{turns}", defines={"PARTS": 1})
    a = torch.zeros(8, 8, device=device)
    with pytest.raises(torch_slang.CompileError, match="TURNS are 1, or 2 where it has one part"):
        module.scaled(a, a, a, a, a[0])


def test_parts_take_no_turns(device: torch.device) -> None:
    source = TILED.replace("128, 128, PARTS>", "128, 128, PARTS, mma.FullPrecision, 0, 2>")
    module = torch_slang.load(source=source, name="turn.slang", namespace="own_turn_parts", defines={"PARTS": 2})
    a = torch.zeros(8, 8, device=device)
    with pytest.raises(torch_slang.CompileError, match="TURNS are 1, or 2 where it has one part"):
        module.scaled(a, a, a, a, a[0])


@pytest.mark.parametrize("stages", [1, -1, -2])
def test_one_stage_is_refused(stages: int, device: torch.device) -> None:
    source = TILED.replace("128, 128, PARTS>", f"128, 128, 1, mma.FullPrecision, {stages}>")
    module = torch_slang.load(source=source, name="stage.slang", namespace="own_stage", defines={"PARTS": 1})
    a = torch.zeros(8, 8, device=device)
    with pytest.raises(torch_slang.CompileError, match="STAGES are 2 or more, or 0"):
        module.scaled(a, a, a, a, a[0])


def test_another_block_is_refused(device: torch.device) -> None:
    source = TILED.replace("[BlockSize(256, 1, 1)]", "[BlockSize(128, 1, 1)]")
    module = torch_slang.load(source=source, name="block.slang", namespace="own_block", defines={"PARTS": 1})
    a = torch.zeros(8, 8, device=device)
    with pytest.raises(torch_slang.CompileError, match=r"needs \[BlockSize\(256, 1, 1\)\]"):
        module.scaled(a, a, a, a, a[0])


@needs_cuda
def test_a_grid_that_lacks_blocks_of_a_tile_is_refused() -> None:
    source = TILED.replace("256 * PARTS *", "256 *")
    module = torch_slang.load(source=source, name="few.slang", namespace="own_few", defines={"PARTS": 2})
    a = torch.zeros(8, 8, device="cuda")
    with pytest.raises(torch_slang.LaunchError, match=r"expected the grid's x to be a multiple of 2, .* but got 1$"):
        module.scaled(a, a, a, a, a[0])


@needs_cuda
def test_products_of_two_types_are_refused() -> None:
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("without tensor cores for it, half is multiplied as float is")
    source = """
    import torch_slang.mma;
    [CudaKernel] [BlockSize(256, 1, 1)] [LaunchTotal("256 * cdiv(N, 128) * cdiv(N, 128)")]
    void squares([Shape("N, N")] [In] TensorView<float> a, [Shape("N, N")] [In] TensorView<half> b,
                 [Out("N, N")] TensorView<float> c, [Out("N, N")] TensorView<half> d)
    {
        uint3 at = mma.corner<128, 128>(c);
        mma.Accumulator<float, 128, 128> first;
        mma.Accumulator<half, 128, 128> second;
        first.multiply(a, a, at);
        second.multiply(b, b, at);
        first.store(c, at);
        second.store(d, at);
    }"""
    module = torch_slang.load(source=source, name="two_types.slang", namespace="two_types")
    a = torch.ones(8, 8, device="cuda")
    with pytest.raises(torch_slang.CompileError, match="all products of a kernel must be of one type and precision"):
        module.squares(a, a.half())


OF_TWO_STAGES = """
import torch_slang.mma;
[CudaKernel] [BlockSize(256, 1, 1)] [LaunchTotal("256 * cdiv(N, 64) * cdiv(N, 128)")]
void squared([Shape("N, N")] [In] TensorView<half> a, [Out("N, N")] TensorView<half> c)
{
    uint3 at = mma.corner<64, 128>(c);
    mma.Accumulator<half, 64, 128> sum;
    mma.Accumulator<half, 64, 128, 1, mma.FullPrecision, 8> other;
    sum.multiply(a, a, at);
    other.value = sum.value;
    other.store(c, at);
}"""


# Where a store goes through depends on the stages, and others may be fetched there meanwhile.
@needs_cuda
def test_products_of_two_stages_are_refused() -> None:
    module = torch_slang.load(source=OF_TWO_STAGES, name="two_stages.slang", namespace="two_stages")
    a = torch.ones(8, 8, device="cuda", dtype=torch.float16)
    if is_for_hopper():
        with pytest.raises(
            torch_slang.CompileError, match="and have the same stages and turns, but those of this one differ"
        ):
            module.squared(a)
    else:
        assert module.squared(a).eq(8).all()


@pytest.mark.parametrize("shape", ['[Shape("M")]', '[Shape("A, B, M, K")]', '[Shape("...")]', ""])
def test_operands_are_matrices(shape: str, device: torch.device) -> None:
    source = """
    import torch_slang.mma;
    [CudaKernel] [BlockSize(256, 1, 1)] [LaunchTotal("256")]
    void product(SHAPE [In] TensorView<float> a, [Shape("N, N")] [In] TensorView<float> b,
                 [Out("N, N")] TensorView<float> c)
    {
        mma.Accumulator<float, 128, 128> sum;
        sum.multiply(a, b, uint3(0, 0, 0));
        sum.store(c, uint3(0, 0, 0));
    }""".replace("SHAPE", shape)
    module = torch_slang.load(source=source, name=f"shape{len(shape)}.slang", namespace=f"operand_{len(shape)}")
    a = torch.ones({'[Shape("M")]': (4,), '[Shape("A, B, M, K")]': (1, 1, 4, 4)}.get(shape, (4, 4)), device=device)
    with pytest.raises(torch_slang.CompileError, match=r"expected a, which is multiplied.*two or three dimensions"):
        module.product(a, torch.ones(4, 4, device=device))


def corner(rows: int, columns: int, number: int) -> tuple[int, int, int]:
    """That of the tile of one element: batch after batch, by bands of twelve rows, these by columns."""
    batch, rest = divmod(number, rows * columns)
    first = rest // (12 * columns) * 12
    right, down = divmod(rest - first * columns, min(rows - first, 12))
    return batch, first + down, right


def test_corners_of_tiles(device: torch.device) -> None:
    source = """
    import torch_slang.mma;
    [CudaKernel] [BlockSize(256, 1, 1)] [LaunchTotal("256 * cdiv(N, 256)")]
    void corners([Shape("N")] [In] TensorView<int> numbers, [Out("N, 3")] TensorView<int> corners,
                 int rows, int columns)
    {
        uint i = cudaGlobalIdx().x;
        if (i >= numbers.size(0)) return;
        uint3 at = mma.corner<1, 1>(rows, columns, numbers[i]);
        corners[i, 0] = int(at.x);
        corners[i, 1] = int(at.y);
        corners[i, 2] = int(at.z);
    }"""
    module = torch_slang.load(source=source, name="corners.slang", namespace="corners")
    random_numbers = random.Random(0)
    for rows, columns in ((1, 1), (12, 1), (25, 7), (64, 32), (1, 3000), (4099, 511), (1 << 15, 1 << 15)):
        several = [0, 1, 11, 12, 143, 144, rows * columns - 1, rows * columns, (1 << 31) - 1]
        several += [(1 << 20) + by for by in range(-300, 300)]  # where another way of dividing begins
        several += [random_numbers.randrange(1 << bits) for bits in (8, 16, 20, 21, 31) for _ in range(200)]
        several += [max(0, many * rows * columns + by) % (1 << 31) for many in range(1, 300) for by in (-1, 0, 1)]
        numbers = torch.tensor(several, dtype=torch.int32, device=device)
        expected = [corner(rows, columns, number) for number in several]
        assert module.corners(numbers, rows, columns).tolist() == [list(one) for one in expected]


class TestExample:
    def example(self) -> dict[str, Any]:
        return runpy.run_path(str(EXAMPLE))

    @dear_test
    @pytest.mark.filterwarnings("error")
    def test_it_runs(self) -> None:
        self.example()["main"]()

    @dear_test
    @some_cases(2)
    @pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-9), (torch.float32, 1e-3), (torch.bfloat16, 5e-2)])
    def test_gradients(self, dtype: torch.dtype, near: float, device: torch.device) -> None:
        distances = self.example()["distances"]
        a, b = (matrices(1, rows, 40, "rows", dtype, device)[0] for rows in (150, 130))
        grad = torch.randn(150, 1, dtype=dtype, device=device).expand(150, 130)
        inputs = [x.clone().requires_grad_() for x in (a, b)]
        references = [x.double().requires_grad_() for x in (a, b)]
        result, reference = distances(*inputs), torch.cdist(*references)
        actual = torch.autograd.grad(result, inputs, grad)
        expected = torch.autograd.grad(reference, references, grad.double())
        for one, other in zip((result, *actual), (reference, *expected), strict=True):
            torch.testing.assert_close(one.double(), other, rtol=near / 5, atol=near)
        frozen = distances(inputs[0], b)
        assert torch.autograd.grad(frozen, inputs[0], grad)[0].equal(actual[0])

    def test_distances_of_zero_have_no_gradient(self, device: torch.device) -> None:
        a = torch.ones(3, 4, dtype=torch.float64, device=device, requires_grad=True)
        self.example()["distances"](a, a.detach()).sum().backward()
        assert a.grad is not None
        assert a.grad.eq(0).all()


def test_a_kernel_with_a_derivative_keeps_it() -> None:
    module = torch_slang.load(
        source="""[Differentiable] [CudaKernel]
        void f([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
        { uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = x[i]; }""",
        name="keeps.slang",
        namespace="keeps",
    )
    with pytest.raises(RuntimeError, match=r"keeps::f has a derivative of its own: it is \[Differentiable\]"):
        module.f.register_autograd(lambda ctx, grad: grad)


def test_a_backward_can_be_replaced() -> None:
    source = """[CudaKernel] void plain([Shape("N")] [In] TensorView<float> x, [Out("N")] TensorView<float> y)
        { uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = x[i]; }"""
    module = torch_slang.load(source=source, name="plain.slang", namespace="replaced")
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad, but the kernel has no derivative"):
        module.plain(x)
    for factor in (2.0, 3.0):
        module.plain.register_autograd(lambda ctx, grad, factor=factor: grad * factor)
        assert torch.autograd.grad(module.plain(x).sum(), x)[0].tolist() == [factor] * 3


PTXAS = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")


class TestMachineCode:
    """What can be seen without a GPU: registers, memory that spills, wgmmas that ptxas would run one by one."""

    def verdict(self, tile: int, kernel: str, types: list[str], architecture: str, folder: Path) -> tuple[int, str]:
        if not nvrtc_is_here() or PTXAS is None:
            pytest.skip("NVRTC or ptxas is not installed")
        virtual = architecture.replace("sm", "compute")
        ptx = with_tile(tile)._handle.cubin(kernel, "forward", types, True, virtual).rstrip(b"\0")
        (folder / "kernel.ptx").write_bytes(ptx)
        run = subprocess.run(
            [PTXAS, "-v", f"-arch={architecture}", "kernel.ptx", "-o", "kernel.cubin"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if "Unsupported .version" in run.stderr:
            pytest.skip("ptxas is older than NVRTC")
        assert run.returncode == 0, run.stderr
        return ptx.count(b"wgmma.mma_async"), run.stderr

    @some_cases(1)
    @pytest.mark.parametrize("tile", [*HALF_TILES, TILE_IN_TURNS])
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_hopper(self, tile: int, dtype: str, tmp_path: Path) -> None:
        products, said = self.verdict(tile, "matrix_product", [dtype], "sm_90a", tmp_path)
        assert products >= 16  # four steps in each of four layouts
        if tile == TILE_IN_TURNS:  # in turns a few numbers are spilled, once a tile
            assert int(re.findall(r"(\d+) bytes spill stores", said)[0]) <= 64
        else:
            assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in said
        assert "serialized" not in said

    @some_cases(2)
    @pytest.mark.parametrize(
        ("tile", "stages"), [(641281, 4), (80641281, 8), (50641281, 5), (1282561, 4), (101282561, 6)]
    )
    def test_stages(self, tile: int, stages: int) -> None:
        if not nvrtc_is_here():
            pytest.skip("NVRTC is not installed")
        ptx = with_tile(tile)._handle.cubin("matrix_product", "forward", ["bfloat16"], True, "compute_90a")
        rows, columns = sides(tile)
        stored = 2 * 2**13 * (1 if rows == 64 else 2)  # 64 x 64 of each warpgroup, of larger tiles two
        turns = tile // 100000000 + 1
        shared = stages * (rows + columns // turns) * 128 + stored + 144  # and barriers
        assert re.findall(rb"mark:shared (\d+)", ptx) == [str(shared).encode()] * 2

    def test_two_stages(self) -> None:
        if not nvrtc_is_here():
            pytest.skip("NVRTC is not installed")
        module = torch_slang.load(source=OF_TWO_STAGES, name="two_stages.slang", namespace="two_stages_seen")
        ptx = module._handle.cubin("squared", "forward", [], True, "compute_90a")
        assert len(set(re.findall(rb"mark:kind (\d+)", ptx))) == 2  # which test_products_of_two_stages_are_refused says

    @some_cases(3)
    @pytest.mark.parametrize(
        ("kernel", "types", "architecture", "tile"),
        [
            ("matrix_product", ["bfloat16"], "sm_80", 1282561),
            ("matrix_product", ["bfloat16"], "sm_80", 1281921),
            ("matrix_product_wide", ["float32"], "sm_90a", 641284),
            ("matrix_product_wide", ["float32"], "sm_90a", 1282561),
            ("matrix_product_wide", ["float64"], "sm_90a", 1281281),
            ("matrix_product_tf32", [], "sm_90a", 1282561),
            ("matrix_product", ["float16"], "sm_75", 1281281),
        ],
    )
    def test_others(self, kernel: str, types: list[str], architecture: str, tile: int, tmp_path: Path) -> None:
        products, said = self.verdict(tile, kernel, types, architecture, tmp_path)
        assert products == 0
        assert "0 bytes spill stores, 0 bytes spill loads" in said
