"""The kernels of Slang's tests of its target torch (slang_tests.py), called from PyTorch, with their results.

Each takes the module, loaded by the drop-in for slangtorch, and a device, and returns what is wrong, or an empty text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ONE = {"blockSize": (1, 1, 1), "gridSize": (1, 1, 1)}


def _different(got: Any, expected: Any) -> str:
    import torch

    close = torch.allclose(got.float().cpu(), torch.as_tensor(expected).float().cpu(), rtol=1e-2, atol=1e-5)
    return "" if close else f"{got.tolist()} for {torch.as_tensor(expected).tolist()}"


def _numbers(*shape: int, device: str) -> Any:
    import torch

    count = torch.Size(shape).numel()
    return torch.linspace(0.25, 2, count).reshape(shape).to(device)


def plain_matrix(module: Any, device: str) -> str:
    matrix, out = _numbers(3, 3, device=device), _numbers(3, device=device)
    module.plain_copy(matrix, out).launchRaw(**ONE)
    return _different(out, matrix.diagonal())


def plain_vector(module: Any, device: str) -> str:
    vector, out = _numbers(3, device=device), 0 * _numbers(3, device=device)
    module.plain_copy(vector, out).launchRaw(**ONE)
    return _different(out, vector)


def array_of_vectors(module: Any, device: str) -> str:
    rows, out = _numbers(4, 3, device=device), _numbers(3, device=device)
    module.plain_copy(rows, out).launchRaw(**ONE)
    return _different(out, [rows[0, 0].item(), rows[2, 1].item(), rows[3, 2].item()])


def structs(module: Any, device: str) -> str:
    matrix, vector, out = _numbers(3, 3, device=device), _numbers(3, device=device), _numbers(3, device=device)
    module.plain_copy({"data": matrix, "vec": vector}, {"data": 2.0}, out).launchRaw(**ONE)
    return _different(out, [matrix[0, 0].item(), vector[1].item(), matrix[2, 2].item()])


def sines(module: Any, device: str) -> str:
    x, out = _numbers(1, device=device), _numbers(1, device=device)
    module.myKernel(x, out).launchRaw(**ONE)
    return _different(out, x.sin())


def sines_with_gradient(module: Any, device: str) -> str:
    import torch

    x, gradient = _numbers(1, device=device), torch.zeros(1, device=device)
    out, tangent = torch.zeros(1, device=device), torch.zeros(1, device=device)
    module.myKernel(x, out).launchRaw(**ONE)
    one = torch.ones(1, device=device)
    module.myKernel.bwd((x, gradient), (out, one.clone())).launchRaw(**ONE)
    module.myKernel.fwd((x, one), (out, tangent)).launchRaw(**ONE)
    return _different(out, x.sin()) or _different(gradient, x.cos()) or _different(tangent, x.cos())


def views_in_a_struct(module: Any, device: str) -> str:
    x, y, out = _numbers(1, device=device), 3 * _numbers(1, device=device), _numbers(1, device=device)
    module.myKernel({"inValues1": x, "inValues2": y}, out).launchRaw(**ONE)
    return _different(out, x.sin() * y.cos())


def vectors(module: Any, device: str) -> str:
    x, out = _numbers(1, device=device), _numbers(1, 2, device=device)
    module.myKernel(x, out).launchRaw(**ONE)
    return _different(out, x.sin().expand(1, 2))


def scaled_bfloat16(module: Any, device: str) -> str:
    x, out = _numbers(1, device=device).bfloat16(), _numbers(1, device=device).bfloat16()
    module.scaleKernel(x, out, 3.0).launchRaw(**ONE)
    made, like = module.allocBF16(5), module.cloneShape(x)
    if made.dtype != x.dtype or like.shape != x.shape:
        return f"{made.dtype}, {tuple(like.shape)}"
    return _different(out, 3 * x.float())


def counted_bfloat16(module: Any, device: str) -> str:
    x, out = _numbers(1, device=device).bfloat16(), _numbers(1, device=device).bfloat16()
    module.scale_bf16_nodiff(1, x, out, 3.0).launchRaw(**ONE)
    return _different(out, 3 * x.float())


def returned_structs(module: Any, device: str) -> str:
    x = _numbers(1, device=device)
    found = module.runCompute({"inValues": x, "normalVal": 1.0})
    vector, sub = found if isinstance(found, tuple) else (found["v"], found["sub"])
    first = sub[0][0] if not isinstance(sub[0], dict) else sub[0]["array"]
    return _different(first[0], x.sin()) or ("" if list(vector) == [1.0, 2.0] else f"{vector}")


def products(module: Any, device: str) -> str:
    x = _numbers(2, device=device)
    expected = 4 * x
    module.torchMain(x).launchRaw(**ONE)
    return _different(x, expected)


def text_argument(module: Any, device: str) -> str:
    """A parameter of type String must be refused."""
    try:
        module.myKernel(x=_numbers(1, device=device).item(), s="text").launchRaw(**ONE)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        return "" if "String" in str(error) else str(error)
    return "no error"


KERNELS: dict[str, Callable[[Any, str], str]] = {
    "autobind-plain-matrix-input": plain_matrix,
    "autobind-plain-vector-input": plain_vector,
    "autobind-struct-with-array-of-builtins": array_of_vectors,
    "autobind-struct-with-builtin-types": structs,
    "autobind-unmappable-param-diagnostic": text_argument,
    "autopybind-basic": sines,
    "autopybind-bfloat16-tensor": scaled_bfloat16,
    "autopybind-bfloat16-tensor-nodiff": counted_bfloat16,
    "autopybind-differentiable": sines_with_gradient,
    "autopybind-printf": sines_with_gradient,
    "autopybind-struct": views_in_a_struct,
    "autopybind-vector-element-type": vectors,
    "cuda-kernel-export": returned_structs,
    "hlsl-torch-cross-compile": products,
}
