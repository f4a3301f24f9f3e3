"""SlangPy's small values: vectors and matrices, references to numbers, pairs with gradients, tensors of its own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

__all__ = [
    "MATRICES",
    "VECTORS",
    "DiffPair",
    "Packed",
    "ValueRef",
    "Vector",
    "diff_pair",
    "floatRef",
    "intRef",
    "pack",
    "quatf",
]


class Vector(tuple[Any, ...]):
    """Numbers with the names x, y, z, w. Arithmetic goes by components; for more than that there are tensors."""

    __slots__ = ()
    size = 0
    number: type = float

    def __new__(cls, *values: Any) -> Vector:
        if not values:
            values = (0,)
        if len(values) == 1:
            given = values[0]
            values = tuple(given) if isinstance(given, Sequence) else (given,) * cls.size
        numbers = [item for value in values for item in (value if isinstance(value, Vector) else (value,))]
        if len(numbers) != cls.size:
            raise ValueError(f"slangpy.{cls.__name__}: expected {cls.size} numbers, but got {len(numbers)}")
        return super().__new__(cls, map(cls.number, numbers))

    x = property(lambda self: self[0])
    y = property(lambda self: self[1])
    z = property(lambda self: self[2])
    w = property(lambda self: self[3])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self))})"

    def __neg__(self) -> Vector:
        return type(self)([-number for number in self])

    def _with(self, other: Any, function: Callable[[Any, Any], Any]) -> Vector:
        others = other if isinstance(other, Sequence) else (other,) * self.size
        if len(others) != self.size:
            raise ValueError(f"slangpy.{type(self).__name__}: expected {self.size} numbers, but got {len(others)}")
        return type(self)([function(one, two) for one, two in zip(self, others, strict=True)])

    # A tuple's own `+` and `*` would join and repeat.
    def __add__(self, other: Any) -> Vector:
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> Vector:
        return self._with(other, operator.sub)

    def __mul__(self, other: Any) -> Vector:
        return self._with(other, operator.mul)

    def __truediv__(self, other: Any) -> Vector:
        return self._with(other, operator.truediv)

    def __radd__(self, other: Any) -> Vector:
        return self._with(other, operator.add)

    def __rsub__(self, other: Any) -> Vector:
        return self._with(other, lambda one, two: two - one)

    def __rmul__(self, other: Any) -> Vector:
        return self._with(other, operator.mul)

    def __rtruediv__(self, other: Any) -> Vector:
        return self._with(other, lambda one, two: two / one)


class Matrix(tuple[Any, ...]):
    """Rows of numbers."""

    __slots__ = ()
    rows = columns = 0

    def __new__(cls, values: Any) -> Matrix:
        given = list(values)
        if len(given) == cls.rows * cls.columns:
            given = [given[row * cls.columns : (row + 1) * cls.columns] for row in range(cls.rows)]
        if len(given) != cls.rows or any(len(row) != cls.columns for row in given):
            raise ValueError(f"slangpy.{cls.__name__}: expected {cls.rows} rows of {cls.columns} numbers")
        return super().__new__(cls, tuple(tuple(map(float, row)) for row in given))

    def to_numpy(self) -> Any:
        """As one of NumPy's arrays."""
        return torch.tensor(self).numpy()

    def _no_arithmetic(self, *_: Any) -> NoReturn:
        raise TypeError(f"slangpy.{type(self).__name__}: there is no arithmetic here: use to_numpy(), or tensors")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = _no_arithmetic


class quatf(Vector):
    """A rotation, for parameters of type float4: the scalar is its last component."""

    __slots__ = ()
    size = 4

    def __new__(cls, *values: Any) -> quatf:
        made: quatf = super().__new__(cls, *(values or (0, 0, 0, 1)))  # type: ignore[assignment]
        return made

    @staticmethod
    def identity() -> quatf:
        """The rotation that leaves vectors as they are."""
        return quatf()


def _vectors(prefix: str, number: type) -> dict[str, type[Vector]]:
    names = [(f"{prefix}{size}", size) for size in (1, 2, 3, 4)]
    return {name: type(name, (Vector,), {"__slots__": (), "size": size, "number": number}) for name, size in names}


VECTORS: dict[str, type[Vector]] = {
    name: kind
    for prefix, number in (("float", float), ("int", int), ("uint", int), ("bool", bool), ("float16_t", float))
    for name, kind in _vectors(prefix, number).items()
}
VECTORS |= {f"half{size}": VECTORS[f"float16_t{size}"] for size in (1, 2, 3, 4)}
MATRICES: dict[str, type[Matrix]] = {
    f"float{rows}x{columns}": type(
        f"float{rows}x{columns}", (Matrix,), {"__slots__": (), "rows": rows, "columns": columns}
    )
    for rows in (2, 3, 4)
    for columns in (2, 3, 4)
}


class ValueRef:
    """A number that a function may change, for `out` and `inout` parameters."""

    def __init__(self, init_value: Any) -> None:
        self.value = init_value


# The names are SlangPy's.
def intRef(init_value: int = 0) -> ValueRef:
    return ValueRef(int(init_value))


def floatRef(init_value: float = 0.0) -> ValueRef:
    return ValueRef(float(init_value))


@dataclass(repr=False)
class DiffPair:
    """A tensor, and one of its shape that ``bwds`` adds its gradient to, or of a result: reads it from."""

    primal: torch.Tensor | None
    grad: torch.Tensor | None
    index: int = -1
    is_input: bool = True

    def __repr__(self) -> str:
        primal, grad = (None if one is None else type(one).__name__ for one in (self.primal, self.grad))
        return f"DiffPair(primal={primal}, grad={grad}, index={self.index}, is_input={self.is_input})"

    def clear_tensors(self) -> None:
        self.primal = self.grad = None


def diff_pair(
    primal: torch.Tensor | None = None, grad: torch.Tensor | None = None, index: int = -1, is_input: bool = True
) -> DiffPair:
    return DiffPair(primal, grad, index, is_input)


@dataclass(frozen=True)
class Packed:
    """An argument that :func:`pack` was given."""

    value: Any


def pack(module: Any, value: Any) -> Packed:
    """`value` as it is: nothing needs packing here."""
    del module
    return Packed(value)
