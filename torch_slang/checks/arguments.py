"""Small arguments of an operator, drawn from what its kernel or function says of them."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_slang._descriptor import Descriptor, Leaf

_SIZES = (3, 2, 5, 4, 7, 6)  # of dimensions, in the order in which a kernel's shapes name them
_LEADING = (2, 3)  # what "..." at the beginning of a kernel's shapes stands for
_OUTER = ((2, 1), (3,), (), (1, 3))  # shapes of a function's arguments, which broadcast
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[[int, int], int]] = {"min": min, "max": max, "cdiv": lambda a, b: -(-a // b)}


class UnknownShapeError(Exception):
    """Nothing says which arguments fit."""


def draw_arguments(about: Descriptor, device: torch.device | str) -> list[Any]:
    """The arguments of the operator that ``about`` describes, in the order of its schema.

    Floating-point tensors are between 0.5 and 1.5, in float64 where their type is a parameter that may be it, and
    require grad where they are differentiable. Integers are 0 and 1, so that they may index any dimension; those that
    shapes name are sizes. Raises UnknownShapeError where an argument's shape is not given, or is no expression of the
    shape language (docs/kernels.md).
    """
    shapes = _Shapes(about)
    generator = torch.Generator().manual_seed(0)
    drawn = [shapes.of(leaf, k) for k, leaf in enumerate(about.inputs)]
    return [
        shapes.sizes[leaf.name]
        if leaf.name in shapes.sizes and not leaf.is_view
        else _argument(about, leaf, shape, generator, device)
        for leaf, shape in zip(about.inputs, drawn, strict=True)
    ]


def draw_rows(about: Descriptor, count: int, device: torch.device | str) -> list[Any] | None:
    """Arguments of so many elements for a plain function: numbers of both signs, integers below 8.

    None for kernels, and for functions that see tensors whole.
    """
    if not about.parameters or not about.order or any(leaf.is_whole for leaf in about.inputs):
        return None
    generator = torch.Generator().manual_seed(0)
    arguments = []
    for leaf in about.inputs:
        dtype = _dtype(about, leaf)
        shape = [count, *leaf.element_shape]
        values = torch.rand(shape, generator=generator, dtype=torch.float64)
        if not dtype.is_floating_point:
            arguments.append((8 * values).floor().to(device, dtype))
            continue
        wide = 1.5 * torch.randn(shape, generator=generator, dtype=torch.float64)
        near = torch.rand(shape, generator=generator, dtype=torch.float64) < 0.5
        drawn = torch.where(near, 0.5 + values, wide).to(device, dtype)
        arguments.append(drawn.requires_grad_(leaf.differentiable))
    return arguments


class _Shapes:
    """Shapes of arguments that fit together: each name that is met gets a size."""

    def __init__(self, about: Descriptor) -> None:
        self._about = about
        self._shapes: dict[str, list[int]] = {}
        self._drawn = 0
        self.sizes: dict[str, int] = dict(about.constants)

    def of(self, leaf: Leaf, position: int) -> list[int]:
        """The shape of the input at that position. Raises UnknownShapeError where it is not known."""
        if not leaf.is_view:
            return list(leaf.element_shape)
        about = self._about
        if about.parameters and about.order and not leaf.is_whole:  # a plain function's
            return [*_OUTER[position % len(_OUTER)], *leaf.element_shape]
        if leaf.shape is None:
            raise UnknownShapeError(f"{leaf.name} has no Shape")
        if (same := self._shapes.get(leaf.shape.strip())) is None:
            same = self._shapes[leaf.name] = self._dimensions(leaf, leaf.shape)
        return [*same, *leaf.element_shape]

    def _dimensions(self, leaf: Leaf, shape: str) -> list[int]:
        try:
            entries = ast.parse(f"({shape},)", mode="eval").body
        except SyntaxError:
            raise UnknownShapeError(f"{leaf.name} has the shape {shape}") from None
        assert isinstance(entries, ast.Tuple)
        has_leading = any(isinstance(entry, ast.Constant) and entry.value is ... for entry in entries.elts[:1])
        dims = [self._value(entry, leaf) for entry in entries.elts[has_leading:]]
        return [*(_LEADING if has_leading else ()), *dims]

    def _value(self, entry: ast.expr, leaf: Leaf) -> int:
        if isinstance(entry, ast.Constant) and isinstance(entry.value, int):
            return entry.value
        if isinstance(entry, ast.Name):
            if entry.id not in self.sizes:
                self.sizes[entry.id] = _SIZES[self._drawn % len(_SIZES)]
                self._drawn += 1
            return self.sizes[entry.id]
        if isinstance(entry, ast.UnaryOp) and isinstance(entry.op, ast.USub):
            return -self._value(entry.operand, leaf)
        if isinstance(entry, ast.BinOp) and type(entry.op) in _ARITHMETIC:
            left, right = self._value(entry.left, leaf), self._value(entry.right, leaf)
            if right or isinstance(entry.op, (ast.Add, ast.Sub, ast.Mult)):
                return _ARITHMETIC[type(entry.op)](left, right)
        if isinstance(entry, ast.Call) and isinstance(entry.func, ast.Name) and entry.func.id in _FUNCTIONS:
            operands = [self._value(operand, leaf) for operand in entry.args]
            return functools.reduce(_FUNCTIONS[entry.func.id], operands)
        raise UnknownShapeError(f"{leaf.name} has the shape {leaf.shape}")


def _argument(
    about: Descriptor,
    leaf: Leaf,
    shape: list[int],
    generator: torch.Generator,
    device: torch.device | str,
) -> Any:
    if leaf.default is not None:
        return leaf.default
    dtype = _dtype(about, leaf)
    values = torch.rand(shape, generator=generator, dtype=torch.float64)
    drawn: Tensor = (0.5 + values if dtype.is_floating_point else 2 * values).to(device, dtype)
    if leaf.is_view or leaf.differentiable or shape:
        return drawn.requires_grad_(leaf.differentiable)
    return drawn.item()


def _dtype(about: Descriptor, leaf: Leaf) -> torch.dtype:
    if leaf.type_parameter < 0:
        return leaf.dtype
    allowed = about.type_parameters[leaf.type_parameter].allowed
    return next((one for one in (torch.float64, torch.float32) if one in allowed), allowed[0])


def float64_is_allowed(about: Descriptor) -> bool:
    """Whether finite differences can be taken: all floating-point arguments may be float64."""
    dtypes = {_dtype(about, leaf) for leaf in about.inputs}
    return all(dtype == torch.float64 or not dtype.is_floating_point for dtype in dtypes)
