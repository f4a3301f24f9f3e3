"""What :func:`torch_slang.load` returns: a module whose attributes are its kernels and functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from torch_slang._arguments import Arguments
from torch_slang._explain import Explanation, explanation
from torch_slang._function import Function
from torch_slang._host_function import HostFunction
from torch_slang._library import _C

# How the operators of a kernel are named, and what `describe` calls them.
_KINDS = {"": "forward", "_backward": "backward", "_launch": "launch", "_fwd": "fwd", "_bwd": "bwd"}
_SUFFIXES = tuple(suffix for suffix in _KINDS if suffix)


# What holds the registrations of Kernel.register_autograd, by operator.
_AUTOGRAD_LIBRARIES: dict[str, torch.library.Library] = {}


class FunctionInfo(NamedTuple):
    """What a kernel or function takes, and which derivatives it has: names of launches (of a function, of an operator),
    or None."""

    name: str
    arguments: tuple[str, ...]
    types: tuple[str, ...]
    forward_derivative: str | None
    backward_derivative: str | None


class Module:
    """The kernels and functions of one loaded Slang module, as attributes.

    They stay bound to the Program that this load made, whatever a later load puts behind ``torch.ops``.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._names: tuple[str, ...] = tuple(handle.operators())
        self._kernels: dict[str, Kernel] = {}
        self._host_names: frozenset[str] = frozenset(handle.host_functions())
        self._host_functions: dict[str, HostFunction] = {}
        self._retired: set[str] = set()  # names that a later load took
        # Made here and not at first use, which may stand in a function that torch.compile traces.
        for name in self._names:
            self._make(name)
        self._functions = {name: Function(handle, name, self._retired) for name in handle.functions()}
        for name, member in (self._functions | self._kernels).items():
            if not hasattr(Module, name):
                vars(self).setdefault(name, member)  # found without __getattr__, which takes its time

    @property
    def namespace(self) -> str:
        """Where the operators are: ``torch.ops.<namespace>``."""
        return str(self._handle.namespace)

    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that are operators."""
        return self._names

    def functions(self) -> tuple[str, ...]:
        """Names of the plain functions, which are operators once they are used."""
        return tuple(self._functions)

    def funcinfo(self, name: str) -> FunctionInfo:
        """Argument names and types as written in Slang, and the derivatives' names (None if absent).

        A derivative may be asked about as well (``"sqr_bwd"``): it has the kernel's arguments and no derivatives here.
        """
        base, suffix = self._split(name)
        about = self._handle.describe(base)
        if suffix and about[_KINDS[suffix]] is None:
            raise AttributeError(f"{self.namespace}::{base} has no operator {name}")
        return FunctionInfo(
            name=name,
            arguments=tuple(parameter["name"] for parameter in about["parameters"]),
            types=tuple(parameter["type"] for parameter in about["parameters"]),
            forward_derivative=None if suffix else about["fwd"],
            backward_derivative=None if suffix else about["backward" if base in self._functions else "bwd"],
        )

    def explain(self, name: str) -> Explanation:
        """What was made of a kernel or function: for each compiled kernel its virtual threads, registers and bytes, and
        for each gradient whether it needs atomics, and which statements force them.

        Kernels are compiled when they are first called, so call it before. ``print(module.explain("sqr"))``.
        """
        return explanation(self._handle.kernels(self._split(name)[0]))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        kernel = self._kernels.get(name)
        if kernel is not None:
            return kernel
        if name in self._functions:
            return self._functions[name]
        if name in self._host_names:
            return self._host_function(name)
        try:
            return Kernel(self._handle, *self._split(name), self._retired)  # there is none: an error that says why
        except RuntimeError as error:
            raise AttributeError(str(error)) from None

    def _make(self, name: str) -> None:
        launch = Kernel(self._handle, name, "_launch", self._retired)
        self._kernels[name] = Kernel(self._handle, name, "", self._retired, launch)
        family = {
            suffix: Kernel(self._handle, name, suffix, self._retired) for suffix in _SUFFIXES if suffix != "_launch"
        }
        for suffix, kernel in {**family, "_launch": launch}.items():
            if name + suffix not in self._names:
                self._kernels[name + suffix] = kernel

    def _split(self, name: str) -> tuple[str, str]:
        """The kernel and the suffix of an operator's name; a kernel's own name goes first."""
        if name not in self._names:
            for suffix in _SUFFIXES:
                if name.endswith(suffix) and name.removesuffix(suffix) in self._names:
                    return name.removesuffix(suffix), suffix
        return name, ""

    def _host_function(self, name: str) -> HostFunction:
        if name not in self._host_functions:
            self._host_functions[name] = HostFunction(self._handle, name)
        return self._host_functions[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names, *self._functions, *self._host_names]

    def __repr__(self) -> str:
        return f"<torch_slang.Module {self.namespace}: {', '.join((*self._names, *self._functions))}>"

    def _retire(self, name: str) -> None:
        """The global name now runs another Program: the callables here must not go through it unpinned."""
        self._retired.add(name)


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

    def __init__(self, handle: Any, name: str, suffix: str, retired: set[str], launch: Kernel | None = None) -> None:
        about = handle.describe(name)
        self.__name__ = name + suffix
        self._handle = handle
        self._base = name
        self._retired = retired
        self._launch = launch
        self._namespace = str(handle.namespace)
        self._exists = about[_KINDS[suffix]] is not None
        self._arguments = Arguments(about, suffix, f"{self._namespace}::{self.__name__}")
        self._is_plain = self._arguments.are_plain or suffix == "_backward"

    @property
    def op(self) -> Callable[..., Any]:
        """The operator ``torch.ops.<namespace>.<name>``."""
        if not self._exists:
            reason = "output ([Out])" if self.__name__ == self._base else "derivative"
            raise RuntimeError(
                f"{self._namespace}::{self._base} has no {reason}, so there is no operator {self.__name__}; "
                f"there is {self._base}_launch"
            )
        packet = getattr(getattr(torch.ops, self._namespace), self.__name__)
        operator: Callable[..., Any] = packet.default
        return operator

    @property
    def gradients(self) -> dict[str, str]:
        """Of a launch: what it calls the gradient (or tangent) of each argument that has one."""
        return self._arguments.gradients

    def flatten(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The operator's arguments by name, without calling it. Raises TypeError for what does not fit."""
        return self._arguments.flatten(args, kwargs)

    def launch_flat(self, arguments: dict[str, Any], block_size: Sequence[int], grid_size: Sequence[int]) -> None:
        """Launches with what :meth:`flatten` gave for the kernel's own parameters."""
        self._call((), {**arguments, **dict(zip(self._arguments.extents, (block_size, grid_size), strict=True))})

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if "launchBlockSize" in kwargs and self._launch is not None:
            return self._launch(*args, **kwargs)
        if not self._is_plain:
            args, kwargs = (), self._arguments.flatten(args, kwargs)
        return self._call(args, kwargs)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Gives the operator of a kernel that is not [Differentiable] a backward made of other operators.

        The arguments are those of :func:`torch.library.register_autograd`: ``backward(ctx, *grads)`` returns a gradient
        or None for each argument of the operator, and ``setup_context(ctx, inputs, output)`` keeps what it needs. That
        backward is differentiable if its operators are. Another call replaces it. Raises RuntimeError for a kernel that
        has a derivative.
        """
        if self._handle.describe(self._base)["backward"] is not None:
            raise RuntimeError(f"{self._namespace}::{self._base} has a derivative of its own: it is [Differentiable]")
        name = self.op.name()  # type: ignore[attr-defined]
        if name in _AUTOGRAD_LIBRARIES:
            _AUTOGRAD_LIBRARIES.pop(name)._destroy()
        library = torch.library.Library(self._namespace, "FRAGMENT")
        with warnings.catch_warnings():  # what is overridden is the kernel that refuses tensors that require grad
            warnings.filterwarnings("ignore", message=".*[Oo]verrid", category=UserWarning)
            torch.library.register_autograd(name, backward, setup_context=setup_context, lib=library)
        _AUTOGRAD_LIBRARIES[name] = library

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._base not in self._retired:
            return self.op(*args, **kwargs)
        with _C.Pin(self._handle, self._base):
            return self.op(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<torch_slang kernel {self._arguments}>"
