"""What :func:`torch_slang.load` returns: a module whose attributes are its kernels and functions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from torch_slang._arguments import Arguments
from torch_slang._descriptor import Descriptor, describe
from torch_slang._explain import Explanation, explanation
from torch_slang._function import Function
from torch_slang._function_instance import usual_name
from torch_slang._function_overloads import OverloadedFunction
from torch_slang._host_function import HostFunction
from torch_slang._library import _C
from torch_slang._packed import packing_of

# How the operators of a kernel are named, and what `describe` calls them.
_KINDS = {"": "forward", "_backward": "backward", "_launch": "launch", "_fwd": "fwd", "_bwd": "bwd"}
_SUFFIXES = tuple(suffix for suffix in _KINDS if suffix)


# The registrations of Kernel.register_autograd, by operator.
_AUTOGRAD_LIBRARIES: dict[str, torch.library.Library] = {}


class FunctionInfo(NamedTuple):
    """The arguments of a kernel or function, and its derivatives: names of launches (of a function, of an operator),
    or None."""

    name: str
    arguments: tuple[str, ...]
    types: tuple[str, ...]
    forward_derivative: str | None
    backward_derivative: str | None


class Module:
    """The kernels and functions of one loaded Slang module, as attributes.

    They stay bound to the Program that this load made, whatever a later load puts behind ``torch.ops``. A kernel or
    function that has the name of a method here goes first: ``Module.explain(module, "sqr")`` is the method then.
    """

    namespace: str  # where the operators are: torch.ops.<namespace>

    def __init__(self, handle: Any, earlier: Module | None = None) -> None:
        """`earlier`: the load of the same module that this one replaces."""
        members = _Members(handle, None if earlier is None else members_of(earlier))
        vars(self)[_MEMBERS] = members
        self.namespace = str(handle.namespace)
        self._handle = handle
        # Found without __getattr__, which takes its time.
        vars(self).update(members.functions | members.overloads | members.kernels)

    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that are operators."""
        return members_of(self).names

    def slang_version(self) -> str:
        """Of the Slang compiler that made its texts, such as ``"2026.12"``."""
        return str(self._handle.slang_version)

    def functions(self) -> tuple[str, ...]:
        """Names of the plain functions, which are operators once they are used."""
        return tuple(members_of(self).functions)

    def require_function(self, name: str) -> Function | OverloadedFunction:
        """The plain function of that name. Raises ValueError where there is none.

        Generic arguments may be given: ``module.require_function("copy_vector<4>")``. Types are Slang's; arguments that
        are left out follow from the tensors.
        """
        members = members_of(self)
        if "<" in name:
            return members.instance(name)
        found = members.overloads.get(name) or members.functions.get(name)
        if found is None:
            raise ValueError(f"torch_slang: there is no function {name}: {self!r}")
        return found

    def funcinfo(self, name: str) -> FunctionInfo:
        """Argument names and types as written in Slang, and the derivatives' names (None if absent).

        A derivative may be asked about as well (``"sqr_bwd"``): it has the kernel's arguments and no derivatives here.
        """
        members = members_of(self)
        base, suffix = members.split(name)
        about = describe(members.handle, base)
        if suffix and about.operators[_KINDS[suffix]] is None:
            raise AttributeError(f"{members.handle.namespace}::{base} has no operator {name}")
        return FunctionInfo(
            name=name,
            arguments=tuple(parameter.name for parameter in about.parameters),
            types=tuple(parameter.type for parameter in about.parameters),
            forward_derivative=None if suffix else about.operators["fwd"],
            backward_derivative=None if suffix else about.operators["backward" if base in members.functions else "bwd"],
        )

    def explain(self, name: str) -> Explanation:
        """How a kernel or function was compiled: for each compiled kernel its virtual threads, registers and bytes, and
        for each gradient whether it needs atomics, and which statements force them. And what audits found of its
        derivatives (:mod:`torch_slang.audit`).

        Kernels are compiled when they are first called, so call it before. ``print(module.explain("sqr"))``.
        """
        members = members_of(self)
        names = [members.split(name)[0]]
        if name in members.functions:
            names += members.functions[name].generating_operators()
        kernels = [kernel for one in names for kernel in members.handle.kernels(one)]
        return explanation(kernels, [audit for one in names for audit in members.handle.audits(one)])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        members = members_of(self)
        if name in members.host_names:
            return members.host_function(name)
        if "<" in name:
            return members.instance(name)
        try:  # there is none: an error that says why
            base, suffix = members.split(name)
            return Kernel(members.handle, describe(members.handle, base), suffix, members.retired)
        except RuntimeError as error:
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        members = members_of(self)
        return [*super().__dir__(), *members.names, *members.functions, *members.host_names]

    def __repr__(self) -> str:
        members = members_of(self)
        names = ", ".join((*members.names, *members.functions))
        return f"<torch_slang.Module {members.handle.namespace}: {names}>"


