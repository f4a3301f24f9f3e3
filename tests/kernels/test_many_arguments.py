"""Kernels and functions of more arguments than PyTorch's dispatcher takes: Note [packed arguments]."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from long_tests import some_tests
from torch import Tensor
from torch.autograd import forward_ad

import torch_slang
import torch_slang.slangtorch as slangtorch

pytestmark = some_tests(5)

COUNT = 61
FIELDS = [f"a{i}" for i in range(COUNT)]


def lines(text: str) -> str:
    return "\n".join(text.format(i=i, w=0.25 * (i % 7) - 0.5) for i in range(COUNT))


SOURCE = f"""
struct Many : IDifferentiable
{{
{lines("    double a{i};")}
}}

[Differentiable] double formula(Many p, double x)
{{
    double sum = 0.0;
{lines("    sum += p.a{i} * ({w} + x);")}
    return sin(sum) + p.a0 * p.a60 * x;
}}

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void wide([Shape("n")] DiffTensorView<double> x, Many p, [Out("n")] DiffTensorView<double> y)
{{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = formula(p, x[i]);
}}

struct Mixed
{{
    bool is_on;
    int count;
    float3 direction;
{lines("    float a{i};")}
}}

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void constants([Shape("n")] DiffTensorView<double> x, no_diff Mixed p, [Out("n")] DiffTensorView<double> y)
{{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = p.is_on ? x[i] * x[i] * double(p.a0 * p.direction.z + p.a60 * p.count) : 0.0;
}}
"""


@pytest.fixture(scope="module")
def many() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="many", namespace="many")


def inputs(device: torch.device, requires_grad: bool = True) -> tuple[Tensor, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(5, dtype=torch.float64, generator=generator).to(device).requires_grad_(requires_grad)
    p = torch.randn(COUNT, dtype=torch.float64, generator=generator).to(device) / 8
    return x, {name: value.clone().requires_grad_(requires_grad) for name, value in zip(FIELDS, p, strict=True)}


def formula(x: Tensor, p: dict[str, Tensor]) -> Tensor:
    total = sum(p[name].to(x.device) * ((0.25 * (i % 7) - 0.5) + x) for i, name in enumerate(FIELDS))
    assert isinstance(total, Tensor)
    return torch.sin(total) + p["a0"].to(x.device) * p["a60"].to(x.device) * x


def derivatives(function: Callable[..., Tensor], x: Tensor, p: dict[str, Tensor]) -> list[Tensor]:
    """The result, all gradients, and those of their product with a constant."""
    y = function(x, p)
    leaves = [x, *p.values()]
    first = torch.autograd.grad(y.sum(), leaves, create_graph=True)
    total = sum(((i % 5 - 1.5) * g.cpu()).sum() for i, g in enumerate(first))
    assert isinstance(total, Tensor)
    return [y, *first, *torch.autograd.grad(total, leaves)]


def test_first_and_second_derivatives_of_a_kernel(many: Any, device: torch.device) -> None:
    x, p = inputs(device)
    for actual, expected in zip(derivatives(many.wide, x, p), derivatives(formula, x, p), strict=True):
        torch.testing.assert_close(actual, expected)


def test_first_and_second_derivatives_of_a_function(many: Any, device: torch.device) -> None:
    x, p = inputs(device)
    found = derivatives(lambda x, p: many.formula(p, x), x, p)
    for actual, expected in zip(found, derivatives(formula, x, p), strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("name", ["wide", "formula"])
def test_forward_mode(name: str, many: Any, device: torch.device) -> None:
    x, p = inputs(device, requires_grad=False)

    def tangent(function: Callable[..., Tensor]) -> Tensor:
        with forward_ad.dual_level():
            duals = {key: forward_ad.make_dual(value, torch.cos(value)) for key, value in p.items()}
            found = forward_ad.unpack_dual(function(forward_ad.make_dual(x, x.exp()), duals)).tangent
            assert found is not None
            return found

    call = many.wide if name == "wide" else lambda x, p: many.formula(p, x)
    torch.testing.assert_close(tangent(call), tangent(formula))


@pytest.mark.parametrize("name", ["wide", "formula"])
def test_vmap(name: str, many: Any, device: torch.device) -> None:
    x, p = inputs(device, requires_grad=False)
    samples = torch.stack([x, x.flip(0), 2 * x])
    call = many.wide if name == "wide" else lambda x, p: many.formula(p, x)
    found = torch.func.vmap(torch.func.grad(lambda x: call(x, p).sum()))(samples)
    torch.testing.assert_close(found, torch.func.vmap(torch.func.grad(lambda x: formula(x, p).sum()))(samples))


def test_launches(many: Any, device: torch.device) -> None:
    x, p = inputs(device, requires_grad=False)
    y, extent = torch.zeros_like(x), {"block_size": 8, "grid_size": 1}
    many.wide_launch(x, p, y, **extent)
    torch.testing.assert_close(y, formula(x, p))
    assert y._version == 1
    given, gradient = torch.ones_like(y), torch.zeros_like(x)
    of_fields = {name: (value, torch.zeros_like(value)) for name, value in p.items()}
    many.wide_bwd((x, gradient), of_fields, (y, given), **extent)
    assert not given.any()
    leaf, fields = inputs(device)
    expected = torch.autograd.grad(formula(leaf, fields).sum(), [leaf, *fields.values()])
    torch.testing.assert_close(gradient, expected[0])
    for (_, actual), wanted in zip(of_fields.values(), expected[1:], strict=True):
        torch.testing.assert_close(actual, wanted)


def test_the_drop_in(tmp_path: Path, device: torch.device) -> None:
    (tmp_path / "many_drop_in.slang").write_text(SOURCE)
    program = slangtorch.loadModule(str(tmp_path / "many_drop_in.slang"))
    x, p = inputs(device, requires_grad=False)
    y, gradient = torch.zeros_like(x), torch.zeros_like(x)
    numbers = {name: value.item() for name, value in p.items()}
    program.wide(x=x, p=program.Many(**numbers), y=y).launchRaw(blockSize=(8, 1, 1), gridSize=(1, 1, 1))
    torch.testing.assert_close(y, formula(x, p))
    program.wide.bwd(x=(x, gradient), p=numbers, y=(y, torch.ones_like(y))).launchRaw((8, 1, 1), (1, 1, 1))
    leaf = x.clone().requires_grad_()
    torch.testing.assert_close(gradient, torch.autograd.grad(formula(leaf, p).sum(), leaf)[0])


MIXED: dict[str, Any] = {"is_on": True, "count": 3, "direction": [1, 2.5, 0.5], **dict.fromkeys(FIELDS, 2)}


def test_numbers_of_all_kinds_are_one_list(many: Any, device: torch.device) -> None:
    schema = str(torch.ops.many.constants.default._schema)
    assert schema == "many::constants(Tensor?[] tensors, Scalar[] numbers) -> Tensor"
    x = torch.tensor([1.5, -2.0], dtype=torch.float64, device=device, requires_grad=True)
    numbers = [True, 3, 1, 2.5, 0.5, *[2] * COUNT]
    for call in (lambda: many.constants(x, MIXED), lambda: torch.ops.many.constants([x], numbers)):
        y = call()
        torch.testing.assert_close(y, 7 * x * x)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 14 * x)
    y = torch.zeros_like(x)
    many.constants_launch(x.detach(), MIXED, y, block_size=8, grid_size=1)
    torch.testing.assert_close(y, 7 * x.detach() ** 2)


def test_in_torch_compile(many: Any, device: torch.device) -> None:
    def step(x: Tensor) -> Tensor:
        return many.constants(2 * x, MIXED) + 1

    x = torch.tensor([1.5, -2.0], dtype=torch.float64, device=device, requires_grad=True)
    y = torch.compile(step, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(y, 28 * x * x + 1)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 56 * x)


class TestMistakes:
    def test_a_missing_field(self, many: Any) -> None:
        x = torch.ones(2, dtype=torch.float64)
        with pytest.raises(TypeError, match=r"many::constants\(.*p \(Mixed\) lacks field a7"):
            many.constants(x, {name: value for name, value in MIXED.items() if name != "a7"})
        with pytest.raises(TypeError, match=r"many::constants\(.*: missing p_is_on"):
            many.constants(x)

    def test_a_list_of_another_length(self, many: Any) -> None:
        x = torch.ones(2, dtype=torch.float64)
        message = r"many::constants: expected numbers to have 66 elements, those of p_is_on to p_a60, but got 2"
        with pytest.raises(RuntimeError, match=message):
            torch.ops.many.constants([x], [True, 3])

    def test_a_number_of_another_kind(self, many: Any) -> None:
        x = torch.ones(2, dtype=torch.float64)
        with pytest.raises(
            RuntimeError, match=r"many::constants: expected p_count to be an integer or a bool, but got 1\.5"
        ):
            torch.ops.many.constants([x], [True, 1.5, *[2.0] * 64])
        with pytest.raises(RuntimeError, match="many::constants: expected x to be a tensor, but got None"):
            torch.ops.many.constants([None], [True, 3, *[torch.ones(()).item()] * 64])
