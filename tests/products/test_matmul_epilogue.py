"""torch_slang.matmul_with_epilogue beside torch's own operators in float64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import products
import pytest
import torch
from long_tests import dear_test, some_cases, some_tests
from matmul_epilogues import assert_agrees, assert_agrees_twice, assert_near, randn
from torch.autograd import gradcheck, gradgradcheck

import torch_slang

pytestmark = some_tests(4)

Tensor = torch.Tensor
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]

# Every kind of argument: with a gradient, a constant, an integer, a default.
SHADE = """
[Differentiable]
T shade<T : __BuiltinFloatingPointType>(T sum, T bias, no_diff T scale, T residual, int times = 2)
{
    return tanh(sum + bias) * scale * T(times) + residual * sum;
}
"""
SQUARE = "[Differentiable] float square_plus(float sum, float bias) { return sum * sum + bias; }"


@pytest.fixture(scope="module")
def shade() -> torch_slang.MatmulEpilogue:
    return torch_slang.matmul_with_epilogue(SHADE)


@pytest.fixture(scope="module")
def square() -> torch_slang.MatmulEpilogue:
    return torch_slang.matmul_with_epilogue(SQUARE)


def shade_in_torch(a: Tensor, b: Tensor, bias: Tensor, scale: Any, residual: Tensor, times: Any = 2) -> Tensor:
    total = torch.matmul(a, b)
    return torch.tanh(total + bias) * scale * times + residual * total


def operands(
    dtype: torch.dtype, device: torch.device, m: int = 9, k: int = 7, n: int = 5, leading: tuple[int, ...] = ()
) -> list[Any]:
    """Of shade, with a gradient wherever there may be one."""
    return [
        randn(*leading, m, k, dtype=dtype, device=device).requires_grad_(),
        randn(k, n, dtype=dtype, device=device).requires_grad_(),
        randn(n, dtype=dtype, device=device).requires_grad_(),
        0.1,
        randn(*leading, m, n, dtype=dtype, device=device).requires_grad_(),
    ]


class TestValues:
    @some_cases(1)
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_it_is_the_function_of_the_product(
        self, shade: torch_slang.MatmulEpilogue, dtype: torch.dtype, device: torch.device
    ) -> None:
        assert_agrees(shade, shade_in_torch, operands(dtype, device))

    def test_a_function_of_float_takes_halves(self, square: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        a, b, bias = (randn(*s, dtype=torch.bfloat16, device=device).requires_grad_() for s in [(4, 6), (6, 3), (3,)])
        assert_agrees(square, lambda x, y, z: torch.matmul(x, y) ** 2 + z, [a, b, bias])

    @pytest.mark.parametrize("sizes", [(1, 1, 1), (0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 200, 1), (131, 3, 259)])
    def test_sizes(self, shade: torch_slang.MatmulEpilogue, sizes: tuple[int, int, int], device: torch.device) -> None:
        assert_agrees(shade, shade_in_torch, operands(torch.float64, device, *sizes))

    @some_cases(5)
    @pytest.mark.parametrize(
        ("a", "b", "bias", "residual"),
        [
            ((4, 6), (6, 3), (3,), (4, 3)),
            ((4, 6), (6, 3), (4, 1), ()),
            ((4, 6), (6, 3), (1, 3), (1, 1)),
            ((2, 4, 6), (6, 3), (3,), (2, 4, 3)),  # rows of all the batch after each other
            ((2, 4, 6), (6, 3), (4, 1), (4, 3)),
            ((2, 4, 6), (6, 3), (2, 1, 1), (2, 1, 3)),
            ((2, 4, 6), (2, 6, 3), (3,), (2, 4, 1)),
            ((4, 6), (2, 6, 3), (2, 1, 3), (4, 3)),
            ((5, 1, 4, 6), (2, 6, 3), (5, 1, 1, 3), (2, 4, 3)),
            ((6,), (6, 3), (3,), (1,)),
            ((4, 6), (6,), (4,), ()),
            ((2, 4, 6), (6,), (2, 1), (4,)),
            ((6,), (6,), (), ()),
        ],
    )
    def test_arguments_broadcast(
        self,
        shade: torch_slang.MatmulEpilogue,
        a: tuple[int, ...],
        b: tuple[int, ...],
        bias: tuple[int, ...],
        residual: tuple[int, ...],
        device: torch.device,
    ) -> None:
        x, y, z, w = (randn(*s, device=device).requires_grad_() for s in (a, b, bias, residual))
        assert_agrees(shade, shade_in_torch, [x, y, z, 0.1, w])

    def test_constants_may_be_tensors_of_the_operands_type_or_of_the_functions(
        self, shade: torch_slang.MatmulEpilogue, device: torch.device
    ) -> None:
        for dtype in (torch.float16, torch.float32):
            values = operands(torch.float16, device)
            values[3] = randn(9, 1, dtype=dtype, device=device)
            assert_agrees(shade, shade_in_torch, values)

    def test_integers_may_be_tensors(self, shade: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        times = torch.tensor([1, 2, 3, 4, 5], dtype=torch.int32, device=device)
        assert_agrees(shade, shade_in_torch, [*operands(torch.float64, device), times])
        assert_agrees(shade, shade_in_torch, [*operands(torch.float64, device), 3])

    def test_a_bool_chooses(self, device: torch.device) -> None:
        op = torch_slang.matmul_with_epilogue(
            "[Differentiable] T kept<T : __BuiltinFloatingPointType>(T sum, bool keep, no_diff float fill)\n"
            "{ return keep ? exp(sum) : T(fill); }"
        )
        a, b = randn(4, 3, device=device).requires_grad_(), randn(3, 5, device=device).requires_grad_()
        keep = randn(4, 5, device=device) > 0
        assert_agrees(op, lambda x, y, k, f: torch.where(k, torch.exp(x @ y), f), [a, b, keep, 0.25])
        assert torch.equal(op(a, b, False, 2.0), torch.full((4, 5), 2.0, dtype=torch.float64, device=device))

    def test_names_that_the_kernel_uses_itself(self, device: torch.device) -> None:
        op = torch_slang.matmul_with_epilogue(
            "[Differentiable] double odd(double c, double a, double at, double T, double ROWS)\n"
            "{ return c * a + at * T - ROWS; }"
        )
        values = [randn(*s, device=device).requires_grad_() for s in [(4, 6), (6, 3), (3,), (4, 1), (4, 3), ()]]
        assert_agrees(op, lambda a, b, p, q, r, s: (a @ b) * p + q * r - s, values)

    def test_any_strides(self, shade: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        a, b, bias, scale, residual = operands(torch.float64, device, 6, 6, 6)
        turned = [a.detach().mT, b.detach()[::2].repeat(2, 1).mT, bias.detach().flip(0), scale, residual.detach().mT]
        assert_agrees(shade, shade_in_torch, [t.requires_grad_() if isinstance(t, Tensor) else t for t in turned])

    @some_cases(2)
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("columns", [512, 264, 131])  # of whole tiles, of whole vectors, neither
    def test_arguments_that_lie_in_vectors_or_not(
        self, shade: torch_slang.MatmulEpilogue, dtype: torch.dtype, columns: int, device: torch.device
    ) -> None:
        a, b, row, more = (
            randn(*s, dtype=dtype, device=device) for s in [(136, 8), (8, columns), (136, 1), (136, columns + 4)]
        )
        long = randn(2 * columns + 2, dtype=dtype, device=device)
        for bias, scale, residual in [
            (long[:columns], long[2 : columns + 2], more[:, :columns]),
            (long[:columns], long[:columns], more[:, 3:-1]),
            (long[1 : columns + 1], long[:columns], more[:, 4:]),
            (long[:-2:2], row, more.mT[2:-2].contiguous().mT),
        ]:
            assert_agrees(shade, shade_in_torch, [a, b, bias, scale, residual])


class TestGradients:
    def test_gradcheck(self, shade: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        a, b, bias, scale, residual = operands(torch.float64, device, 3, 4, 2)
        inputs = (a, b, bias, residual)
        assert gradcheck(lambda a, b, c, d: shade(a, b, c, scale, d), inputs, nondet_tol=0.0)

    @pytest.mark.parametrize("only", range(4))
    def test_frozen_inputs(self, shade: torch_slang.MatmulEpilogue, only: int, device: torch.device) -> None:
        values = operands(torch.float64, device)
        for i, place in enumerate((0, 1, 2, 4)):
            values[place].requires_grad_(i == only)
        assert_agrees(shade, shade_in_torch, values)

    def test_nothing_is_recorded_where_nothing_wants_a_gradient(
        self, shade: torch_slang.MatmulEpilogue, device: torch.device
    ) -> None:
        values = [v.detach() if isinstance(v, Tensor) else v for v in operands(torch.float64, device)]
        assert not shade(*values).requires_grad
        values[3] = torch.tensor(0.1, dtype=torch.float64, device=device, requires_grad=True)  # no_diff
        assert not shade(*values).requires_grad
        with torch.no_grad():
            assert not shade(*operands(torch.float64, device)).requires_grad

    @pytest.mark.parametrize(
        "grad",
        [
            lambda y: torch.ones((), dtype=y.dtype, device=y.device).expand_as(y),
            lambda y: randn(*y.mT.shape, dtype=y.dtype, device=y.device).mT,
            lambda y: randn(y.size(0), 1, dtype=y.dtype, device=y.device).expand_as(y),
        ],
    )
    def test_gradients_of_results_may_lie_anyhow(
        self, shade: torch_slang.MatmulEpilogue, grad: Callable[[Tensor], Tensor], device: torch.device
    ) -> None:
        assert_agrees(shade, shade_in_torch, operands(torch.float64, device), grad)

    @dear_test
    def test_second_derivatives_and_forward_mode(self, shade: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        a, b, bias, scale, residual = operands(torch.float64, device, 3, 4, 2)

        def op(a: Tensor, b: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
            return shade(a, b, bias, scale, residual)

        inputs = (a, b, bias, residual)
        kinds = {"check_batched_grad": True, "check_batched_forward_grad": True}
        assert gradcheck(op, inputs, check_forward_ad=True, **kinds)
        assert gradgradcheck(op, inputs, check_fwd_over_rev=True, check_batched_grad=True)

    @some_cases(2)
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_second_derivatives_beside_torch(
        self, shade: torch_slang.MatmulEpilogue, dtype: torch.dtype, device: torch.device
    ) -> None:
        assert_agrees_twice(shade, shade_in_torch, operands(dtype, device, leading=(2,)))
        assert_agrees_twice(shade, shade_in_torch, operands(dtype, device))

    @pytest.mark.parametrize("only", range(4))
    def test_second_derivatives_of_frozen_inputs(
        self, shade: torch_slang.MatmulEpilogue, only: int, device: torch.device
    ) -> None:
        values = operands(torch.float64, device)
        for i, place in enumerate((0, 1, 2, 4)):
            values[place].requires_grad_(i == only)
        assert_agrees_twice(shade, shade_in_torch, values)

    def test_a_third_derivative_is_refused(self, shade: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        a, *others = operands(torch.float64, device)
        (first,) = torch.autograd.grad(shade(a, *others).sum(), a, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), a, create_graph=True)
        with pytest.raises(RuntimeError, match="derivatives of the third order"):
            second.square().sum().backward()

    @pytest.mark.parametrize("place", [0, 1, 2, 4])
    def test_hessians(self, shade: torch_slang.MatmulEpilogue, place: int, device: torch.device) -> None:
        values = [v.detach() if isinstance(v, Tensor) else v for v in operands(torch.float64, device, 3, 4, 2)]

        def hessian(function: Callable[..., Tensor], outer: Callable[..., Any], inner: Callable[..., Any]) -> Tensor:
            def loss(value: Tensor) -> Tensor:
                return function(*values[:place], value, *values[place + 1 :]).square().sum()

            result: Tensor = outer(inner(loss))(values[place])
            return result

        expected = hessian(shade_in_torch, torch.func.jacrev, torch.func.jacrev)
        for outer, inner in [(torch.func.jacfwd, torch.func.jacrev), (torch.func.jacrev, torch.func.jacfwd)]:
            torch.testing.assert_close(hessian(shade, outer, inner), expected)

    def test_forward_mode_checks_shapes(self, shade: torch_slang.MatmulEpilogue) -> None:
        a, *values = (v.detach() if isinstance(v, Tensor) else v for v in operands(torch.float64, torch.device("cpu")))
        values[1] = randn(2, 5)  # broadcasts with the bias, not with the product
        with pytest.raises(RuntimeError, match="expected bias to broadcast"):
            torch.func.jvp(lambda a: shade(a, *values), (a,), (a,))


class TestPyTorch:
    def test_checks_of_testing(self, square: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        def op(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
            return square(a, b, bias)

        a, b, bias = (
            randn(*s, dtype=torch.float32, device=device).requires_grad_() for s in [(1, 4, 6), (1, 6, 3), (1, 1, 3)]
        )
        for name in ("mm_with_epilogue", "matmul_with_epilogue"):
            torch.library.opcheck(getattr(torch.ops.slang, name).default, (square.name, a, b, [bias]))
        torch.library.opcheck(torch.ops.slang.mm_with_epilogue_and_sum.default, (square.name, a, b, [bias]))

    @pytest.mark.usefixtures("fresh_dynamo")
    @pytest.mark.parametrize("dynamic", [False, True])
    def test_compile(self, shade: torch_slang.MatmulEpilogue, dynamic: bool, device: torch.device) -> None:
        compiled = torch.compile(shade, fullgraph=True, dynamic=dynamic, backend="aot_eager")
        for m in (4, 9):
            assert_agrees(compiled, shade_in_torch, operands(torch.float64, device, m))

    @pytest.mark.usefixtures("fresh_dynamo")
    def test_compiled_autograd(self, shade: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        values = operands(torch.float64, device)
        leaves = [v for v in values if isinstance(v, Tensor)]
        expected = torch.autograd.grad(shade(*values).sum(), leaves)
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager", fullgraph=True)):
            shade(*values).sum().backward()
        for leaf, gradient in zip(leaves, expected, strict=True):
            assert torch.allclose(leaf.grad, gradient)

    def test_script(self, shade: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        @torch.jit.script
        def scripted(a: Tensor, b: Tensor, c: Tensor, scale: Tensor, d: Tensor, n: Tensor) -> Tensor:
            return torch.ops.slang.matmul_with_epilogue("shade", a, b, [c, scale, d, n])

        scale = torch.tensor(0.1, dtype=torch.float64, device=device)
        times = torch.tensor(2, dtype=torch.int32, device=device)
        a, b, bias, _, residual = operands(torch.float64, device)
        assert_agrees(scripted, shade_in_torch, [a, b, bias, scale, residual, times])

    def test_export(self, square: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        class Net(torch.nn.Module):
            def forward(self, a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
                return square(a, b, bias)

        args = tuple(randn(*s, dtype=torch.float32, device=device) for s in [(4, 6), (6, 3), (3,)])
        exported = torch.export.export(Net(), args)
        assert torch.equal(exported.module()(*args), square(*args))

    def test_vmap(self, shade: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        a, b, bias, residual = (randn(*s, device=device) for s in [(3, 4, 6), (6, 5), (3, 5), (4, 5)])
        for dims in [(0, None, 0, None), (None, None, 0, None), (0, None, None, None)]:
            values = [
                t if d == 0 else t[0] if t is a or t is bias else t
                for t, d in zip((a, b, bias, residual), dims, strict=True)
            ]
            ours = torch.vmap(lambda a, b, c, d: shade(a, b, c, 0.1, d), dims)(*values)
            theirs = torch.vmap(lambda a, b, c, d: shade_in_torch(a, b, c, 0.1, d), dims)(*values)
            assert_near(ours, theirs, torch.float64)

    def test_gradients_of_a_functional_call(self, shade: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        a, b, bias, scale, residual = (
            v.detach() if isinstance(v, Tensor) else v for v in operands(torch.float64, device)
        )
        ours = torch.func.grad(lambda c: shade(a, b, c, scale, residual).sum())(bias)
        assert_near(
            ours, torch.func.grad(lambda c: shade_in_torch(a, b, c, scale, residual).sum())(bias), torch.float64, 8
        )

    def test_autocast(self, shade: torch_slang.MatmulEpilogue, device: torch.device) -> None:
        values = operands(torch.float32, device)
        with torch.autocast(device.type, torch.bfloat16):
            result = shade(*values)
            exact = shade(*(v.bfloat16() if isinstance(v, Tensor) else v for v in values))
        assert result.dtype == torch.bfloat16
        assert torch.equal(result, exact)
        gradients = torch.autograd.grad(result.float().sum(), [v for v in values if isinstance(v, Tensor)])
        assert all(g.dtype == torch.float32 for g in gradients)

    def test_meta(self, shade: torch_slang.MatmulEpilogue) -> None:
        values = [
            v.detach().to("meta") if isinstance(v, Tensor) else v for v in operands(torch.float16, torch.device("cpu"))
        ]
        result = shade(*values)
        assert result.is_meta
        assert result.shape == (9, 5)
        assert result.dtype == torch.float16


class TestModules:
    def test_by_name_and_with_defaults(self, shade: torch_slang.MatmulEpilogue) -> None:
        a, b, bias, scale, residual = operands(torch.float64, torch.device("cpu"))
        assert torch.equal(shade(a, b, bias, residual=residual, scale=scale), shade(a, b, bias, scale, residual, 2))

    @some_cases(1)
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_defaults_and_numbers_for_what_has_gradients(self, dtype: torch.dtype) -> None:
        op = torch_slang.matmul_with_epilogue(
            "[Differentiable] T moved<T : __BuiltinFloatingPointType>"
            "(T sum, T by = T(0.75), T gain = T(3)) { return gain * (sum + by); }"
        )
        a, b = randn(4, 6, dtype=dtype).requires_grad_(), randn(6, 3, dtype=dtype)
        gain = torch.tensor(3.0, dtype=dtype, requires_grad=True)
        assert torch.equal(op(a, b), op(a, b, torch.tensor(0.75, dtype=dtype), gain))
        y = op(a, b, 0.75, gain)
        assert torch.equal(y, op(a, b))
        y.sum().backward()
        total = products.wide(a) @ products.wide(b)
        assert_near(a.grad, 3 * products.wide(b).sum(1).expand(4, 6), dtype, 6)
        assert_near(gain.grad, (total + 0.75).sum(), dtype, 12)

    def test_the_function_of_a_file_by_its_name(self, tmp_path: Path) -> None:
        (tmp_path / "helper.slang").write_text("public float twice(float x) { return 2 * x; }")
        path = tmp_path / "file.slang"
        path.write_text(
            "import helper;\n"
            "namespace tools {\n"
            "[Differentiable] float of_file(float sum, float b) { return no_diff(twice(b)) + FACTOR * sum; }\n"
            "}\n"
            "[Differentiable] float other(float sum) { return sum; }\n"
        )
        op = torch_slang.matmul_with_epilogue(path, name="tools_of_file", defines={"FACTOR": 3})
        a, b, c = (randn(*s, dtype=torch.float32) for s in [(4, 6), (6, 3), (3,)])
        assert_near(op(a, b, c), 2 * c.double() + 3 * (a.double() @ b.double()), torch.float32, 2)

    def test_an_edited_file_is_reloaded_and_earlier_callables_keep_theirs(self, tmp_path: Path) -> None:
        path = tmp_path / "edited.slang"
        a, b, c = (randn(*s, dtype=torch.float32).requires_grad_() for s in [(4, 6), (6, 3), (3,)])
        path.write_text("[Differentiable] float edited(float sum, float bias) { return sum + bias; }")
        before = torch_slang.matmul_with_epilogue(path)
        recorded = before(a, b, c)
        path.write_text("[Differentiable] float edited(float sum, float bias) { return sum - bias; }")
        after = torch_slang.matmul_with_epilogue(path)
        assert_near(before(a, b, c), (a.double() @ b.double() + c.double()), torch.float32)
        assert_near(after(a, b, c), (a.double() @ b.double() - c.double()), torch.float32)
        for op_result, sign in ((recorded, 1), (before(a, b, c), 1), (after(a, b, c), -1)):
            (gradient,) = torch.autograd.grad(op_result.sum(), c)
            assert torch.equal(gradient, torch.full((3,), 4.0 * sign))

    def test_a_namespace_of_its_own(self) -> None:
        op = torch_slang.matmul_with_epilogue(SQUARE.replace("sum * sum", "sum"), namespace="test_epilogues")
        a, b, c = (randn(*s, dtype=torch.float32) for s in [(4, 6), (6, 3), (3,)])
        assert op.name == "test_epilogues::square_plus"
        assert_near(op(a, b, c), a.double() @ b.double() + c.double(), torch.float32)


class TestErrors:
    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("float f(float sum) { return sum; }", r"to be \[Differentiable\], but it is not"),
            (
                "[Differentiable] float3 f(float3 sum) { return sum; }",
                "numbers as parameters, but sum is a vector<float,3>",
            ),
            (
                "[Differentiable] float f(float sum, float2 b) { return sum; }",
                "numbers as parameters, but b is a vector",
            ),
            ("[Differentiable] float f(float sum, float b[2]) { return sum; }", "numbers as parameters, but b is a"),
            ("[Differentiable] void f(float sum, out float y) { y = sum; }", "no out parameters, but it gives y"),
            (
                "[Differentiable] float2 f(float sum) { return float2(sum); }",
                "to return a float, .*but it returns a vector",
            ),
            ("[Differentiable] float f(no_diff float sum, float b) { return b; }", "sum is no_diff"),
            ("[Differentiable] half f(half sum) { return sum; }", "sum is a half"),
            ("[Differentiable] float f(int sum, float b) { return b; }", "floating-point number as its first"),
            (
                "struct S : IDifferentiable { float x; }\n[Differentiable] float f(float sum, S s) { return sum; }",
                "numbers as parameters, but s is a S",
            ),
            ("[Differentiable] T f<T : IReal, U : IReal>(T sum, U b) { return sum; }", "at most one type parameter"),
            (
                "[Differentiable] float f(float sum) { return sum; }\n[Differentiable] float g(float s) { return s; }",
                "name= to say which function is meant, of f, g",
            ),
            ("static const int x = 1;", "a .Differentiable. function in the text"),
        ],
    )
    def test_wrong_signatures(self, source: str, message: str) -> None:
        with pytest.raises(TypeError, match=message) as error:
            torch_slang.matmul_with_epilogue(source)
        assert "torch_slang.matmul_with_epilogue: epilogue_" in str(error.value)

    def test_a_function_without_parameters(self) -> None:
        with pytest.raises(TypeError, match=r"takes no|nothing|no arguments"):
            torch_slang.matmul_with_epilogue("[Differentiable] float f() { return 1; }", name="f")

    def test_an_unknown_name(self) -> None:
        with pytest.raises(TypeError, match=r"no kernel or function named 'g'"):
            torch_slang.matmul_with_epilogue("[Differentiable] float f(float sum) { return sum; }", name="g")

    def test_what_does_not_compile_is_shown_with_its_file_and_line(self, tmp_path: Path) -> None:
        path = tmp_path / "broken.slang"
        path.write_text("// a line\n[Differentiable] float f(float sum) { return summ; }\n")
        with pytest.raises(torch_slang.CompileError, match="summ") as error:
            torch_slang.matmul_with_epilogue(path)
        assert "broken.slang" in str(error.value)
        assert "2" in str(error.value)
        with pytest.raises(torch_slang.CompileError, match="half_of"):
            torch_slang.matmul_with_epilogue(
                "float half_of(float x) { return x / 2; } [Differentiable] float f(float sum) { return half_of(sum); }"
            )

    def test_no_such_file(self) -> None:
        with pytest.raises(RuntimeError, match=r"no such file: nowhere\.slang"):
            torch_slang.matmul_with_epilogue("nowhere.slang")

    def test_calls(self, shade: torch_slang.MatmulEpilogue, square: torch_slang.MatmulEpilogue) -> None:
        a, b, bias, scale, residual = operands(torch.float64, torch.device("cpu"))
        for arguments, named, message in [
            ((bias, scale), {}, "missing residual"),
            ((bias, scale, residual, 1, 2), {}, "at most 6 arguments, but got 7"),
            ((bias, scale, residual), {"bias": bias}, "two values for bias"),
            ((bias, scale, residual), {"bios": bias}, "no argument bios"),
            (("x", scale, residual), {}, "expected bias to be a tensor or a number, but got 'x'"),
            ((bias, "x", residual), {}, "expected scale to be a tensor or a number, but got 'x'"),
            ((bias, scale, residual, 1.5), {}, "times .int. to be a number that fits, but got 1.5"),
        ]:
            with pytest.raises(TypeError, match=message):
                shade(a, b, *arguments, **named)
        where = r"slang::matmul_with_epilogue\(shade\): "
        for arguments, message in [
            (
                (bias[:3], scale, residual),
                r"expected bias to broadcast to the result's shape \[9, 5\], but got \[3\]: dimension 0",
            ),
            (
                (bias, scale, residual[None]),
                r"expected residual to broadcast to the result's shape \[9, 5\], but got \[1, 9, 5\]",
            ),
            ((bias.float(), scale, residual), "expected bias to have dtype float64 like a, but got float32"),
            (
                (bias, torch.ones(5, dtype=torch.float16), residual),
                "expected scale to have dtype float64, but got float16",
            ),
            ((bias, scale, residual, torch.ones(5)), "expected times to have dtype int32, but got float32"),
            (
                (bias.to("meta"), scale, residual),
                "expected all tensors to be on the same device, but a is on cpu and bias",
            ),
            ((bias.to_sparse(), scale, residual), "expected bias to be a dense tensor"),
        ]:
            with pytest.raises(RuntimeError, match=where + message):
                shade(a, b, *arguments)
        with pytest.raises(RuntimeError, match=where + r"expected b to have shape \[7, N\], but got \[5, 7\]"):
            shade(a, b.mT, bias, scale, residual)
        with pytest.raises(
            RuntimeError, match=r"expected a to have dtype float16, bfloat16 or float32, since .* float64"
        ):
            square(a, b, bias)

    def test_operators(self, square: torch_slang.MatmulEpilogue) -> None:
        a, b = randn(2, 3, dtype=torch.float32), randn(3, 2, dtype=torch.float32)
        with pytest.raises(RuntimeError, match="no epilogue is named 'missing'"):
            torch.ops.slang.matmul_with_epilogue("missing", a, b, [])
        with pytest.raises(RuntimeError, match=r"expected 1 argument \(bias\) behind a and b, but got 2"):
            torch.ops.slang.matmul_with_epilogue(square.name, a, b, [a, b])
        with pytest.raises(RuntimeError, match="to have 3 dimensions"):
            torch.ops.slang.mm_with_epilogue(square.name, a[None], b[None], [b[0]])
