"""SlangPy's small values: vectors and matrices, references to numbers, pairs with gradients, tensors of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["MATRICES", "VECTORS", "DiffPair", "Packed", "Tensor", "ValueRef", "diff_pair", "floatRef", "intRef", "pack"]

_DTYPES = {
    "float": torch.float32,
    "half": torch.float16,
    "double": torch.float64,
    "int": torch.int32,
    "uint": torch.uint32,
    "int8_t": torch.int8,
    "uint8_t": torch.uint8,
    "int16_t": torch.int16,
    "int64_t": torch.int64,
    "bool": torch.bool,
}


class _Vector(tuple[Any, ...]):
    """Numbers with the names x, y, z, w."""

    __slots__ = ()
    size = 0
    number: type = float

    def __new__(cls, *values: Any) -> _Vector:
        if len(values) == 1:
            given = values[0]
            values = tuple(given) if isinstance(given, Sequence) else (given,) * cls.size
        if len(values) != cls.size:
            raise ValueError(f"slangpy.{cls.__name__}: expected {cls.size} numbers, but got {len(values)}")
        return super().__new__(cls, map(cls.number, values))

    x = property(lambda self: self[0])
    y = property(lambda self: self[1])
    z = property(lambda self: self[2])
    w = property(lambda self: self[3])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self))})"


class _Matrix(tuple[Any, ...]):
    """Rows of numbers."""

    __slots__ = ()
    rows = columns = 0

    def __new__(cls, values: Any) -> _Matrix:
        given = list(values)
        if len(given) == cls.rows * cls.columns:
            given = [given[row * cls.columns : (row + 1) * cls.columns] for row in range(cls.rows)]
        if len(given) != cls.rows or any(len(row) != cls.columns for row in given):
            raise ValueError(f"slangpy.{cls.__name__}: expected {cls.rows} rows of {cls.columns} numbers")
        return super().__new__(cls, tuple(tuple(map(float, row)) for row in given))

    def to_numpy(self) -> Any:
        """As one of NumPy's arrays."""
        return torch.tensor(self).numpy()


VECTORS: dict[str, type[_Vector]] = {
    f"{name}{size}": type(f"{name}{size}", (_Vector,), {"__slots__": (), "size": size, "number": number})
    for name, number in (("float", float), ("int", int), ("uint", int), ("bool", bool))
    for size in (2, 3, 4)
}
MATRICES: dict[str, type[_Matrix]] = {
    f"float{rows}x{columns}": type(
        f"float{rows}x{columns}", (_Matrix,), {"__slots__": (), "rows": rows, "columns": columns}
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


def _torch_device(device: Any) -> torch.device:
    """Where a Device makes tensors; anything else means the CPU."""
    return getattr(device, "torch_device", torch.device("cpu"))


class Tensor:
    """What holds a torch tensor under SlangPy's methods. Functions take the torch tensor itself as well."""

    def __init__(self, storage: torch.Tensor, element_dims: int = 0, is_of_structs: bool = False) -> None:
        self.storage = storage
        self._element_dims = element_dims
        self._is_of_structs = is_of_structs

    @staticmethod
    def from_numpy(device: Any, array: Any) -> Tensor:
        """A copy of one of NumPy's arrays, where the device says."""
        return Tensor(torch.tensor(array, device=_torch_device(device)))

    @staticmethod
    def from_torch(device: Any, tensor: torch.Tensor, dtype: Any = None) -> Tensor:
        """The tensor itself. `dtype`: the type of a vector or a struct, whose numbers are the last dimension."""
        del device
        element = _element_of(dtype)[1] if dtype is not None else ()
        if element and tuple(tensor.shape[tensor.dim() - len(element) :]) != element:
            raise ValueError(f"slangpy.Tensor: shape {list(tensor.shape)} does not match {dtype}")
        return Tensor(tensor, len(element), hasattr(dtype, "as_struct"))

    @staticmethod
    def empty(device: Any, shape: Sequence[int] = (), dtype: Any = "float", **settings: Any) -> Tensor:
        """New memory for elements of a type ("float", "float3", torch.float32), where the device says."""
        del settings
        scalar, element = _element_of(dtype)
        return Tensor(torch.empty(*shape, *element, dtype=scalar, device=_torch_device(device)), len(element))

    @staticmethod
    def zeros(device: Any, shape: Sequence[int] = (), dtype: Any = "float", **settings: Any) -> Tensor:
        """As :meth:`empty`, filled with zeros."""
        tensor = Tensor.empty(device, shape, dtype, **settings)
        tensor.storage.zero_()
        return tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the elements, whose own dimensions stay out."""
        return tuple(self.storage.shape[: self.storage.dim() - self._element_dims])

    def to_torch(self) -> torch.Tensor:
        return self.storage

    def to_numpy(self) -> Any:
        """One of NumPy's arrays; of structs, of their bytes."""
        if self._is_of_structs:
            return self.storage.detach().contiguous().view(torch.uint8).numpy(force=True)
        return self.storage.numpy(force=True)

    def copy_from_numpy(self, array: Any) -> None:
        self.storage.detach().copy_(torch.as_tensor(array).reshape(self.storage.shape))

    def copy_from_torch(self, tensor: torch.Tensor) -> None:
        self.storage.detach().copy_(tensor.reshape(self.storage.shape))

    def clear(self) -> None:
        self.storage.detach().zero_()


def _element_of(dtype: Any) -> tuple[torch.dtype, tuple[int, ...]]:
    if isinstance(dtype, torch.dtype):
        return dtype, ()
    if hasattr(dtype, "as_struct"):
        found: tuple[torch.dtype, tuple[int, ...]] = dtype.element()
        return found
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    if name in _DTYPES:
        return _DTYPES[name], ()
    for known in (VECTORS, MATRICES):
        if name in known:
            kind = known[name]
            shape = (kind.size,) if issubclass(kind, _Vector) else (kind.rows, kind.columns)
            return _DTYPES[name.rstrip("234x")], shape
    raise ValueError(f"slangpy.Tensor: expected dtype to be the type of a number or a vector, but got {dtype!r}")