_MEMBERS = " members"  # among a module's attributes: no name in Slang has a space


def members_of(module: Module) -> _Members:
    """The members of a module, whatever its kernels are called."""
    members: _Members = vars(module)[_MEMBERS]
    return members


class _Members:
    """The kernels, functions and host functions of a module, by name."""

    def __init__(self, handle: Any, earlier: _Members | None) -> None:
        self.handle = handle
        self.names: tuple[str, ...] = tuple(handle.operators())
        self.kernels: dict[str, Kernel] = {}  # and their launches and derivatives
        self.host_names: frozenset[str] = frozenset(handle.host_functions())
        self.retired: set[str] = set()  # names that a later load took: callables must not go through those unpinned
        # The retired names of each load of this module that has callables left, shared by all of them.
        self.loads: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary() if earlier is None else earlier.loads
        self._split: dict[str, tuple[str, str]] = {}
        self._host_functions: dict[str, HostFunction] = {}
        # Made here and not at first use, which may stand in a function that torch.compile traces.
        for name in self.names:
            self._make(name)
        self.functions = {name: Function(handle, name, self.retired) for name in handle.functions()}
        self.overloads = {
            name: OverloadedFunction(name, [self.functions[one] for one in names])
            for name, names in handle.overloads().items()
        }
        self._instances: dict[str, Function | OverloadedFunction] = {}
        for retired in self.loads.values():
            retired.update((*self.names, *self.functions))
        self.loads[handle] = self.retired

    def split(self, name: str) -> tuple[str, str]:
        """The kernel and the suffix of an operator's name; a kernel's own name goes first."""
        return self._split.get(name, (name, ""))

    def callees(self) -> dict[str, Kernel | Function]:
        """The kernels and plain functions, by name."""
        return {**{name: self.kernels[name] for name in self.names}, **self.functions}

    def host_function(self, name: str) -> HostFunction:
        if name not in self._host_functions:
            self._host_functions[name] = HostFunction(self.handle, name)
        return self._host_functions[name]

    def instance(self, written: str) -> Function | OverloadedFunction:
        """The generic function with the arguments that stand behind its name: "copy<float, 4>"."""
        if written in self._instances:
            return self._instances[written]
        name, _, rest = written.partition("<")
        items = [item.strip() for item in rest.rstrip().removesuffix(">").split(",")]
        sizes = [int(item) for item in items if re.fullmatch(r"-?\d+", item)]
        types = [usual_name(item) for item in items if not re.fullmatch(r"-?\d+", item)]
        overloaded = self.overloads.get(name)
        names = [name] if overloaded is None else [one.__name__ for one in overloaded.candidates]
        functions, reasons = [], []
        for one in names:
            try:
                name = self.handle.instantiate(one, types, sizes)
                functions.append(Function(self.handle, name, self.retired, one, (tuple(types), tuple(sizes))))
            except RuntimeError as reason:
                reasons.append(str(reason))
        if not functions:
            raise ValueError(f"torch_slang: there is no function {written}: " + "; ".join(reasons))
        found = functions[0] if len(functions) == 1 else OverloadedFunction(written, functions)
        self._instances[written] = found
        return found

    def _make(self, name: str) -> None:
        about = describe(self.handle, name)
        launch = Kernel(self.handle, about, "_launch", self.retired)
        self._keep(name, name, "", Kernel(self.handle, about, "", self.retired, launch))
        for suffix in _SUFFIXES:
            kernel = launch if suffix == "_launch" else Kernel(self.handle, about, suffix, self.retired)
            called = (
                about.operators[_KINDS[suffix]] or name + suffix
            )  # an operator leaves its name to a kernel that has it
            if called not in self.names:
                self._keep(called, name, suffix, kernel)

    def _keep(self, called: str, name: str, suffix: str, kernel: Kernel) -> None:
        self.kernels[called] = kernel
        self._split[called] = (name, suffix)


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
        self._operator = about.operators[_KINDS[suffix]]
        self._arguments = Arguments(about, suffix, f"{self._namespace}::{self.__name__}")
        has_launch = self._arguments.is_launch and self._operator is not None
        # Of a launch: what reads usual arguments faster than `flatten`.
        self.launch_call = _C.LaunchCall(handle, name, suffix.removeprefix("_")) if has_launch else None
        self._packing = None if suffix == "_backward" else packing_of(about, _KINDS[suffix])
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
