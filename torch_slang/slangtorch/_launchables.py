"""Kernels to call: with arguments they become launchables, as in slangtorch."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from torch_slang._descriptor import Descriptor
from torch_slang._module import Module, members_of
from torch_slang.kernels.kernel import Kernel
from torch_slang.slangtorch._types import ArgumentError, bare_memory, beside, no_tensor, plain_argument

Extent = tuple[int, int, int]

# Threads in x, y, z where the caller leaves the block to us: by the number of dimensions of the whole.
_BLOCKS: dict[int, Extent] = {1: (256, 1, 1), 2: (32, 8, 1), 3: (8, 8, 4)}


class Launchable:
    """A kernel with its arguments. Nothing runs before one of the launch functions is called."""

    __slots__ = ("_launch", "_name", "_was_launched")

    def __init__(self, name: str, launch: Callable[[Extent, Extent], bool]) -> None:
        self._name = name
        self._launch = launch  # gives False where the two are no sizes
        self._was_launched = False

    # The names of the arguments are slangtorch's.
    def launchRaw(self, blockSize: Extent, gridSize: Extent) -> None:
        """Launches a grid of so many blocks of so many threads, each in x, y, z."""
        self._was_launched = True
        if not self._launch(blockSize, gridSize):
            _check_extent("blockSize", blockSize)
            _check_extent("gridSize", gridSize)
            raise ValueError(f"{self._name}: expected sizes of 64 bits, but got {blockSize} and {gridSize}")

    def launchTotal(self, blockSize: Extent, totalSize: Extent) -> None:
        """Launches as many whole blocks as ``totalSize`` threads need; the surplus threads run too."""
        self._was_launched = True
        _check_extent("blockSize", blockSize)
        _check_extent("totalSize", totalSize)
        if min(blockSize) < 1:
            raise ValueError(f"{self._name}: expected blockSize to be positive, but got {blockSize}")
        if 0 in totalSize:
            return
        gx, gy, gz = (-(-total // block) for total, block in zip(totalSize, blockSize, strict=True))
        self.launchRaw(blockSize, (gx, gy, gz))

    def autoLaunch(self, totalSize: Extent) -> None:
        """Launches at least ``totalSize`` threads in blocks of a usual size."""
        self._was_launched = True
        _check_extent("totalSize", totalSize)
        dimensions = max((axis + 1 for axis in range(3) if totalSize[axis] != 1), default=1)
        self.launchTotal(_BLOCKS[dimensions], totalSize)

    def __del__(self) -> None:
        if not self._was_launched and not sys.is_finalizing():
            warnings.warn(
                f"{self._name} was given arguments but never launched: call launchRaw, launchTotal or autoLaunch",
                RuntimeWarning,
                stacklevel=2,
            )


class Function:
    """A kernel, or a derivative of one.

    ``kernel(x=x, y=y)`` or ``kernel(x, y)`` is a :class:`Launchable`. With the launch in front,
    ``kernel(block, grid, x, y)``, it is launched at once, as functions of slangtorch's raw modules are.
    """

    def __init__(
        self,
        kernel: Kernel,
        about: Descriptor,
        name: str,
        forward: Function | None = None,
        backward: Function | None = None,
    ) -> None:
        self.__name__ = name
        self._kernel = kernel
        self._parameters = {p.name: p for p in about.parameters}
        self._leaves = about.leaves
        self._views = {leaf.name: leaf for leaf in self._leaves if leaf.is_view}
        self._gradients = {gradient: name for name, gradient in kernel.gradients.items() if name in self._views}
        self._forward = forward
        self._backward = backward
        assert kernel.launch_call is not None
        self._call = kernel.launch_call

    @property
    def argnames(self) -> list[str]:
        """Names of the arguments, in order."""
        return list(self._parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Launchable | None:
        if len(args) >= 2 and len(args) + len(kwargs) == len(self._parameters) + 2:
            block, grid, *args_left = args
            if _is_extent(block) and _is_extent(grid):
                launchable = self(*args_left, **kwargs)
                assert launchable is not None
                launchable.launchRaw(block, grid)
                return None
        # Note [remembered launches] in csrc/python/launch_call.cpp
        prepared = None if torch.compiler.is_dynamo_compiling() else self._call.prepare(args, kwargs)
        if prepared is not None:
            return Launchable(self.__name__, prepared.launch)
        flat = self._flatten(args, kwargs)
        return Launchable(self.__name__, lambda block, grid: self._launch(flat, block, grid))

    def fwd(self, *args: Any, **kwargs: Any) -> Launchable | None:
        """The kernel's forward derivative; differentiable tensors are (value, tangent) pairs."""
        if self._forward is None:
            raise ValueError(f"{self.__name__} has no forward derivative: mark the kernel [Differentiable]")
        return self._forward(*args, **kwargs)

    def bwd(self, *args: Any, **kwargs: Any) -> Launchable | None:
        """The kernel's backward derivative; differentiable tensors are (value, gradient) pairs.

        Gradients of what the kernel loads are added to; those of what it stores are read, and leave zeros behind.
        """
        if self._backward is None:
            raise ValueError(f"{self.__name__} has no backward derivative: mark the kernel [Differentiable]")
        return self._backward(*args, **kwargs)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{p.name}: {p.type}" for p in self._parameters.values())
        return f"<slangtorch kernel {self.__name__}({arguments})>"

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = kwargs if not args and kwargs.keys() == self._parameters.keys() else self._by_name(args, kwargs)
        plain = {name: plain_argument(self._parameters[name], self._leaves, value) for name, value in given.items()}
        try:
            flat = self._kernel.flatten(**plain)
        except TypeError as error:
            raise ArgumentError(str(error)) from None
        for name, value in flat.items():
            if isinstance(value, torch.Tensor):
                is_memory = name in self._views or name in self._gradients
                flat[name] = bare_memory(self.__name__, name, value) if is_memory else value.detach()
            elif name in self._views:
                raise no_tensor(self.__name__, self._views[name].path, self._views[name].type, value)
            elif name in self._gradients and value is not None:
                leaf = self._views[self._gradients[name]]
                raise no_tensor(self.__name__, f"the gradient of {leaf.path}", leaf.type, value)
        for gradient, name in self._gradients.items():
            if flat.get(gradient) is not None and flat[gradient].shape != flat[name].shape:
                flat[gradient] = beside(flat[name], flat[gradient], len(self._views[name].element_shape))
        return flat

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = self.argnames
        if len(args) > len(names):
            raise ArgumentError(f"{self.__name__}: expected at most {len(names)} arguments, but got {len(args)}")
        given = dict(zip(names, args, strict=False))
        twice = [name for name in given if name in kwargs]
        if twice:
            raise ArgumentError(f"{self.__name__}: got two values for {', '.join(twice)}")
        given.update(kwargs)
        unknown = [name for name in given if name not in self._parameters]
        if unknown:
            raise ArgumentError(f"{self.__name__} has no argument {', '.join(unknown)}; it has {', '.join(names)}")
        missing = [name for name in names if name not in given and not self._has_default(name)]
        if missing:
            raise ArgumentError(f"{self.__name__}: missing {', '.join(missing)}; it has {', '.join(names)}")
        return given

    def _has_default(self, name: str) -> bool:
        leaf = self._parameters[name].leaf
        return leaf >= 0 and self._leaves[leaf].default is not None

    def _launch(self, flat: dict[str, Any], block: Extent, grid: Extent) -> bool:
        if not (_is_extent(block) and _is_extent(grid)):
            return False
        # slangtorch wants gradients in float32 whatever the values are: where they are, the kernel gets a copy.
        copies = {
            gradient: tensor.to(flat[name].dtype)
            for gradient, name in self._gradients.items()
            if (tensor := flat.get(gradient)) is not None
            and tensor.dtype == torch.float32
            and flat[name].dtype != torch.float32
        }
        self._kernel.launch_flat({**flat, **copies}, block, grid)
        for gradient, copy in copies.items():
            flat[gradient].copy_(copy)
        return True


def functions_of(module: Module, name: str, about: Descriptor) -> dict[str, Function]:
    """The kernel under its name, and its derivatives under those that slangtorch's raw modules give them."""
    kernels = members_of(module).kernels
    functions: dict[str, Function] = {}
    for operator, raw in ((about.operators["fwd"], "_fwd_diff"), (about.operators["bwd"], "_bwd_diff")):
        if operator is not None:
            functions[name + raw] = Function(kernels[operator], about, name + raw)
    launch = about.operators["launch"]
    assert launch is not None
    functions[name] = Function(
        kernels[launch],
        about,
        name,
        functions.get(name + "_fwd_diff"),
        functions.get(name + "_bwd_diff"),
    )
    return functions


def _is_extent(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(type(size) is int for size in value)


def _check_extent(what: str, value: Any) -> None:
    if not _is_extent(value):
        raise ValueError(f"expected {what} to be a tuple of 3 integers, but got {value!r}")
