"""A kernel as a Python function, and its launches and derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_slang._descriptor import Descriptor, describe
from torch_slang._library import _C
from torch_slang._packed import packing_of
from torch_slang.kernels.arguments import Arguments

__all__ = ["KINDS", "Kernel"]

# How the operators of a kernel are named, and what its descriptor calls them.
KINDS = {"": "forward", "_backward": "backward", "_launch": "launch", "_fwd": "fwd", "_bwd": "bwd"}

# The registrations of Kernel.register_autograd, by operator.
_AUTOGRAD_LIBRARIES: dict[str, torch.library.Library] = {}


class Kernel:
    """A kernel as a function: positional or keyword arguments in the order of the Slang source, outputs left out.

    Its launches (``_launch``, and of its derivatives ``_fwd`` and ``_bwd``) take the outputs too, and then
    ``block_size`` and ``grid_size``, of one to three numbers each; calling the kernel itself with ``launchBlockSize=``
    and ``launchGridSize=`` is a launch as well. ``_bwd`` and ``_fwd`` take pairs ``(value, gradient)`` for
    differentiable tensors: gradients are added to (those of stored elements taken and set to zero), tangents read and
    written. Its ``_backward`` takes what the operator of that name takes.

    A struct parameter takes a mapping, a named tuple or a tuple of its fields (or its fields under their flat names, as
    the operator has them); a differentiable scalar takes a number or a 0-dimensional tensor.
    """

    def __init__(
        self, handle: Any, about: Descriptor, suffix: str, retired: set[str], launch: Kernel | None = None
    ) -> None:
        name = about.name
        self.__name__ = name + suffix
        self._handle = handle
        self._base = name
        self._retired = retired
        self._launch = launch
        self._namespace = str(handle.namespace)
        self._operator = about.operators[KINDS[suffix]]
        self._arguments = Arguments(about, suffix, f"{self._namespace}::{self.__name__}")
        has_launch = self._arguments.is_launch and self._operator is not None
        # Of a launch: what reads usual arguments faster than `flatten`.
        self.launch_call = _C.LaunchCall(handle, name, suffix.removeprefix("_")) if has_launch else None
        self._packing = None if suffix == "_backward" else packing_of(about, KINDS[suffix])
        self._is_plain = (self._arguments.are_plain and self._packing is None) or suffix == "_backward"

    @property
    def op(self) -> Callable[..., Any]:
        """The operator ``torch.ops.<namespace>.<name>``."""
        if self._operator is None:
            reason = "output ([Out])" if self.__name__ == self._base else "derivative"
            raise RuntimeError(
                f"{self._namespace}::{self._base} has no {reason}, so there is no operator {self.__name__}; "
                f"there is {self._base}_launch"
            )
        packet = getattr(getattr(torch.ops, self._namespace), self._operator)
        operator: Callable[..., Any] = packet.default
        return operator

    @property
    def gradients(self) -> dict[str, str]:
        """Of a launch: what it calls the gradient (or tangent) of each argument that has one."""
        return self._arguments.gradients

    def flatten(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The operator's arguments by name, without calling it. Raises TypeError for an argument that does not fit."""
        return self._arguments.flatten(args, kwargs)

    def launch_flat(self, arguments: dict[str, Any], block_size: Sequence[int], grid_size: Sequence[int]) -> None:
        """Launches with the arguments that :meth:`flatten` returned for the kernel's own parameters."""
        self._call((), {**arguments, **dict(zip(self._arguments.extents, (block_size, grid_size), strict=True))})

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if "launchBlockSize" in kwargs and self._launch is not None:
            return self._launch(*args, **kwargs)
        if self._launched_at_once(args, kwargs):
            return None
        if not self._is_plain:
            args, kwargs = (), self._arguments.flatten(args, kwargs)
        return self._call(args, kwargs)

    def _launched_at_once(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Note [remembered launches] in csrc/python/launch_call.cpp."""
        if self.launch_call is None or self._base in self._retired or torch.compiler.is_dynamo_compiling():
            return False
        return self.launch_call.launch(args, kwargs)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Gives the operator of a kernel that is not [Differentiable] a backward made of other operators.

        The arguments are those of :func:`torch.library.register_autograd`: ``backward(ctx, *grads)`` returns a gradient
        or None for each argument of the operator, and ``setup_context(ctx, inputs, output)`` keeps what it needs. That
        backward is differentiable if its operators are. Another call replaces it. Raises RuntimeError for a kernel that
        has a derivative.
        """
        if describe(self._handle, self._base).operators["backward"] is not None:
            raise RuntimeError(f"{self._namespace}::{self._base} has a derivative of its own: it is [Differentiable]")
        name = self.op.name()  # type: ignore[attr-defined]
        if name in _AUTOGRAD_LIBRARIES:
            _AUTOGRAD_LIBRARIES.pop(name)._destroy()
        library = torch.library.Library(self._namespace, "FRAGMENT")
        with warnings.catch_warnings():  # the overridden kernel refuses tensors that require grad
            warnings.filterwarnings("ignore", message=".*[Oo]verrid", category=UserWarning)
            torch.library.register_autograd(name, backward, setup_context=setup_context, lib=library)
        _AUTOGRAD_LIBRARIES[name] = library

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._packing is not None:
            kwargs = self._packing.packed(kwargs, self._arguments.defaults, self._arguments.error)
        if self._base not in self._retired:
            return self.op(*args, **kwargs)
        with _C.Pin(self._handle, self._base):
            return self.op(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<torch_slang kernel {self._arguments}>"
