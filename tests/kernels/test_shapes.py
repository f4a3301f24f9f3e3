"""The shape language: what it accepts, what it gives, and what it says of mistakes.

Nearly all of it is seen on the meta device, where nothing is compiled: one kernel serves all tests, its shapes are
given as annotations, and each set of them is a module with a namespace of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

import torch_slang

SOURCE = """
[AutoPyBindCUDA] [CUDAKernel]
void k(TensorView<float> x, TensorView<float> z, int n, int m, TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = 1;
}
[AutoPyBindCUDA] [CUDAKernel]
void vectors(TensorView<float3> x, TensorView<float3> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = 2 * x[i];
}
// Counts the threads that were started.
[AutoPyBindCUDA] [CUDAKernel]
void threads(TensorView<float> x, TensorView<int> y)
{
    int before;
    for (uint axis = 0; axis < 3; ++axis) y.InterlockedMax(axis, int(cudaGlobalIdx()[axis]) + 1, before);
}
// Rows of the flattened view, so that a wrong flattening shows.
[AutoPyBindCUDA] [CUDAKernel]
void rows(TensorView<float> x, TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    float sum = 0;
    for (uint j = 0; j < x.size(1); ++j) sum = 2 * sum + x[i, j];
    y[i] = sum;
}
"""
_numbers = itertools.count()


def load(defines: dict[str, Any] | None = None, **annotations: Any) -> torch_slang.Module:
    return torch_slang.load(
        source=SOURCE, name="shapes", namespace=f"shapes{next(_numbers)}", defines=defines, annotations=annotations
    )


def meta(*sizes: int) -> torch.Tensor:
    return torch.empty(sizes, device="meta")


def k(
    x: str = "...", z: str = "...", y: str = "...", defines: dict[str, Any] | None = None, **more: Any
) -> Callable[..., Any]:
    return load(defines, k={"x": f"Shape({x})", "z": f"Shape({z})", "y": f"Out({y})", **more}).k


def out(
    x: str, y: str, sizes: Sequence[int], n: int = 0, m: int = 0, defines: dict[str, Any] | None = None
) -> list[int]:
    """The sizes of an output of shape `y`."""
    return list(k(x=x, z="", y=y, defines=defines)(meta(*sizes), meta(), n, m).shape)


# --- Expressions


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("7", 7),
        ("A", 5),
        ("2 * A + B", 13),
        ("A - B - 1", 1),
        ("-A + 9", 4),
        ("- -A", 5),
        ("(A + B) * 2", 16),
        ("A / B", 1),
        ("A // B", 1),
        ("A % B", 2),
        ("-A / B + 3", 1),  # floors: -2 + 3
        ("-A % B", 1),
        ("A / -B + 3", 1),
        ("(A % -B) + 2", 1),
        ("A * B / 2 * 2", 14),  # from the left
        ("min(A, B)", 3),
        ("max(A, B, 9)", 9),
        ("cdiv(A, B)", 2),
        ("cdiv(-A, B) + 2", 1),
        ("min(max(A, 1), cdiv(B, 2)) + 1", 3),
        ("\tA+ B ", 8),
    ],
)
def test_expressions(expression: str, expected: int) -> None:
    assert out("A, B", expression, (5, 3)) == [expected]


_NAMES = {"A": "A", "B": "B", "n": "n", "m": "m", "DEF": "DEF"}
_leaves = st.one_of(st.integers(0, 40).map(str), st.sampled_from(sorted(_NAMES)))


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner)
    calls = st.tuples(st.sampled_from(["min", "max", "cdiv"]), inner, inner)
    return st.one_of(
        binary.map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
        binary.map(lambda t: f"({t[0]}{t[1]}{t[2]})"),
        calls.map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda e: f"-{e}"),
    )


def python_value(expression: str, values: dict[str, int]) -> int | None:
    """What Python makes of it; None if it divides by zero."""
    text = expression.replace("//", "/").replace("/", "//")
    try:
        return eval(text, {"min": min, "max": max, "cdiv": cdiv}, values)
    except ZeroDivisionError:
        return None


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.recursive(_leaves, _grow, max_leaves=8),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(-9, 9),
    st.integers(-9, 9),
)
def test_expressions_are_those_of_python(expression: str, a: int, b: int, n: int, m: int) -> None:
    expected = python_value(expression, {"A": a, "B": b, "n": n, "m": m, "DEF": 6})
    if expected is not None and abs(expected) > 2**40:
        return
    # The sign is carried by two outputs' worth of sizes: one of them is the value, the other is zero.
    shapes = [f"max({expression}, 0)", f"max(-({expression}), 0)"]
    call = k(x="A, B", z="", y=", ".join(shapes), defines={"DEF": 6})
    if expected is None:
        with pytest.raises(RuntimeError, match="division by zero"):
            call(meta(a, b), meta(), n, m)
        return
    assert list(call(meta(a, b), meta(), n, m).shape) == [max(expected, 0), max(-expected, 0)]


def test_defines_and_parameters_in_expressions() -> None:
    assert out("N", "N * TILE + n", (3,), n=2, defines={"TILE": 16}) == [50]
    assert out("N", "TILE", (3,), defines={"TILE": "0x20"}) == [32]
    assert out("N", "N + FLAG", (3,), defines={"FLAG": True}) == [4]


def test_integer_parameters_of_expressions_are_symints_of_the_schema() -> None:
    module = load(k={"x": "Shape(N)", "z": "Shape()", "y": "Out(N + n)"})
    schema = str(getattr(torch.ops, module.namespace).k.default._schema)
    assert "SymInt n" in schema
    assert " int m" in schema


def test_arithmetic_beyond_64_bits_is_an_error() -> None:
    big = 2**62
    for expression in ("n * n", "n + n", "-n - n - n", "(0 - n - n) / m", "-(0 - n - n)"):
        with pytest.raises(RuntimeError, match="does not fit in 64 bits"):
            out("N", expression, (1,), n=big, m=-1)


# --- Binding


def test_a_name_is_bound_where_first_met_and_checked_elsewhere() -> None:
    call = k(x="N, F", z="F, N", y="F")
    assert list(call(meta(4, 3), meta(3, 4), 0, 0).shape) == [3]
    with pytest.raises(
        RuntimeError, match=r"expected z to have shape \[F, N\], but got \[4, 3\]: dimension 0 must be F = 3 \(from x\)"
    ):
        call(meta(4, 3), meta(4, 3), 0, 0)


def test_an_expression_before_its_name_is_bound_is_checked_afterwards() -> None:
    call = k(x="2 * N", z="N", y="N")
    assert list(call(meta(6), meta(3), 0, 0).shape) == [3]
    with pytest.raises(
        RuntimeError, match=r"expected x to have shape \[2 \* N\], but got \[5\]: dimension 0 must be 2 \* N = 6"
    ):
        call(meta(5), meta(3), 0, 0)


def test_a_name_met_twice_in_one_shape() -> None:
    call = k(x="N, N", z="", y="N")
    assert list(call(meta(4, 4), meta(), 0, 0).shape) == [4]
    with pytest.raises(
        RuntimeError, match=r"expected x to have shape \[N, N\], but got \[4, 5\]: dimension 1 must be N = 4"
    ):
        call(meta(4, 5), meta(), 0, 0)


def test_numbers_and_ranks_are_checked() -> None:
    call = k(x="N, 8, F", z="n", y="N")
    with pytest.raises(
        RuntimeError, match=r"expected x to have shape \[N, 8, F\], but got \[4, 7, 3\]: dimension 1 must be 8"
    ):
        call(meta(4, 7, 3), meta(0), 0, 0)
    with pytest.raises(RuntimeError, match=r"expected x to have shape \[N, 8, F\] \(3 dimensions\), but got \[4, 8\]"):
        call(meta(4, 8), meta(0), 0, 0)
    with pytest.raises(RuntimeError, match=r"expected z to have shape \[n\], but got \[2\]: dimension 0 must be n = 5"):
        call(meta(4, 8, 3), meta(2), 5, 0)


@pytest.mark.parametrize("sizes", [(0,), (1,), (5,), (255,), (257,)])
def test_sizes_at_the_edges(sizes: tuple[int, ...]) -> None:
    call = k(x="N", z="", y="N, cdiv(N, 4)")
    assert list(call(meta(*sizes), meta(), 0, 0).shape) == [sizes[0], cdiv(sizes[0], 4)]
    real = k(x="N", z="", y="N")(torch.zeros(sizes), torch.zeros(()), 0, 0)
    assert torch.equal(real, torch.ones(sizes))


# --- "..." and whole shapes


@pytest.mark.parametrize("leading", [(), (1,), (4,), (2, 3), (2, 1, 3, 2), (0,), (3, 0, 2)])
def test_leading_dimensions(leading: tuple[int, ...]) -> None:
    call = load(rows={"x": "Shape(..., N)", "y": "Out(...)"}).rows
    assert call(meta(*leading, 3)).shape == leading
    x = torch.randn(*leading, 3)
    expected = 4 * x[..., 0] + 2 * x[..., 1] + x[..., 2]
    torch.testing.assert_close(call(x), expected)


def strided(kind: str) -> torch.Tensor:
    x = torch.arange(48.0)
    return {
        "contiguous": x.view(2, 3, 8),
        "transposed": x.view(3, 2, 8).transpose(0, 1),
        "sliced": x.view(4, 3, 4)[::2, :, 1:],
        "expanded": x[:8].expand(2, 3, 8),
        "half expanded": x[:24].view(3, 8).expand(2, 3, 8),
        "last transposed": x.view(2, 8, 3).transpose(1, 2),
        "negative": torch._neg_view(x.view(2, 3, 8)),
    }[kind]


STRIDES = ["contiguous", "transposed", "sliced", "expanded", "half expanded", "last transposed", "negative"]


@pytest.mark.parametrize("kind", STRIDES)
def test_leading_dimensions_of_any_stride(kind: str) -> None:
    call = load(rows={"x": "Shape(..., N)", "y": "Out(...)"}).rows
    x = strided(kind)
    before = x.clone()
    expected = torch.zeros(x.shape[:-1])
    for j in range(x.shape[-1]):
        expected = 2 * expected + x[..., j]
    torch.testing.assert_close(call(x), expected)
    assert torch.equal(x, before)


@pytest.mark.parametrize("kind", ["contiguous", "transposed", "sliced", "last transposed"])
def test_a_launch_copies_back_what_it_had_to_copy_in(kind: str) -> None:
    module = load(rows={"x": "Shape(..., N)", "y": "Shape(...)"})
    around = strided(kind)
    before = around.clone()
    y = around[..., 0]
    x = torch.randn(*y.shape, 2)
    module.rows_launch(x, y, block_size=[8], grid_size=[1])
    torch.testing.assert_close(y, 2 * x[..., 0] + x[..., 1])
    assert torch.equal(around[..., 1:], before[..., 1:])


def test_a_launch_refuses_to_copy_what_overlaps_another_argument() -> None:
    module = load(rows={"x": "Shape(..., N)", "y": "Shape(...)"})
    memory = torch.zeros(4, 3, 2)
    before = memory.clone()
    with pytest.raises(RuntimeError, match="two arguments share memory, and one of them must be copied"):
        module.rows_launch(memory.transpose(0, 1), memory[..., 0].t(), block_size=[16], grid_size=[1])
    assert torch.equal(memory, before)


def test_leading_dimensions_must_agree() -> None:
    call = k(x="..., 3", z="..., N", y="..., N")
    assert call(meta(2, 5, 3), meta(2, 5, 4), 0, 0).shape == (2, 5, 4)
    message = r"expected z to have shape \[..., N\], but got \[5, 2, 4\]: its leading dimensions must be \[2, 5\]"
    with pytest.raises(RuntimeError, match=message):
        call(meta(2, 5, 3), meta(5, 2, 4), 0, 0)
    with pytest.raises(
        RuntimeError, match=r"expected x to have shape \[..., 3\] \(at least 1 dimensions?\), but got \[\]"
    ):
        call(meta(), meta(5, 2, 4), 0, 0)


def test_a_parameters_name_stands_for_its_shape() -> None:
    assert k(x="N, 3", z="x", y="x")(meta(4, 3), meta(4, 3), 0, 0).shape == (4, 3)
    assert k(x="..., 3", z="x", y="z")(meta(2, 4, 3), meta(2, 4, 3), 0, 0).shape == (2, 4, 3)
    with pytest.raises(
        RuntimeError, match=r"expected z to have shape \[N, 3\], but got \[5, 3\]: dimension 0 must be N = 4 \(from x\)"
    ):
        k(x="N, 3", z="x", y="x")(meta(4, 3), meta(5, 3), 0, 0)


def test_a_parameters_name_stands_for_any_shape_that_it_has() -> None:
    call = load(k={"z": "Shape(x)", "y": "Out(x)"}).k
    assert call(meta(2, 3, 4), meta(2, 3, 4), 0, 0).shape == (2, 3, 4)
    assert call(meta(), meta(), 0, 0).shape == ()
    with pytest.raises(RuntimeError, match=r"expected z to have the shape of x, \[2, 3\], but got \[3, 2\]"):
        call(meta(2, 3), meta(3, 2), 0, 0)


def test_elements_of_vectors_are_behind_the_shape() -> None:
    call = load(vectors={"x": "Shape(N)", "y": "Out(N)"}).vectors
    assert call(meta(5, 3)).shape == (5, 3)
    x = torch.randn(5, 3)
    torch.testing.assert_close(call(x), 2 * x)
    torch.testing.assert_close(call(torch.randn(3, 5).t()).shape, x.shape)
    with pytest.raises(
        RuntimeError,
        match=r"expected x to have shape \[N, 3\], but got \[5, 4\]: dimension 1 must be 3 \(TensorView<.*3.*\)",
    ):
        call(meta(5, 4))
    with pytest.raises(RuntimeError, match=r"expected x to have shape \[N, 3\] \(2 dimensions\), but got \[3\]"):
        call(meta(3))


def test_elements_of_vectors_of_leading_dimensions() -> None:
    call = load(vectors={"x": "Shape(...)", "y": "Out(x)"}).vectors
    for x in (torch.randn(3), torch.randn(2, 4, 3), torch.randn(3, 4, 2).permute(2, 1, 0), torch.randn(0, 3)):
        torch.testing.assert_close(call(x), 2 * x)


# --- Outputs and launches


def test_fill_is_what_the_kernel_does_not_write() -> None:
    call = load(
        k={"x": "Shape(N)", "z": "Shape()", "y": "Out(N), Fill(-2.5)", "launch_total": ["2"], "block_size": [1]}
    ).k
    assert call(torch.zeros(4), torch.zeros(()), 0, 0).tolist() == [1, 1, -2.5, -2.5]


@pytest.mark.parametrize(
    ("total", "block", "threads"),
    [
        (["H"], [4], (8, 1, 1)),
        (["W, H"], [4, 2], (8, 6, 1)),
        (["W", "H", "3"], [4, 2, 2], (8, 6, 4)),
        (["cdiv(W, 2)", "H * 2"], [1], (4, 10, 1)),
        (["W"], [4, 3, 2], (8, 3, 2)),  # a block is launched whole
    ],
)
def test_launch_total_is_rounded_up_to_whole_blocks(
    total: list[str], block: list[int], threads: tuple[int, ...]
) -> None:
    call = load(
        threads={"x": "Shape(H, W)", "y": "Out(3), Fill(0)", "launch_total": total, "block_size": block}
    ).threads
    assert tuple(call(torch.zeros(5, 7)).tolist()) == threads


def test_without_launch_total_there_is_a_thread_for_each_element_of_the_first_output() -> None:
    call = load(threads={"x": "Shape(N)", "y": "Out(3 + N), Fill(0)"}).threads
    for n in (0, 1, 300, 1000):
        assert 3 + n <= call(torch.zeros(n)).tolist()[0] < 3 + n + 1024
    assert call(torch.zeros(5)).tolist()[1:3] == [1, 1]


def test_a_launch_of_no_threads_leaves_the_fill() -> None:
    call = load(threads={"x": "Shape(N)", "y": "Out(3), Fill(7)", "launch_total": ["N", "2"]}).threads
    assert call(torch.zeros(0)).tolist() == [7, 7, 7]


# --- Symbolic sizes


def outputs_for(sizes: Sequence[int]) -> tuple[int, ...]:
    a, b = sizes
    return (cdiv(a, 4) + max(a, b), a // 3 + b % 4, min(a, b))


SYMBOLIC = "cdiv(A, 4) + max(A, B), A / 3 + B % 4, min(A, B)"


@pytest.fixture(scope="module")
def symbolic() -> Callable[..., Any]:
    return k(x="A, B", z="", y=SYMBOLIC)


class Wrapped(torch.nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call.op  # type: ignore[attr-defined]

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return self.call(x, z, 1, 2)


def test_make_fx_traces_one_graph_for_all_sizes(symbolic: Callable[..., Any]) -> None:
    traced = make_fx(Wrapped(symbolic), tracing_mode="symbolic")(torch.empty(7, 5), torch.empty(()))
    for sizes in ((7, 5), (12, 3), (2, 2), (64, 33)):
        assert tuple(traced(meta(*sizes), meta()).shape) == outputs_for(sizes)


def test_export_knows_the_output_in_terms_of_the_input(symbolic: Callable[..., Any]) -> None:
    dynamic = {"x": {0: torch.export.Dim("a", min=2), 1: torch.export.Dim("b", min=2)}, "z": {}}
    program = torch.export.export(Wrapped(symbolic), (torch.zeros(7, 5), torch.zeros(())), dynamic_shapes=dynamic)
    for sizes in ((9, 6), (12, 3), (64, 33)):
        # The exported program runs on the CPU: only the sizes are looked at, the kernel writes in its own bounds.
        assert tuple(program.module()(torch.zeros(sizes), torch.zeros(())).shape) == outputs_for(sizes)


def test_unbacked_sizes_of_the_data_reach_the_output() -> None:
    call = k(x="N", z="", y="n").op  # type: ignore[attr-defined]

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor, z: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
            n = count.item()
            torch._check(n >= 0)
            return call(x, z, n, 0)

    program = torch.export.export(Module(), (torch.zeros(4), torch.zeros(()), torch.tensor(3)))
    assert program.module()(torch.zeros(4), torch.zeros(()), torch.tensor(6)).shape == (6,)


def test_a_mismatch_shows_while_tracing() -> None:
    call = k(x="N, 8", z="N", y="N").op  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="dimension 1 must be 8"):
        make_fx(lambda x, z: call(x, z, 0, 0), tracing_mode="symbolic")(torch.empty(4, 7), torch.empty(4))


# --- Mistakes in the declarations


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": "M"}, "'M' in a shape or launch expression is never bound: no input has it as a dimension"),
        ({"x": "2 * M"}, "'M' in a shape or launch expression is never bound"),
        ({"x": "N, ..."}, r"Shape\(\"N, ...\"\) of x: '...' must come first"),
        ({"x": "..., ..."}, "'...' must come first"),
        ({"x": "N", "z": "", "y": "..."}, r"Out\(\"...\"\) of y: '...' is not bound by any input"),
        ({"x": "N,, 3"}, "of x: dimension 1 is empty"),
        ({"x": "N +"}, r"of x: in \"N \+\": expected a number, a name or '\(' at character 4"),
        ({"x": "N N"}, r"of x: in \"N N\": expected an operator at character 3"),
        ({"x": "(N"}, r"of x: in \"\(N\": expected '\)' at character 3"),
        ({"x": "3x"}, r"of x: in \"3x\": expected a number at character 2"),
        ({"x": "$N"}, r"of x: in \"\$N\": expected a number, a name or '\(' at character 1"),
        ({"x": "N", "y": "min(N)"}, "min takes at least two arguments, got 1"),
        ({"x": "N", "y": "cdiv(N, 2, 3)"}, "cdiv takes two arguments, got 3"),
        ({"x": "N", "y": "sqrt(N, 2)"}, r"unknown function 'sqrt' \(known: min, max, cdiv\)"),
        ({"x": "N", "y": "99999999999999999999"}, "number too large"),
        ({"x": "N", "y": "y"}, r"Out\(\"y\"\) of y refers to itself"),
        ({"x": "x"}, r"Shape\(\"x\"\) of x refers to itself"),
        ({"x": "y", "y": "N", "z": "N"}, r"Shape\(\"y\"\) of x refers to a later output"),
        ({"x": "z", "z": "N", "y": "N"}, "refers to z, whose own shape comes later"),
        ({"x": "A, B, C, D, E, F", "y": "A"}, "a view has at most 5 dimensions, got 6"),
        ({"x": "N", "y": "z + 1"}, r"uses 'z', which is not an integer"),
    ],
)
def test_mistakes_in_shapes_are_errors_of_the_load(shapes: dict[str, str], message: str) -> None:
    with pytest.raises(RuntimeError, match=message) as caught:
        k(**shapes)
    assert "::k: " in str(caught.value) or "annotations of k" in str(caught.value)


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"nobody": {}}, "annotations of nobody: no kernel of that name \\(there are: k, vectors, threads, rows\\)"),
        (
            {"k": {"q": "Shape(N)"}},
            "annotations of k: no parameter named q \\(there are: x, z, n, m, y; and launch_total",
        ),
        ({"k": {"x": "Shap(N)"}}, "annotations of k.x: unknown attribute Shap \\(known: Shape, Out, Fill, In\\)"),
        ({"k": {"x": 3}}, "annotations of k.x: expected a string, but got 3"),
        ({"k": {"y": "Out(4), Fill(a)"}}, 'annotations of k.y: Fill takes a number, but got "a"'),
        ({"k": {"n": "Shape(N)"}}, "annotations of k.n: only views take attributes, but n is a int"),
        ({"k": {"launch_total": [1.5]}}, "annotations of k.launch_total: expected numbers or expressions, but got 1.5"),
        ({"k": {"launch_total": ["1", "2", "3", "4"]}}, "must list one to three numbers of threads, x first"),
        ({"k": {"block_size": [0]}}, "annotations of k.block_size: expected positive numbers of threads, but got 0"),
        ({"k": {"block_size": [1, 1, 1, 1]}}, "expected one to three numbers of threads, but got 4"),
        ({"k": 3}, "annotations of k: expected names of parameters with attributes, but got 3"),
    ],
)
def test_mistakes_in_annotations_are_errors_of_the_load(annotations: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        load(**annotations)


def test_a_negative_output_is_an_error_of_the_call() -> None:
    message = r"::k: output y of shape \[N - 5\] would have a negative size -2 in dimension 0"
    for device in ("meta", "cpu"):
        with pytest.raises(RuntimeError, match=message):
            k(x="N", z="", y="N - 5")(torch.zeros(3, device=device), torch.zeros((), device=device), 0, 0)


def test_a_negative_launch_is_an_error_of_the_call() -> None:
    call = k(x="N", z="", y="N", launch_total=["N", "N - 5"])
    with pytest.raises(RuntimeError, match="LaunchTotal is negative: -2 threads in y"):
        call(torch.zeros(3), torch.zeros(()), 0, 0)


def test_a_zero_divisor_names_the_operator_and_the_expression() -> None:
    with pytest.raises(RuntimeError, match=r'::k: Out\("N / n"\) of y: in "N / n": division by zero'):
        out("N", "N / n", (4,), n=0)


STRUCT = 'import torch_slang; struct P { TensorView<float> a; [Shape("M, 2")] TensorView<float> b; }\n'
KERNEL = """[PyBindCUDA(Auto)] [CudaKernel] [LaunchTotal("1")]
void k({} P p, [Out("N")] TensorView<float> y) {{ y[0] = p.a[0]; }}"""


def test_the_shape_of_a_struct_is_that_of_its_tensors() -> None:
    module = torch_slang.load(source=STRUCT + KERNEL.format('[Shape("N")]'), namespace="struct_shapes")
    assert torch.ops.struct_shapes.k(torch.full((3,), 2.0), torch.ones(5, 2)).shape == (3,)
    with pytest.raises(RuntimeError, match=r"expected p_a to have shape \[N\] \(1 dimensions\), but got \[3, 2\]"):
        module.k({"a": torch.ones(3, 2), "b": torch.ones(5, 2)})
    with pytest.raises(RuntimeError, match=r"expected p_b to have shape \[M, 2\], but got \[5, 3\]"):
        module.k({"a": torch.ones(3), "b": torch.ones(5, 3)})


@pytest.mark.parametrize("attribute", ['Out("N")', "Fill(0)", "In", "MultipleOf(2)"])
def test_an_attribute_of_a_struct_that_is_for_its_fields(attribute: str) -> None:
    word = attribute.split("(", maxsplit=1)[0]
    said = f"p has the attribute {word}, but it is a struct, P: write the attribute in front of the struct's fields"
    module = torch_slang.load(source=STRUCT + KERNEL.format(f"[{attribute}]"), namespace="struct_attributes")
    with pytest.raises(AttributeError, match=said):
        _ = module.k
