"""The Slang text of products with an epilogue: macros of a product's kernels, and the function's struct."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import torch_slang
from torch_slang.products.epilogue_text import BLOCK_SPARSE, MATMUL, Epilogue, EpilogueParameter, Product, epilogue_text

OPS = Path(__file__).parents[2] / "ops"
EPILOGUE = Epilogue(
    "shade",
    "tools.shade",
    "T",
    "sum",
    "T",
    (
        EpilogueParameter("bias", "T", True, True),
        EpilogueParameter("scale", "T", True, False),
        EpilogueParameter("times", "int", False, False),
    ),
)
KINDS = [kind + width for kind in ("", "_and_sum") for width in ("", "_wide", "_tf32")]


def definition(text: str, macro: str) -> list[str]:
    """What a macro is defined as: without the sums, and with them."""
    return re.findall(rf"^#define {re.escape(macro)} ?(.*)$", text, re.MULTILINE)[:2]


def without_definitions_of_the_file(product: Product) -> str:
    text = epilogue_text(EPILOGUE, product, OPS)
    return text.replace((OPS / product.file).read_text(), "")


@pytest.mark.parametrize("product", [MATMUL, BLOCK_SPARSE])
def test_a_products_text_is_taken_whole(product: Product) -> None:
    assert epilogue_text(EPILOGUE, product, OPS).count((OPS / product.file).read_text()) == 2


@pytest.mark.parametrize("product", [MATMUL, BLOCK_SPARSE])
def test_every_macro_of_a_product_is_defined(product: Product) -> None:
    guarded = (OPS / product.file).read_text().split("#ifndef PRODUCT")[1].split("#endif")[0]
    names = re.findall(r"^#define (\w+)", guarded, re.MULTILINE)
    written = without_definitions_of_the_file(product)
    assert len(names) == len(set(names)) >= 10
    for name in names:
        assert len(re.findall(rf"^#undef {name}$", written, re.MULTILINE)) == 2
        assert len(re.findall(rf"^#define {name}\b", written, re.MULTILINE)) == 2


def test_kernels_take_views_of_the_arguments_in_front_of_the_results() -> None:
    text = without_definitions_of_the_file(MATMUL)
    views = (
        '[Shape("B, M, N")] [In] TensorView<ELEMENT> x_bias, [Shape("B, M, N")] [In] TensorView<S1> x_scale, '
        '[Shape("B, M, N")] [In] TensorView<int> x_times, '
    )
    assert definition(text, "ARGUMENTS(ELEMENT)") == [views, views]
    c, sums = (f'[Out("B, M, N")] TensorView<ELEMENT> {name}' for name in ("c", "sums"))
    assert definition(text, "RESULTS(ELEMENT)") == [c, f"{c}, {sums}"]
    assert definition(text, "PRODUCT_WIDE") == ["shade_product_wide", "shade_product_and_sum_wide"]
    assert definition(text, "OWN_TYPES") == ["<S1 : mma.IElement>"] * 2
    assert definition(text, "EPILOGUE(ELEMENT)") == ["shade_epilogue<ELEMENT, S1>"] * 2
    assert definition(text, "STORES_SUMS") == ["false", "true"]


FUNCTION = "[Differentiable] float shade(float sum, float bias) { return sum * bias; }"
MACROS = ["PRODUCT", "MULTIPLY", "SUMS", "ARGUMENTS(X)", "EPILOGUE", "TWO_TURNS"]


def test_macros_of_the_user_may_have_the_names_of_a_products(device: torch.device) -> None:
    defined = "".join(f"#define {name} 0\n" for name in MACROS)
    epilogue = torch_slang.matmul_with_epilogue(f"{defined}{FUNCTION}", name="shade", namespace="epilogue_macros")
    a, bias = torch.rand(3, 4, device=device), torch.rand(3, 3, device=device)
    torch.testing.assert_close(epilogue(a, a.T, bias), a @ a.T * bias, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("product", [MATMUL, BLOCK_SPARSE])
def test_each_kernel_of_a_product_is_made_with_the_sums_and_without(product: Product) -> None:
    make = torch_slang.matmul_with_epilogue if product is MATMUL else torch_slang.block_sparse_mm_with_epilogue
    operator = make(FUNCTION, name="shade", namespace="epilogue_kernels")
    made = f"shade{product.suffix}"
    assert operator._module.kernels() == tuple(sorted(made + product.ending + kind for kind in KINDS))
    assert f"{made}_in_float" in operator._module.functions()
