"""Types of operands, what an operation is, and references in PyTorch: language_operations.py is made of these.

An operation is a Slang text whose operands are `{0}`, `{1}` and so on, and a function of float64 tensors of rows
([rows], [rows, 3], [rows, 2, 3]). A case is an operation of operands of certain types.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

Tensor = torch.Tensor
Shape = tuple[int, ...]
ELEMENTS = ("half", "float", "double", "int")  # the first three by their width
VECTORS: list[Shape] = [(2,), (3,), (4,)]
MATRICES: list[Shape] = [(2, 2), (2, 3), (3, 2), (3, 3), (4, 4)]
SHAPES: list[Shape] = [(), *VECTORS, *MATRICES]


@dataclass(frozen=True)
class Type:
    """A number, a vector or a matrix."""

    element: str
    shape: Shape = ()

    @property
    def name(self) -> str:
        return self.element + "x".join(str(size) for size in self.shape)

    def generic(self, parameter: str) -> str:
        """Its name where the element is a type parameter."""
        kind = ("", "vector", "matrix")[len(self.shape)]
        return f"{kind}<{parameter}, {', '.join(map(str, self.shape))}>" if kind else parameter

    @property
    def differentiable(self) -> bool:
        return self.element != "int"


# What operands may be: of either sign and away from zero; between 0 and 1; above 1.
DOMAINS = {"any": (0.3, 1.5), "unit": (0.25, 0.9), "above": (1.3, 2.0)}


@dataclass(frozen=True)
class Operation:
    """`text` is the result's expression, after `statements`. `{R}`, `{E}` are the result's type and its element's."""

    name: str
    text: str
    run: Callable[..., Tensor]
    domain: str = "any"
    statements: str = ""


@dataclass(frozen=True)
class Case:
    operation: Operation
    operands: tuple[Type, ...]
    result: Type

    @property
    def name(self) -> str:
        return f"{self.operation.name} ({', '.join(operand.name for operand in self.operands)})"

    def spelled(self, operands: Sequence[str], types: Sequence[str], result: str, element: str) -> tuple[str, str]:
        """Its statements and its expression."""
        names = {f"T{k}": name for k, name in enumerate(types)} | {"R": result, "E": element}
        statements, text = (t.format(*operands, **names) for t in (self.operation.statements, self.operation.text))
        return statements, text

    def run(self, *operands: Tensor) -> Tensor:
        return self.operation.run(*operands)


# References.


def fitted(*values: Tensor) -> list[Tensor]:
    """Numbers beside vectors or matrices, with as many dimensions."""
    most = max(value.dim() for value in values)
    return [value.reshape(*value.shape, *[1] * (most - value.dim())) for value in values]


def by_component(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *values: function(*torch.broadcast_tensors(*fitted(*values)))


def dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def product(a: Tensor, b: Tensor) -> Tensor:
    """Slang's mul of vectors and matrices."""
    if a.dim() == b.dim() == 3:
        return a @ b
    if a.dim() == 3 and b.dim() == 2:
        return (a @ b[..., None])[..., 0]
    if a.dim() == 2 and b.dim() == 3:
        return (a[..., None, :] @ b)[..., 0, :]
    return torch.mul(*fitted(a, b))


def length(a: Tensor) -> Tensor:
    return a.abs() if a.dim() == 1 else a.norm(dim=-1)


def unit(a: Tensor) -> Tensor:
    return a / a.norm(dim=-1, keepdim=True)


def reflect(i: Tensor, n: Tensor) -> Tensor:
    return i - 2 * dot(n, i)[..., None] * n


def refract(i: Tensor, n: Tensor, eta: Tensor) -> Tensor:
    cos, eta = dot(i, n)[..., None], eta[..., None]
    k = 1 - eta * eta * (1 - cos * cos)
    return torch.where(k < 0, 0 * i, eta * i - (eta * cos + k.clamp(min=1e-300).sqrt()) * n)


def clamped(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The bounds may be in the wrong order."""
    return torch.minimum(torch.maximum(x, low), high)


def smoothstep(low: Tensor, width: Tensor, x: Tensor) -> Tensor:
    t = ((x - low) / width).clamp(0, 1)
    return t * t * (3 - 2 * t)


def replaced(r: Tensor, places: Sequence[int | tuple[int, ...]], parts: Sequence[Tensor]) -> Tensor:
    """The components (or rows, or elements) at those places replaced by others."""
    r = r.clone()
    for place, part in zip(places, parts, strict=True):
        r[(slice(None), *place) if isinstance(place, tuple) else (slice(None), place)] = part
    return r


def pick(v: Tensor, index: Tensor, size: int | None = None) -> Tensor:
    rows = torch.arange(len(v))
    return v[rows, index.long() % (size or v.shape[1])]


def put(v: Tensor, index: Tensor, part: Tensor, add: bool = False) -> Tensor:
    rows = torch.arange(len(v))
    before = v.clone()
    at = (rows, index.long() % v.shape[1])
    before[at] = part + before[at] if add else part
    return before


# Operand types.


def joined(*types: Type) -> Type:
    """What arithmetic of these gives: the widest element, and the shape that is not a number's."""
    floats = [type.element for type in types if type.differentiable]
    element = max(floats, key=ELEMENTS.index) if floats else "int"
    return Type(element, max((type.shape for type in types), key=len))


def beside(count: int, others: Sequence[Shape] = SHAPES) -> Iterator[tuple[Shape, ...]]:
    """Numbers and one other shape."""
    yield ((),) * count
    for shape in others[1:]:
        for chosen in itertools.product(((), shape), repeat=count):
            if shape in chosen:
                yield chosen


FEW: list[Shape] = [(), (3,), (2, 3)]
SOME: list[Shape] = [(), *VECTORS, (2, 3), (3, 3)]


def typed(shapes: Iterable[tuple[Shape, ...]]) -> Iterator[tuple[Type, ...]]:
    """Of double all; of float and half those of a few shapes."""
    for several in shapes:
        for element in ("double", "float", "half"):
            if element == "double" or all(shape in FEW for shape in several):
                yield tuple(Type(element, shape) for shape in several)


def mixed(count: int, of: Sequence[str] = ELEMENTS) -> Iterator[tuple[Type, ...]]:
    """Of a few shapes every combination of elements that are not the same."""
    for shapes in beside(count):
        if all(shape in FEW for shape in shapes):
            for elements in itertools.product(of, repeat=count):
                if len(set(elements)) > 1 and set(elements) != {"int"}:
                    yield tuple(map(Type, elements, shapes))


def cases_of(
    operations: Iterable[Operation], operands: Iterable[tuple[Type, ...]], result: Callable[..., Type] = joined
) -> Iterator[Case]:
    several = list(operands)
    for operation in operations:
        for types in several:
            yield Case(operation, types, result(*types))
