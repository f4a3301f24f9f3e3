"""Python numbers as the 0-dimensional tensors that operators take."""

from __future__ import annotations

import numbers
import operator
from typing import Any

import torch

from torch_slang._library import _C

__all__ = [
    "EXACT_NUMBERS",
    "SLANG_TYPES",
    "kind_of",
    "number_of",
    "result_type",
    "share_tensor",
    "shared_tensor",
    "widens",
]

SLANG_TYPES = {
    torch.float16: "half",
    torch.bfloat16: "BFloat16",
    torch.float32: "float",
    torch.float64: "double",
    torch.int8: "int8_t",
    torch.int16: "int16_t",
    torch.int32: "int",
    torch.int64: "int64_t",
    torch.uint8: "uint8_t",
    torch.uint16: "uint16_t",
    torch.uint32: "uint",
    torch.uint64: "uint64_t",
    torch.bool: "bool",
}
# Asked once, since torch.compile traces what asks.
_WIDER = {dtype: frozenset(wider for wider in SLANG_TYPES if _C.widens(dtype, wider)) for dtype in SLANG_TYPES}


def widens(given: torch.dtype, wanted: torch.dtype) -> bool:
    """Whether every value of one type is one of the other, or rounds to one as in PyTorch's promotion."""
    return wanted in _WIDER.get(given, ())


# Note [shared numbers]
#   To make a tensor takes as long as a small operator, so calls share those of numbers that come again: nothing changes
#   the arguments of an operator. In a trace, and where a mode is active, `torch.tensor` is right instead: what it makes
#   belongs there. Modes are recognised by the classes of their tensors, so calls share only where
#   all tensors are of PyTorch's own classes.
_CACHED = 4096
EXACT_NUMBERS = (float, int, bool)
_cache: dict[tuple[type, Any, torch.dtype], torch.Tensor] = {}


def kind_of(value: Any) -> int:
    """0 for bools, 1 for integers, 2 for other real numbers, -1 for anything else."""
    exact = type(value)
    if exact is float:
        return 2
    if exact is int:
        return 1
    if isinstance(value, (bool, torch.SymBool)):
        return 0
    if isinstance(value, (int, torch.SymInt, numbers.Integral)):
        return 1
    return 2 if isinstance(value, (float, torch.SymFloat, numbers.Real)) else -1


def number_of(value: Any, dtype: torch.dtype) -> Any:
    """`value` as a number that fits `dtype`, or None: numbers are widened as PyTorch does, never narrowed.

    Raises OverflowError where an integer has too many digits.
    """
    kind = kind_of(value)
    if kind == 0:
        return value
    if dtype.is_floating_point and kind > 0:
        return value if isinstance(value, (float, torch.SymInt, torch.SymFloat)) else float(value)
    if kind != 1 or dtype == torch.bool:
        return None
    number = value if isinstance(value, torch.SymInt) else operator.index(value)
    if not torch.iinfo(dtype).min <= number <= torch.iinfo(dtype).max:
        raise OverflowError
    return number


def shared_tensor(value: Any, dtype: torch.dtype) -> torch.Tensor | None:
    """What :func:`share_tensor` made of a number earlier, if it did."""
    exact = type(value)
    return _cache.get((exact, value or repr(value), dtype)) if exact in EXACT_NUMBERS else None  # -0.0 is not 0.0


def share_tensor(value: Any, dtype: torch.dtype, number: Any) -> torch.Tensor:
    """A tensor of a number, on the CPU: `number` is what :func:`number_of` made of `value`."""
    tensor = _C.number_tensor(number, str(dtype).removeprefix("torch."))
    if len(_cache) >= _CACHED:
        _cache.clear()
    if type(value) in EXACT_NUMBERS:
        _cache[type(value), value or repr(value), dtype] = tensor
    return tensor


def result_type(
    strong: torch.dtype | None, weak: torch.dtype | None, kind: int, default: torch.dtype
) -> torch.dtype | None:
    """PyTorch's result type of tensors, of those that weigh less, and of numbers, which weigh least."""
    of_numbers = None if kind < 0 else (torch.bool, torch.int64, default)[kind]
    return _outweighed(_outweighed(strong, weak), of_numbers)


def _outweighed(strong: torch.dtype | None, weak: torch.dtype | None) -> torch.dtype | None:
    if strong is None or weak is None:
        return strong or weak
    return torch.promote_types(strong, weak) if _category(weak) > _category(strong) else strong


def _category(dtype: torch.dtype) -> int:
    return 2 if dtype.is_floating_point or dtype.is_complex else int(dtype != torch.bool)
