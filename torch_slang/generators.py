"""Arguments of plain functions that are made for each element of a call, as SlangPy has them.

``module.noise(torch_slang.generators.rand_float(seed=7), x)`` gives each element a number of its own, the same for the
same seed and place. Generators are constants: they have no gradient, and the backward sees what the forward saw. The
function's loop makes them where it needs them, in no memory.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

__all__ = ["Generator", "call_id", "grid", "rand_float", "thread_id", "wang_hash"]

_SEED = 2640457667
_MASK = 0xFFFFFFFF

# Note [generated arguments] in csrc/functions/generated_arguments.h: the kinds, and the words of a component that is 0.
_PLACE, _HASH, _RANDOM = range(3)
_ZERO = (0, 0, 0, 0)


class Generator(ABC):
    """What stands for an argument whose values follow from the place in the call."""

    takes_floats = False

    def own_shape(self) -> tuple[int, ...]:
        """What the call's shape must broadcast with."""
        return ()

    @abstractmethod
    def words(self, rank: int, components: int | None, is_array: bool) -> list[int]:
        """How the loop makes an element of a call of that rank: Note [generated arguments].

        `components`: of a vector, or of an array; None for a number. Raises ValueError for numbers of components that
        the generator has not.
        """


class _CallId(Generator):
    def words(self, rank: int, components: int | None, is_array: bool) -> list[int]:
        if components not in {rank, rank + 1} and not (components is None and rank == 1):
            raise ValueError(f"call_id() gives {rank} or {rank + 1}, as the call has {rank} dimensions")
        ids = [(d, d + 1, 0, 1) for d in range(rank)]
        return _places([_ZERO] * ((components or 1) - rank) + ids, is_array)


class _Grid(Generator):
    def __init__(self, shape: tuple[int, ...], offset: tuple[int, ...], stride: tuple[int, ...]) -> None:
        self._shape, self._offset, self._stride = shape, offset, stride

    def own_shape(self) -> tuple[int, ...]:
        return tuple(1 if size < 0 else size for size in self._shape)

    def words(self, rank: int, components: int | None, is_array: bool) -> list[int]:
        own = len(self._shape)
        if components != own and not (components is None and own == 1):
            raise ValueError(f"grid(...) gives {own}, as many as its shape has")
        first = rank - own
        return _places([(first + d, first + d + 1, self._offset[d], self._stride[d]) for d in range(own)], is_array)


class _ThreadId(Generator):
    def words(self, rank: int, components: int | None, is_array: bool) -> list[int]:  # noqa: ARG002
        if components is not None:
            _check_at_most_three("thread_id()", components)
        return _places([(0, rank, 0, 1)] + [_ZERO] * ((components or 1) - 1), is_array=True)


class _WangHash(Generator):
    def __init__(self, seed: int, warmup: int, hash_seed: bool) -> None:
        self._seed = [warmup, seed, int(hash_seed)]

    def words(self, rank: int, components: int | None, is_array: bool) -> list[int]:  # noqa: ARG002
        if components is not None:
            _check_at_most_three("a random generator", components)
        return [_HASH, *self._seed]


class _RandFloat(_WangHash):
    takes_floats = True

    def __init__(self, low: float, high: float, seed: int, warmup: int, hash_seed: bool) -> None:
        super().__init__(seed, warmup, hash_seed)
        (self._ends,) = struct.unpack("<q", struct.pack("<2f", _constant(low), _constant(high)))

    def words(self, rank: int, components: int | None, is_array: bool) -> list[int]:
        return [_RANDOM, *super().words(rank, components, is_array)[1:], self._ends]


class _Sized(Generator):
    """A generator that wants so many components."""

    def __init__(self, inner: Generator, components: int) -> None:
        self._inner, self._components = inner, components
        self.takes_floats = inner.takes_floats

    def words(self, rank: int, components: int | None, is_array: bool) -> list[int]:
        if (components or 1) != self._components:
            raise ValueError(f"it was to give {self._components}")
        return self._inner.words(rank, components, is_array)


def _places(components: Sequence[tuple[int, int, int, int]], is_array: bool) -> list[int]:
    """The words of these, which are given as an array has them: vectors begin with the last dimension."""
    ordered = components if is_array else components[::-1]
    return [_PLACE, *(word for component in ordered for word in component)]


def call_id(dims: int | tuple[int, ...] = -1) -> Generator:
    """The place in the call: a number for each of its dimensions; of one more, the vector's last component is 0.

    A vector begins with the last dimension (x goes along a row), an array with the first. `dims`: how many there must
    be. A shape gives :func:`grid`, as in SlangPy.
    """
    return grid(dims) if isinstance(dims, tuple) else _sized(_CallId(), dims)


def thread_id(dims: int = -1) -> Generator:
    """The elements' numbers in the order of rows, as x; y and z are 0."""
    return _sized(_ThreadId(), dims)


def grid(
    shape: int | Sequence[int], offset: Sequence[int] | None = None, stride: Sequence[int] | None = None
) -> Generator:
    """The places of a grid of this shape: offset + place * stride, in the order of :func:`call_id`.

    The call has that shape then. Where a size is -1, the other arguments say it; an integer is so many of those.
    """
    sizes = (-1,) * shape if isinstance(shape, int) else tuple(shape)
    offsets = (0,) * len(sizes) if offset is None else tuple(offset)
    strides = (1,) * len(sizes) if stride is None else tuple(stride)
    for what, numbers in (("shape", sizes), ("offset", offsets), ("stride", strides)):
        _check_integers("grid", what, *numbers)
    if not len(sizes) == len(offsets) == len(strides):
        raise ValueError(
            f"grid: expected shape, offset and stride to be of one length, but got {sizes}, {offsets} and {strides}"
        )
    return _Grid(sizes, offsets, strides)


def wang_hash(dim: int = -1, seed: int = _SEED, warmup: int = 0, hash_seed: bool = True) -> Generator:
    """Random integers of 32 bits: Wang's hash of the element's number. `warmup`: how often that is hashed before."""
    _check_seed("wang_hash", seed)
    _check_integers("wang_hash", "warmup", warmup)
    return _sized(_WangHash(seed, warmup, hash_seed), dim)


# The arguments, their names and their order are SlangPy's.
def rand_float(  # noqa: PLR0917
    min: float = 0,
    max: float = 1,
    dim: int = -1,
    seed: int = _SEED,
    warmup: int = 0,
    hash_seed: bool = True,
) -> Generator:
    """Random numbers from `min` on and below `max`, of 23 bits, made of :func:`wang_hash`."""
    _check_seed("rand_float", seed)
    _check_integers("rand_float", "warmup", warmup)
    return _sized(_RandFloat(min, max, seed, warmup, hash_seed), dim)


def _sized(generator: Generator, components: int) -> Generator:
    return generator if components < 0 else _Sized(generator, components)


def _check_seed(name: str, seed: int) -> None:
    _check_integers(name, "seed", seed)
    if not 0 <= seed <= _MASK:
        raise ValueError(f"{name}: expected seed to be within [0, {_MASK}], but got {seed}")


def _check_integers(name: str, what: str, *numbers: Any) -> None:
    for number in numbers:
        if isinstance(number, float):
            raise TypeError(f"{name}: expected {what} to be an integer, but got {number}")


def _constant(number: float) -> float:
    """The number, for which torch.compile compiles anew: there are no symbols of texts, nor of a float's bits."""
    return float.fromhex(float(number).hex())


def _check_at_most_three(what: str, components: int) -> None:
    if components > 3:
        raise ValueError(f"{what} gives at most 3")
