"""The Slang text of products with an epilogue: which of a product's functions are made anew, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torch_slang._epilogue_text import BLOCK_SPARSE, MATMUL, Epilogue, Parameter, Product, epilogue_text

OPS = Path(__file__).parent.parent / "ops"
EPILOGUE = Epilogue(
    "shade",
    "tools.shade",
    "T",
    "sum",
    "T",
    (Parameter("bias", "T", True, True), Parameter("scale", "T", True, False), Parameter("times", "int", False, False)),
)
# A product of two kernels, a function that they share, and one that has no part in the result.
KERNELS = """
uint3 corner_of<let ROWS : int>(uint tile)
{
    return uint3(0, tile * ROWS, 0);
}

void report(TensorView<int> log)
{
    log[0] = 1;
}

void tiles<T : mma.IElement>(TensorView<T> a, TensorView<int> log, TensorView<T> c)
{
    mma.Accumulator<T, 64, 64> sum;
    uint3 at = corner_of<64>(cudaBlockIdx().x);
    sum.multiply(a, a, at);
    report(log);
    sum.store_columns(c, at, 16 - 1);
}

[CudaKernel]
void some_product<T : mma.IElement>([Shape("M")] TensorView<T> a, TensorView<int> log, [Out("M, N")] TensorView<T> c)
{
    tiles<T>(a, log, c);
}

[CudaKernel]
void some_product_wide([Shape("M")] TensorView<float> a, TensorView<int> log, [Out("M, N")] TensorView<float> c)
{
    tiles<float>(a, log, c);
}

[CudaKernel]
void other<T : mma.IElement>(TensorView<T> c)
{
    c[0] = T(1);
}
"""


def text_of(tmp_path: Path, kernels: str) -> str:
    (tmp_path / "some.slang").write_text(kernels)
    return epilogue_text(EPILOGUE, Product("some.slang", "some_product", suffix="", ending="_mm"), tmp_path)


def test_kernels_and_what_they_call_are_made_anew(tmp_path: Path) -> None:
    text = text_of(tmp_path, KERNELS)
    made = re.findall(r"^(?:void|uint3) (\w+)", text, re.MULTILINE)
    ends = ["_corner_of", "_report", "_tiles", "", "_wide"]
    assert made == ["shade_mm" + end for end in ends] + ["shade_mm_and_sum" + end for end in ends]
    assert "void shade_mm_report(TensorView<int> log)" in text
    assert "    shade_mm_report(log);" in text


def test_views_of_arguments_stand_in_front_of_the_result(tmp_path: Path) -> None:
    text = text_of(tmp_path, KERNELS)
    for element in ("T", "float"):
        assert (
            f'[Shape("M, N")] [In] TensorView<{element}> x_bias, [Shape("M, N")] [In] TensorView<S1> x_scale, '
            f'[Shape("M, N")] [In] TensorView<int> x_times, [Out("M, N")] TensorView<{element}> c, '
            f'[Out("M, N")] TensorView<{element}> sums)'
        ) in text
    assert "void shade_mm_wide<S1 : mma.IElement>(" in text
    assert "shade_mm_tiles<float, S1>(a, log, x_bias, x_scale, x_times, c);" in text
    assert "shade_mm_and_sum_tiles<T, S1>(a, log, x_bias, x_scale, x_times, c, sums);" in text


def test_the_sum_is_stored_before_the_function_of_it(tmp_path: Path) -> None:
    body = text_of(tmp_path, KERNELS).split("void shade_mm_and_sum_tiles")[1]
    places = [body.index(one) for one in ("store_columns(sums, at, 16 - 1)", "shade_in_float(", "store_columns(c, at")]
    assert places == sorted(places)
    assert "sum.is_whole(16 - 1)" in body


@pytest.mark.parametrize(
    "line",
    [
        "    sum.store(c, uint3(0));\n",
        "    c[0] = T(1);\n",
        "    if (true) sum.store(c, at);\n",
        "    other_tiles<T>(c, a);\n",
        "",
    ],
)
def test_a_product_that_gives_its_result_another_way_is_refused(tmp_path: Path, line: str) -> None:
    kernels = KERNELS.replace("    sum.store_columns(c, at, 16 - 1);\n", line)
    kernels += "\nvoid other_tiles<T : mma.IElement>(TensorView<T> b, TensorView<T> a)\n{\n    b[0] = a[0];\n}\n"
    with pytest.raises(RuntimeError, match=r"expected tiles to give c its elements by sum\.store"):
        text_of(tmp_path, kernels)


@pytest.mark.parametrize(("product", "others"), [(MATMUL, "nothing"), (BLOCK_SPARSE, "sampled")])
def test_the_products_that_there_are(product: Product, others: str) -> None:
    text = epilogue_text(EPILOGUE, product, OPS)
    kernels = re.findall(r"\[CudaKernel\]\n(?:\[.*\]\n)*void (\w+)", text)
    ends = [product.ending + kind + width for kind in ("", "_and_sum") for width in ("", "_wide", "_tf32")]
    assert set(kernels) >= {"shade" + end for end in ends}
    assert others not in text
