"""Arguments of plain functions that are made for each element of a call, as SlangPy has them.

``module.noise(torch_slang.generators.rand_float(seed=7), x)`` gives each element a number of its own, the same for the
same seed and place. Generators are constants: they have no gradient, and the backward sees what the forward saw. The
function's loop makes them where it needs them, in no memory.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence

__all__ = ["Generator", "call_id", "grid", "rand_float", "thread_id", "wang_hash"]

_SEED = 2640457667

_MASK = 0xFFFFFFFF


# The kinds that prelude/map_generated.h knows, and how many words tell it what a component is.
_PLACE, _HASH, _RANDOM = range(3)
_WORDS = 6


class Generator(ABC):
    """What stands for an argument whose values follow from the place in the call."""

    takes_floats = False

    def own_shape(self) -> tuple[int, ...]:
        """What the call's shape must broadcast with."""
        return ()

    @abstractmethod
    def words(self, shape: Sequence[int], components: int | None, is_array: bool) -> list[int]:
        """How the loop makes an element of a call of this shape: Note [generated elements] in prelude/map_generated.h.

        `components`: of a vector, or of an array; None for a number. Raises ValueError for numbers of components that
        the generator has not.
        """


class _Places(Generator):
    """Components that are places along dimensions of the call."""

    def words(self, shape: Sequence[int], components: int | None, is_array: bool) -> list[int]:
        places = self._places(shape, components)
        missing = max(components or 1, len(places)) - len(places)
        places = [_word(1, 1, 0, 0)] * missing + places  # components of vectors begin with the last dimension
        if components is not None and not is_array:
            places.reverse()
        return [_PLACE, *(word for place in places for word in place)]

    @abstractmethod
    def _places(self, shape: Sequence[int], components: int | None) -> list[list[int]]:
        """By dimension, outermost first: see `_word`."""


class _CallId(_Places):
    def _places(self, shape: Sequence[int], components: int | None) -> list[list[int]]:
        rank = len(shape)
        if components not in {rank, rank + 1} and not (components is None and rank == 1):
            raise ValueError(f"call_id() has a number for each of the call's {rank} dimensions")
        return [_word(_count(shape[d + 1 :]), shape[d], 0, 1) for d in range(rank)]


class _Grid(_Places):
    def __init__(self, shape: tuple[int, ...], offset: tuple[int, ...], stride: tuple[int, ...]) -> None:
        self._shape, self._offset, self._stride = shape, offset, stride

    def own_shape(self) -> tuple[int, ...]:
        return tuple(1 if size < 0 else size for size in self._shape)

    def _places(self, shape: Sequence[int], components: int | None) -> list[list[int]]:
        rank = len(self._shape)
        if components != rank and not (components is None and rank == 1):
            raise ValueError(f"this grid has {rank} dimensions")
        inner = shape[len(shape) - rank :]
        return [_word(_count(inner[d + 1 :]), inner[d], self._offset[d], self._stride[d]) for d in range(rank)]


class _ThreadId(Generator):
    def words(self, shape: Sequence[int], components: int | None, is_array: bool) -> list[int]:  # noqa: ARG002
        if components is not None:
            _check_at_most_three("thread_id()", components)
        return [_PLACE, *_word(1, _count(shape), 0, 1), *(_word(1, 1, 0, 0) * ((components or 1) - 1))]


class _WangHash(Generator):
    kind = _HASH

    def __init__(self, seed: int, warmup: int) -> None:
        self._seed, self._warmup = seed, warmup

    def words(self, shape: Sequence[int], components: int | None, is_array: bool) -> list[int]:  # noqa: ARG002
        if components is not None:
            _check_at_most_three("a random generator", components)
        count = components or 1  # neighbours do not share components
        words = [self.kind]
        for component in range(count):
            words += [count, self._warmup, self._seed, component, *self._ends()]
        return words

    def _ends(self) -> tuple[int, int]:
        return 0, 0


class _RandFloat(_WangHash):
    takes_floats = True
    kind = _RANDOM

    def __init__(self, low: float, high: float, seed: int, warmup: int) -> None:
        super().__init__(seed, warmup)
        self._bits = struct.unpack("<2I", struct.pack("<2f", low, high))

    def _ends(self) -> tuple[int, int]:
        return self._bits[0], self._bits[1]


class _Sized(Generator):
    """A generator that wants so many components."""

    def __init__(self, inner: Generator, components: int) -> None:
        self._inner, self._components = inner, components
        self.takes_floats = inner.takes_floats

    def words(self, shape: Sequence[int], components: int | None, is_array: bool) -> list[int]:
        if (components or 1) != self._components:
            raise ValueError(f"the generator was to have {self._components} components")
        return self._inner.words(shape, components, is_array)


def _word(divisor: int, size: int, offset: int, stride: int) -> list[int]:
    """offset + stride * (element's number / divisor % size)."""
    return [divisor, size, offset, stride, 0, 0]


def _count(sizes: Sequence[int]) -> int:
    """Their product, of symbols too."""
    product = 1
    for size in sizes:
        product = product * size
    return product


def call_id(dims: int = -1) -> Generator:
    """The place in the call: a number for each of its dimensions; of one more, the vector's last component is 0.

    A vector begins with the last dimension (x goes along a row), an array with the first. `dims`: how many there must
    be.
    """
    return _sized(_CallId(), dims)


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
    if not len(sizes) == len(offsets) == len(strides):
        raise ValueError(
            f"grid: expected shape, offset and stride to be of one length, but got {sizes}, {offsets} and {strides}"
        )
    return _Grid(sizes, offsets, strides)


def wang_hash(dim: int = -1, seed: int = _SEED, warmup: int = 0, hash_seed: bool = True) -> Generator:
    """Random integers of 32 bits: Wang's hash of the element's number. `warmup`: how often that is hashed before."""
    return _sized(_WangHash(_seed_of("wang_hash", seed, hash_seed), warmup), dim)


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
    return _sized(_RandFloat(float(min), float(max), _seed_of("rand_float", seed, hash_seed), warmup), dim)


def _sized(generator: Generator, components: int) -> Generator:
    return generator if components < 0 else _Sized(generator, components)


def _seed_of(name: str, seed: int, hash_seed: bool) -> int:
    if not 0 <= seed <= _MASK:
        raise ValueError(f"{name}: expected seed to be within [0, {_MASK}], but got {seed}")
    return _hashed(seed) if hash_seed else seed


def _hashed(seed: int) -> int:
    seed = (seed ^ 61) ^ (seed >> 16)
    seed = seed * 9 & _MASK
    seed ^= seed >> 4
    seed = seed * 0x27D4EB2D & _MASK
    return seed ^ (seed >> 15)


def _check_at_most_three(what: str, components: int) -> None:
    if components > 3:
        raise ValueError(f"{what} has at most 3 components")
