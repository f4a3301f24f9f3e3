"""Arguments of plain functions that are made for each element of a call, as SlangPy has them.

``module.noise(torch_slang.generators.rand_float(seed=7), x)`` gives each element a number of its own, the same for the
same seed and place. Generators are constants: they have no gradient, and the backward sees what the forward saw. They
are computed as tensors beside the call, by operations that torch.compile and vmap see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import TypeVar

import torch
from torch import Tensor

__all__ = ["Generator", "call_id", "grid", "rand_float", "thread_id", "wang_hash"]

_SEED = 2640457667
_Bits = TypeVar("_Bits", int, Tensor)

_MASK = 0xFFFFFFFF  # numbers of 32 bits are computed in 64


class Generator(ABC):
    """What stands for an argument whose values follow from the place in the call."""

    takes_floats = False
    counts_backwards = False  # components of vectors begin with the last dimension, those of arrays with the first

    def own_shape(self) -> tuple[int, ...]:
        """What the call's shape must broadcast with."""
        return ()

    @abstractmethod
    def values(self, shape: Sequence[int], components: int | None, device: torch.device) -> Tensor:
        """For each element of a call a number, or where `components` says so a list of them, in the last dimension.

        Raises ValueError for numbers of components that it has not.
        """


class _CallId(Generator):
    counts_backwards = True

    def values(self, shape: Sequence[int], components: int | None, device: torch.device) -> Tensor:
        rank = len(shape)
        if components not in {rank, rank + 1} and not (components is None and rank == 1):
            raise ValueError(f"call_id() has a number for each of the call's {rank} dimensions")
        ids = [_along(shape, dimension, torch.arange(shape[dimension], device=device)) for dimension in range(rank)]
        if components is None:
            return ids[0]
        zeros = [torch.zeros(shape, dtype=torch.int64, device=device)] * (components - rank)
        return torch.stack([*zeros, *ids], -1)


class _Grid(Generator):
    counts_backwards = True

    def __init__(self, shape: tuple[int, ...], offset: tuple[int, ...], stride: tuple[int, ...]) -> None:
        self._shape, self._offset, self._stride = shape, offset, stride

    def own_shape(self) -> tuple[int, ...]:
        return tuple(1 if size < 0 else size for size in self._shape)

    def values(self, shape: Sequence[int], components: int | None, device: torch.device) -> Tensor:
        rank = len(self._shape)
        if components != rank and not (components is None and rank == 1):
            raise ValueError(f"this grid has {rank} dimensions")
        inner = shape[len(shape) - rank :]
        places = [
            _along(inner, d, torch.arange(inner[d], device=device) * self._stride[d] + self._offset[d])
            for d in range(rank)
        ]
        return places[0] if components is None else torch.stack(places, -1)


class _ThreadId(Generator):
    def values(self, shape: Sequence[int], components: int | None, device: torch.device) -> Tensor:
        threads = _threads(shape, device)
        if components is None:
            return threads
        _check_at_most_three("thread_id()", components)
        return torch.stack([threads] + [torch.zeros_like(threads)] * (components - 1), -1)


class _WangHash(Generator):
    def __init__(self, seed: int, warmup: int) -> None:
        self._seed, self._warmup = seed, warmup

    def values(self, shape: Sequence[int], components: int | None, device: torch.device) -> Tensor:
        hashes = _threads(shape, device)
        if components is not None:
            _check_at_most_three("a random generator", components)
            hashes = hashes * components & _MASK  # so that neighbours do not share components
        for _ in range(self._warmup):
            hashes = _hashed(hashes)
        hashes = _hashed(hashes ^ self._seed)
        if components is None:
            return hashes
        chain = [hashes]
        for _ in range(components - 1):
            chain.append(_hashed(chain[-1]))
        return torch.stack(chain, -1)


class _RandFloat(_WangHash):
    takes_floats = True

    def __init__(self, low: float, high: float, seed: int, warmup: int) -> None:
        super().__init__(seed, warmup)
        self._low, self._high = low, high

    def values(self, shape: Sequence[int], components: int | None, device: torch.device) -> Tensor:
        bits = super().values(shape, components, device) & 0x7FFFFF
        fraction = bits.to(torch.float32) / 0x800000
        return self._low * (1 - fraction) + self._high * fraction


class _Sized(Generator):
    """A generator that wants so many components."""

    def __init__(self, inner: Generator, components: int) -> None:
        self._inner, self._components = inner, components
        self.takes_floats = inner.takes_floats
        self.counts_backwards = inner.counts_backwards

    def values(self, shape: Sequence[int], components: int | None, device: torch.device) -> Tensor:
        if (components or 1) != self._components:
            raise ValueError(f"the generator was to have {self._components} components")
        return self._inner.values(shape, components, device)


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
    return int(_hashed(seed)) if hash_seed else seed


def _hashed(seed: _Bits) -> _Bits:
    seed = (seed ^ 61) ^ (seed >> 16)
    seed = seed * 9 & _MASK
    seed ^= seed >> 4
    seed = seed * 0x27D4EB2D & _MASK
    return seed ^ (seed >> 15)


def _threads(shape: Sequence[int], device: torch.device) -> Tensor:
    return torch.arange(prod(shape), device=device).reshape(tuple(shape))


def _along(shape: Sequence[int], dimension: int, numbers: Tensor) -> Tensor:
    ones = [1] * (len(shape) - 1 - dimension)
    return numbers.reshape(-1, *ones).expand(tuple(shape))


def _check_at_most_three(what: str, components: int) -> None:
    if components > 3:
        raise ValueError(f"{what} has at most 3 components")
