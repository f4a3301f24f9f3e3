"""What accesses promise of their elements, and debug mode, which finds promises that other accesses break."""

from __future__ import annotations

import functools
import re
from itertools import product

import pytest
import torch
from long_tests import sampled, some_cases, some_tests

import torch_slang

pytestmark = some_tests(2)

VIEWS = [
    "DiffTensorView<float>",
    "DiffTensorViewR<float, 4>",
    "DiffTensorViewASR<float, 4>",
    "DiffTensorView<float3>",
    "DiffTensorView<double>",
]
# Of each: what the kernel computes, and what the message says.
PROMISED = r"x\[\d+\]: this element was promised to one thread alone, once .*, but thread \d+ of the launch has used it"
UNPROMISED = r"x\[\d+\]: this access promises nothing, but thread \d+ of the launch uses the element by loadOnce or "
EITHER = f"({PROMISED}|{UNPROMISED})"
BROKEN = {
    "mine": ("x.loadOnce(i) * x[i]", PROMISED),
    "mine_before": ("x[i] * x.loadOnce(i)", UNPROMISED),
    "first": ("x.loadOnce(i) * x[0]", EITHER),
    "fixed": ("x.loadOnce(i) * x.loadFixed(0)", EITHER),
    "next": ("x.loadUniform(i) + x[(i + 1) % n]", EITHER),
    "next_before": ("x[(i + 1) % n] + x.loadUniform(i)", EITHER),
    "uniform_fixed": ("x.loadUniform(i) * x.loadFixed(1)", EITHER),
}
KEPT = {
    "alone": "x.loadOnce(i) * x.loadOnce(i + n)",
    "others": "x.loadOnce(i) * x[n + i / 2]",
    "mine": "x.loadUniform(i) * x[i] + x.loadUniform(i)",
    "fixed": "x.loadUniform(i) * x.loadFixed(n + 1)",
}
STORES = {
    "twice": ("y[i] = x[i]; y.storeOnce(i, x[i] * x[i]);", True),
    "neighbour": ("y.storeOnce(i, x[i]); if (i == 3) y[4] = x[i];", True),
    "uniform_neighbour": ("y.storeUniform(i, x[i]); if (i == 3) y[4] = x[i];", True),
    "replaced": ("y.storeOnce(i, x[i]); y[i] = x[i] * x[i];", False),
    "uniform": ("y[i] = x[i]; y.storeUniform(i, x[i] * x[i]);", False),
}
TABLES = {
    "broken": {name: f"y[i] = {body};" for name, (body, _) in BROKEN.items()},
    "kept": {name: f"y[i] = {body};" for name, body in KEPT.items()},
    "stores": {name: body for name, (body, _) in STORES.items()},
    "none": {"at_all": "y[i] = x[0] * x[i] + x.loadFixed(1);"},
}
KERNEL = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void NAME([Shape("2 * N")] VIEW x, [Shape("N")] TensorView<float> like, [Out("N")] OUT y)
{
    uint i = cudaGlobalIdx().x, n = like.size(0);
    if (i >= n) return;
    BODY
}
"""
N = 37


BODIES = {f"{table}_{name}": body for table, bodies in TABLES.items() for name, body in bodies.items()}


@functools.cache
def promises(view: str, debug: bool) -> torch_slang.Module:
    """A kernel for each body, whose accesses stand in line 7 of its text."""
    out = re.sub(r"\w+<(\w+).*", r"DiffTensorView<\1>", view)
    of_view = KERNEL.replace("VIEW", view).replace("OUT", out)
    source = "".join(of_view.replace("NAME", name).replace("BODY", body) for name, body in BODIES.items())
    namespace = "test_promises_" + re.sub(r"\W", "_", f"{view}_{debug}").lower()
    return torch_slang.load(source=source, name="promises.slang", namespace=namespace, debug=debug)


def kernel(name: str, view: str = "DiffTensorView<float>", debug: bool = True) -> torch_slang.Kernel:
    return getattr(promises(view, debug), name)


def line_of(name: str) -> int:
    """Where the kernel accesses its elements."""
    return 7 + KERNEL.count("\n") * list(BODIES).index(name)


def is_turn_of(name: str, view: str, debug: bool = True) -> bool:
    """Every other one: a view's promises are watched as those of all."""
    names = list(BROKEN if name in BROKEN else KEPT)
    return (names.index(name) + VIEWS.index(view) + debug) % 2 == 1


def inputs(view: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    dtype = torch.float64 if "double" in view else torch.float32
    components = (3,) if "float3" in view else ()
    torch.manual_seed(5)
    return torch.rand(2 * N, *components, dtype=dtype, device=device), torch.zeros(N, device=device)


@some_cases(1)
@pytest.mark.parametrize(("name", "view"), sampled(product(BROKEN, VIEWS), is_turn_of))
def test_a_promise_that_another_access_breaks_is_found(name: str, view: str, device: torch.device) -> None:
    message, name = BROKEN[name][1], f"broken_{name}"
    x, like = inputs(view, device)
    y = kernel(name, view)(x.requires_grad_(), like)
    found = rf"::{name}_backward: gradient of {message}.*promises\.slang:{line_of(name)}\)"
    with pytest.raises(RuntimeError, match=found):
        y.sum().backward()
    assert x.grad is None


@some_cases(3)
@pytest.mark.parametrize(("name", "view", "debug"), sampled(product(KEPT, VIEWS, (False, True)), is_turn_of))
def test_promises_that_are_kept_give_the_gradient(name: str, view: str, debug: bool, device: torch.device) -> None:
    x, like = inputs(view, device)
    kernel(f"kept_{name}", view, debug)(x.requires_grad_(), like).square().sum().backward()
    expected = x.detach().clone().requires_grad_()
    i = torch.arange(N, device=device)
    values = {
        "alone": lambda: expected[i] * expected[i + N],
        "others": lambda: expected[i] * expected[N + i // 2],
        "mine": lambda: expected[i] * expected[i] + expected[i],
        "fixed": lambda: expected[i] * expected[N + 1],
    }[name]()
    values.square().sum().backward()
    torch.testing.assert_close(x.grad, expected.grad)


@some_cases(2)
@pytest.mark.parametrize("name", STORES)
def test_stores(name: str, device: torch.device) -> None:
    """A storeOnce leaves the gradient where it is: who stores the element before it would take it again."""
    is_broken, name = STORES[name][1], f"stores_{name}"
    x, like = inputs("DiffTensorView<float>", device)
    y = kernel(name)(x.requires_grad_(), like)
    if not is_broken:
        y.sum().backward()
        square = torch.cat([2 * x.detach()[:N], torch.zeros(N, device=device)])
        torch.testing.assert_close(x.grad, square)
        return
    promised = r"y\[\d+\]: this (element was promised to one thread alone|access promises nothing)"
    found = rf"::{name}_backward: gradient of {promised}.*promises\.slang:{line_of(name)}\)"
    with pytest.raises(RuntimeError, match=found):
        y.sum().backward()


def test_views_without_promises_are_not_watched(device: torch.device) -> None:
    """Who promises nothing needs no memory for it: as many threads as wish add to one element."""
    x, like = inputs("DiffTensorView<float>", device)
    kernel("none_at_all")(x.requires_grad_(), like).sum().backward()
    expected = x.detach().clone().requires_grad_()
    (expected[0] * expected[:N] + expected[1]).sum().backward()
    torch.testing.assert_close(x.grad, expected.grad)
