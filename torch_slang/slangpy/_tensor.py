"""SlangPy's tensors: a thin case around torch's."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from torch_slang._numbers import SLANG_TYPES
from torch_slang.functions.instance import usual_name
from torch_slang.slangpy._refused import refuse
from torch_slang.slangpy._values import MATRICES, VECTORS

__all__ = ["Tensor"]

_DTYPES = {name: dtype for dtype, name in SLANG_TYPES.items()}


class Tensor:
    """What holds a torch tensor under SlangPy's methods. Functions take the torch tensor itself as well."""

    def __init__(self, storage: torch.Tensor, dtype: Any = None, grad: Tensor | None = None) -> None:
        self.storage = storage
        self.grad = grad
        self._dtype = dtype
        self._element_dims = 0 if dtype is None else len(_element_of(dtype)[1])

    @staticmethod
    def from_numpy(device: Any, array: Any, **settings: Any) -> Tensor:
        """A copy of one of NumPy's arrays, where the device says."""
        del settings
        return Tensor(torch.tensor(array, device=_torch_device(device)))

    @staticmethod
    def from_torch(device: Any, tensor: torch.Tensor, dtype: Any = None) -> Tensor:
        """The tensor itself. `dtype`: the type of a vector or a struct, whose numbers are the last dimension."""
        del device
        element = _element_of(dtype)[1] if dtype is not None else ()
        if element and tuple(tensor.shape[tensor.dim() - len(element) :]) != element:
            raise ValueError(f"slangpy.Tensor: shape {list(tensor.shape)} does not match {dtype}")
        return Tensor(tensor, dtype)

    @staticmethod
    def empty(device: Any, shape: Sequence[int] = (), dtype: Any = "float", **settings: Any) -> Tensor:
        """New memory for elements of a type ("float", "float3", torch.float32), where the device says."""
        del settings
        scalar, element = _element_of(dtype)
        return Tensor(torch.empty(*shape, *element, dtype=scalar, device=_torch_device(device)), dtype)

    @staticmethod
    def zeros(device: Any, shape: Sequence[int] = (), dtype: Any = "float", **settings: Any) -> Tensor:
        """As :meth:`empty`, filled with zeros."""
        return Tensor.empty(device, shape, dtype, **settings)._filled(0)

    @staticmethod
    def ones(device: Any, shape: Sequence[int] = (), dtype: Any = "float", **settings: Any) -> Tensor:
        """As :meth:`empty`, filled with ones."""
        return Tensor.empty(device, shape, dtype, **settings)._filled(1)

    @staticmethod
    def empty_like(other: Tensor) -> Tensor:
        """New memory for elements of the same type and shape."""
        return Tensor(torch.empty_like(other.storage, requires_grad=False), other._dtype)

    @staticmethod
    def zeros_like(other: Tensor) -> Tensor:
        """As :meth:`empty_like`, filled with zeros."""
        return Tensor.empty_like(other)._filled(0)

    @staticmethod
    def load_from_image(*_: Any, **__: Any) -> Tensor:
        refuse("Tensor.load_from_image", "reads pictures with graphics' Bitmap: read them with another library")

    def _filled(self, value: int) -> Tensor:
        self.storage.fill_(value)
        return self

    def with_grads(self, grad_in: Tensor | None = None, grad_out: Tensor | None = None, zero: bool = True) -> Tensor:
        """The same elements with a gradient: one tensor, zeros if none is given, that ``bwds`` reads or adds to.

        SlangPy keeps apart what comes in and what goes out. Here that is one, as in PyTorch.
        """
        if grad_in is not None and grad_out is not None and grad_in is not grad_out:
            raise ValueError("slangpy.Tensor.with_grads: expected one gradient, but got grad_in and grad_out")
        grad = grad_in or grad_out
        if grad is None:
            grad = Tensor.empty_like(self)
            zero = True
        return Tensor(self.storage, self._dtype, grad._filled(0) if zero else grad)

    def detach(self) -> Tensor:
        """The same elements without a gradient."""
        return Tensor(self.storage.detach(), self._dtype)

    @property
    def grad_in(self) -> Tensor | None:
        """The gradient, as :attr:`grad_out` is too."""
        return self.grad

    grad_out = grad_in

    @property
    def dtype(self) -> Any:
        """The elements' type as it was given, else that of the numbers by its name in Slang."""
        return SLANG_TYPES.get(self.storage.dtype) if self._dtype is None else self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the elements, whose own dimensions stay out."""
        return tuple(self.storage.shape[: self.storage.dim() - self._element_dims])

    @property
    def element_count(self) -> int:
        """How many elements there are."""
        return prod(self.shape)

    def to_torch(self) -> torch.Tensor:
        return self.storage

    def to_numpy(self) -> Any:
        """One of NumPy's arrays; of structs, of their bytes."""
        if hasattr(self._dtype, "as_struct"):
            return self.storage.detach().contiguous().view(torch.uint8).numpy(force=True)
        return self.storage.numpy(force=True)

    def copy_from_numpy(self, array: Any) -> None:
        self.storage.detach().copy_(torch.as_tensor(array).reshape(self.storage.shape))

    def copy_from_torch(self, tensor: torch.Tensor) -> None:
        self.storage.detach().copy_(tensor.reshape(self.storage.shape))

    def clear(self) -> None:
        self.storage.detach().zero_()

    def __getattr__(self, name: str) -> Any:
        if name in {"cursor", "uniforms", "point_to", "usage", "memory_type"}:
            refuse(f"Tensor.{name}", "is of memory of a graphics device: the torch tensor is its storage")
        raise AttributeError(f"slangpy: a Tensor has no {name}: its storage is a torch tensor")


def _torch_device(device: Any) -> torch.device:
    """Where a Device makes tensors; anything else means the CPU."""
    return getattr(device, "torch_device", torch.device("cpu"))


def _element_of(dtype: Any) -> tuple[torch.dtype, tuple[int, ...]]:
    if isinstance(dtype, torch.dtype):
        return dtype, ()
    if hasattr(dtype, "as_struct"):
        found: tuple[torch.dtype, tuple[int, ...]] = dtype.element()
        return found
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    if usual_name(name) in _DTYPES:
        return _DTYPES[usual_name(name)], ()
    for known in (VECTORS, MATRICES):
        if name in known:
            kind: Any = known[name]
            shape = (kind.size,) if name in VECTORS else (kind.rows, kind.columns)
            return _DTYPES[usual_name(name.rstrip("1234x") if "_t" not in name else name[:-1])], shape
    raise ValueError(f"slangpy.Tensor: expected dtype to be the type of a number or a vector, but got {dtype!r}")
