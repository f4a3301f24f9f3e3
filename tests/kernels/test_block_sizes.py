"""[BlockSize(...)] of one to three numbers."""

from __future__ import annotations

import itertools

import pytest
import torch

import torch_slang

KERNEL = """
import torch_slang;
static const int SIDE = 8;
uint BlockSize(uint n) {{ return n; }}
/* [BlockSize(3)] */
[PyBindCUDA(Auto)] [CudaKernel{first}] {second}
void extents([Shape("N")] TensorView<int> x, [Out("N, 3")] TensorView<int> y)
{{
    uint i = cudaGlobalIdx().x;
    uint list[2] = {{1, 1}};
    if (i >= x.size(0)) return;
    y[i, 0] = int(cudaBlockDim().x * list[BlockSize(1)]);
    y[i, 1] = int(cudaBlockDim().y);
    y[i, 2] = int(cudaBlockDim().z);
}}
"""
_numbers = itertools.count()


def extents(first: str, second: str) -> list[list[int]]:
    name = f"block_sizes_{next(_numbers)}"
    module = torch_slang.load(source=KERNEL.format(first=first, second=second), name=name, namespace=name)
    rows: list[list[int]] = module.extents(torch.zeros(3, dtype=torch.int32)).tolist()
    return rows


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("128", [128, 1, 1]),
        ("16, 16", [16, 16, 1]),
        ("8, 4, 2", [8, 4, 2]),
        ("SIDE * (SIDE / 2)", [32, 1, 1]),
    ],
)
def test_missing_numbers_are_one(written: str, expected: list[int]) -> None:
    attribute = f"BlockSize({written})"
    assert extents("", f"[{attribute}]") == [expected] * 3
    assert extents(f", {attribute}", "") == [expected] * 3


@pytest.mark.parametrize("written", ["", "1, 2, 3, 4", '"128"'])
def test_others_do_not_compile(written: str) -> None:
    with pytest.raises(torch_slang.CompileError, match="BlockSize"):
        extents("", f"[BlockSize({written})]")
