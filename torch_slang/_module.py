"""What :func:`torch_slang.load` returns: a module whose attributes are its kernels and functions."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from torch_slang._descriptor import describe
from torch_slang._explain import Explanation, explanation
from torch_slang.functions.function import Function
from torch_slang.functions.instance import usual_name
from torch_slang.functions.overloads import OverloadedFunction
from torch_slang.kernels.host_function import HostFunction
from torch_slang.kernels.kernel import KINDS, Kernel


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
        if suffix and about.operators[KINDS[suffix]] is None:
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
        for suffix, kind in KINDS.items():
            if not suffix:
                continue
            kernel = launch if suffix == "_launch" else Kernel(self.handle, about, suffix, self.retired)
            called = about.operators[kind] or name + suffix
            if called not in self.names:  # an operator leaves its name to a kernel that has it
                self._keep(called, name, suffix, kernel)

    def _keep(self, called: str, name: str, suffix: str, kernel: Kernel) -> None:
        self.kernels[called] = kernel
        self._split[called] = (name, suffix)
