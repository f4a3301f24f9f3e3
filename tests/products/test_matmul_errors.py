"""What torch.ops.slang.mm, matmul and dot say of operands that they do not take."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from devices import needs_cuda

import torch_slang  # noqa: F401

Tensor = torch.Tensor
mm, matmul, dot = torch.ops.slang.mm, torch.ops.slang.matmul, torch.ops.slang.dot


def ones(*shape: int, **options: Any) -> Tensor:
    return torch.ones(shape, **options)


A, B = ones(3, 8), ones(8, 5)
MATMUL_ERRORS: dict[str, tuple[Any, Any, str]] = {
    "size": (A, ones(7, 3), r"expected b to have shape \[8, N\], but got \[7, 3\]: dimension 0 must be 8"),
    "size of a vector": (A, ones(7), r"expected b to have shape \[8\], but got \[7\]: dimension 0 must be 8"),
    "size in a batch": (
        A,
        ones(2, 7, 3),
        r"expected b to have shape \[..., 8, N\], but got \[2, 7, 3\]: dimension 1 must be 8",
    ),
    "batches": (
        ones(2, 3, 8),
        ones(6, 3, 8, 5),
        r"expected the leading dimensions of b to broadcast with those of a, but got \[6, 3, 8, 5\] and \[2, 3, 8\]: "
        r"dimension 1 of b must be 2 or 1",
    ),
    "number": (ones(), B, r"expected a to have at least 1 dimension, but got a 0-dimensional tensor"),
    "second number": (A, ones(), r"expected b to have at least 1 dimension, but got a 0-dimensional tensor"),
    "integers": (A.int(), B.int(), r"expected a to have dtype float16, bfloat16, float32 or float64, but got int32"),
    "complex": (A + 1j, B + 1j, r"expected a to have dtype float16, bfloat16, float32 or float64, but got ComplexFl.*"),
    "dtypes": (A, B.double(), r"expected b to have dtype float32 like a, but got float64"),
    "devices": (A, B.to("meta"), r"expected all tensors to be on the same device, but a is on cpu and b is on meta"),
    "none": (None, B, r"expected a to be a tensor, but got None"),
    "second none": (A, None, r"expected b to be a tensor, but got None"),
    "sparse": (
        A.to_sparse(),
        B,
        r"expected a to be a dense tensor on the CPU or a CUDA device, but got the layout Sp.*",
    ),
    "rows": (
        ones(1, 1).expand(2**32, 1),
        ones(1, 1),
        r"a is too large: the limit is 2147483647, but dimension 0 has 4294967296 elements",
    ),
    "columns": (
        ones(1, 1),
        ones(1, 1).expand(5, 1, 2**31),
        r"b is too large: the limit is 2147483647, but dimension 2 has 2147483648 elements",
    ),
    "summands": (
        torch.empty(1, 2**31, device="meta"),
        torch.empty(2**31, 1, device="meta"),
        r"a is too large: the limit is 2147483647, but dimension 1 has 2147483648 elements",
    ),
}
MM_ERRORS: dict[str, tuple[Any, Any, str]] = {
    "rank": (A[0], B, r"expected a to have shape \[M, K\] or \[B, M, K\], but got \[8\]"),
    "matrix and batch": (A, B[None], r"expected b to have shape \[K, N\] \(2 dimensions\), but got \[1, 8, 5\]"),
    "depth": (A, A, r"expected b to have shape \[K, N\], but got \[3, 8\]: dimension 0 must be K = 8 \(from a\)"),
    "second rank": (A[None], B, r"expected b to have shape \[B, K, N\] \(3 dimensions\), but got \[8, 5\]"),
    "size": (
        A[None],
        ones(1, 7, 5),
        r"expected b to have shape \[B, K, N\], but got \[1, 7, 5\]: dimension 1 must be K = 8 \(from a\)",
    ),
    "batch": (
        A.expand(4, 3, 8),
        B[None],
        r"expected b to have shape \[B, K, N\], but got \[1, 8, 5\]: dimension 0 must be B = 4 \(from a\)",
    ),
    "integers": (A[None].long(), B[None], r"expected a to have dtype .* but got int64"),
    "dtypes": (A[None], B[None].half(), r"expected b to have dtype float32 like a, but got float16"),
    "devices": (
        A[None],
        B[None].to("meta"),
        r"expected all tensors to be on the same device, but a is on cpu and b .*",
    ),
    "none": (None, B, r"expected a to be a tensor, but got None"),
    "sparse": (A[None].to_sparse(), B[None], r"expected a to be a dense tensor .*"),
    "products": (
        ones(1, 1, 1).expand(2**31, 1, 1),
        ones(1, 1, 1).expand(2**31, 1, 1),
        r"a is too large: the limit is 2147483647, but dimension 0 has 2147483648 elements",
    ),
}
DOT_ERRORS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "transposed": (
        (A, B, False, True),
        {},
        r"expected the transpose of b to have shape \[8, N\], but got \[5, 8\]: dimension 0 must be 8",
    ),
    "vector": (
        (A[0], B, True),
        {},
        r"expected a, which is to be transposed, to have at least 2 dimensions, but got shape \[8\]",
    ),
    "no c": ((A, B), {"beta": 2}, r"expected c to be a tensor, since beta is 2, but got None"),
    "shape of c": (
        (A, B),
        {"beta": 1, "c": ones(2, 5)},
        r"expected c to broadcast to the result's shape \[3, 5\], but got \[2, 5\]: dimension 0 must be 3 or 1",
    ),
    "c larger than the result": (
        (A, B),
        {"beta": 1, "c": ones(1, 3, 5)},
        r"expected c to broadcast to the result's shape \[3, 5\], but got \[1, 3, 5\]",
    ),
    "shape of an unused c": ((A, B), {"c": ones(4)}, r"expected c to broadcast .*"),
    "dtype of c": ((A, B), {"c": ones(5).double()}, r"expected c to have dtype float32 like a, but got float64"),
    "device of c": (
        (A, B),
        {"c": ones(5, device="meta")},
        r"expected all tensors to be on the same device, but a is on cpu and c is on meta",
    ),
    "complex alpha": ((A, B), {"alpha": 1j}, r"expected alpha to be a real number, but got \(0,1\)"),
    "dtypes": ((A, B.half(), False, True), {}, r"expected b to have dtype float32 like a, but got float16"),
}


class TestErrors:
    @pytest.mark.parametrize("case", MATMUL_ERRORS)
    @pytest.mark.parametrize("name", ["matmul", "dot"])
    def test_matmul_names_what_is_wrong(self, name: str, case: str) -> None:
        a, b, message = MATMUL_ERRORS[case]
        with pytest.raises(RuntimeError, match=rf"^slang::{name}: {message}$"):
            getattr(torch.ops.slang, name)(a, b)

    @pytest.mark.parametrize("case", MM_ERRORS)
    def test_mm_names_what_is_wrong(self, case: str) -> None:
        a, b, message = MM_ERRORS[case]
        with pytest.raises(RuntimeError, match=rf"^slang::mm: {message}$"):
            mm(a, b)

    @pytest.mark.parametrize("case", DOT_ERRORS)
    def test_dot_names_what_is_wrong(self, case: str) -> None:
        args, kwargs, message = DOT_ERRORS[case]
        with pytest.raises(RuntimeError, match=rf"^slang::dot: {message}$"):
            dot(*args, **kwargs)

    @pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
    @pytest.mark.parametrize("name", ["mm", "matmul", "dot"])
    def test_nested_tensors_are_refused(self, name: str) -> None:
        nested = torch.nested.nested_tensor([A, A])
        with pytest.raises(
            RuntimeError, match=rf"^slang::{name}: expected a to be a dense .* but got a nested tensor$"
        ):
            getattr(torch.ops.slang, name)(nested, B)

    @needs_cuda
    def test_two_devices_are_named(self) -> None:
        for a, b in [(A.cuda(), B), (A, B.cuda())]:
            with pytest.raises(RuntimeError, match=r"^slang::matmul: expected all tensors to be on the same device"):
                matmul(a, b)
            with pytest.raises(RuntimeError, match=r"^slang::mm: expected all tensors to be on the same device"):
                mm(a[None], b[None])
