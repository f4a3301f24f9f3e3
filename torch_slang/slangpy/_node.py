"""A function as SlangPy has it: its settings are made step by step, and calls write into their arguments."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from torch_slang._library import CompileError
from torch_slang._numbers import EXACT_NUMBERS
from torch_slang.functions.arguments import FunctionArguments
from torch_slang.functions.function import Function
from torch_slang.functions.instance import short_name
from torch_slang.functions.leaf import Tree
from torch_slang.functions.overloads import OverloadedFunction
from torch_slang.functions.results import is_array_type, is_tensor_type
from torch_slang.functions.variant import FunctionVariant
from torch_slang.generators import Generator, grid
from torch_slang.slangpy._refused import refuse
from torch_slang.slangpy._tensor import Tensor
from torch_slang.slangpy._values import MATRICES, VECTORS, DiffPair, Packed, ValueRef
from torch_slang.slangpy._whole import as_constants, call_over, has_tensors, leaves_written
from torch_slang.slangpy._written import Writer, kept_for_backward

if TYPE_CHECKING:
    from torch_slang.slangpy._module import Module

__all__ = ["FunctionNode"]


_REFUSED = {
    "write": "takes shader cursors, which there are none of: pass arguments",
    "append_to": "takes a command encoder, which there is none of: call the function",
    "cuda_stream": "is PyTorch's to choose: use torch.cuda.stream",
    "prelude": "puts text before generated kernels: write it into the module",
    "type_conformances": "is for dynamic dispatch, which operators have none of: use generics",
    "ray_tracing": "belongs to graphics pipelines",
}


class FunctionNode:
    """A function of a module. Methods that set something give a new one.

    Calls go as those of :class:`torch_slang.Function`, but ``inout`` parameters are written into, and a call of numbers
    alone gives numbers: SlangPy's vectors, dictionaries for structs.
    """

    def __init__(self, module: Module, function: Function | OverloadedFunction, wanted: str = "") -> None:
        self.module = module
        self._function = self._generic = function
        self._wanted = wanted or function.__name__  # as require_function takes it
        self._map: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), {})
        self._result: Any = None
        self._this: Any = None
        self._plain: bool | None = None

    @property
    def name(self) -> str:
        """As Slang has it."""
        return self._function.__name__

    def map(self, *args: Any, **kwargs: Any) -> FunctionNode:
        """Which dimension of the call each dimension of an argument goes along: :meth:`torch_slang.Function.map`.

        A type stands for its name.
        """
        names = (tuple(map(_type_name, args)), {name: _type_name(value) for name, value in kwargs.items()})
        node = self._with(_map=names, _function=self._generic.with_types(*names))
        node._variant()  # soon, for its errors
        return node

    def return_type(self, return_type: Any) -> FunctionNode:
        """What results are: ``"numpy"``, ``"tensor"``, or their types."""
        kind = _result_kind(return_type)
        self._function.check_return_type(kind)
        return self._with(_result=kind)

    def bind(self, this: Any) -> FunctionNode:
        """A method with its instance: a struct's fields, or what has them as ``get_this()``."""
        return self._with(_this=this)

    def set(self, *args: Any, **kwargs: Any) -> FunctionNode:
        """The function with values for the module's ``uniform`` numbers and vectors, by name or in one dictionary.

        Each set of values is a compilation of its own: what changes often should be a parameter.
        """
        if len(args) > 1 or (args and kwargs) or (args and not isinstance(args[0], Mapping)) or not (args or kwargs):
            raise ValueError(
                "slangpy: set takes either names with values, or one dictionary of them, which are compiled into the "
                "function"
            )
        return self._of(self.module.with_uniforms(args[0] if args else kwargs))

    def constants(self, constants: Mapping[str, Any]) -> FunctionNode:
        """The function with values for the module's ``extern static const`` numbers and vectors."""
        return self._of(self.module.with_constants(constants))

    @property
    def bwds(self) -> Callable[..., None]:
        """The backward as a function: it reads the gradient of ``_result`` and adds to those of the arguments."""
        return _Backward(self)

    def as_func(self) -> FunctionNode:
        """The function itself, for programs that tell functions from structs."""
        return self

    def as_struct(self) -> Any:
        raise ValueError(f"slangpy: {self.name} is a function, no struct")

    def thread_group_size(self, thread_group_size: Any) -> FunctionNode:
        """The function itself: the run-time chooses its launch."""
        del thread_group_size
        return self

    call_group_shape = thread_group_size

    def __getattr__(self, name: str) -> Any:
        """What functions have in SlangPy and not here: it says why once it is called."""
        if name not in _REFUSED:
            raise AttributeError(f"slangpy: a function has no {name}")
        return lambda *_, **__: refuse(name, _REFUSED[name])

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    def dispatch(self, thread_count: Any, vars: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Runs the function for each thread of a grid of (x, y, z). Its ``uint3`` parameter is the thread's place."""
        if vars:
            return self.set(vars).dispatch(thread_count, **kwargs)
        given = thread_count.tolist() if hasattr(thread_count, "tolist") else thread_count
        counts = [int(count) for count in given] if isinstance(given, Sequence) else [int(given)]
        counts += [1] * (3 - len(counts))
        if len(counts) > 3 or min(counts) < 0:
            raise ValueError(f"slangpy: dispatch: expected thread_count to be up to 3 sizes, but got {thread_count!r}")
        arguments = self._function.candidates[0].arguments
        places = [
            name
            for name, tree in zip(arguments.names, arguments.trees, strict=True)
            if tree.type in {"uint3", "vector<uint,3>"} and name not in kwargs
        ]
        if len(places) != 1:
            raise TypeError(
                f"slangpy: dispatch wants {arguments} to have one uint3 that is not given, but it has {len(places)}"
            )
        self(**kwargs, **{places[0]: grid(counts[::-1])})
        return None

    def __call__(self, *args: Any, _result: Any = None, **kwargs: Any) -> Any:
        try:
            if _result is None and self._is_plain() and _are_tensors_and_numbers(args, kwargs.values()):
                return self._function(*args, **kwargs)
            return self._call(args, kwargs, _result)
        except CompileError as error:
            raise self._with_hint(error) from None

    def _with_hint(self, error: CompileError) -> CompileError:
        """An error about uniforms that have no value says how they get one."""
        found = re.search(r"it uses one of the shader parameters ([\w, ]+), but", str(error))
        if found is None:
            return error
        own = [name for name in self.module.uniform_names() if name in found[1].split(", ")]
        how = (
            f"function.set({{{own[0]!r}: ...}})(...)"
            if own
            else "those of the module's own file, of which this has none"
        )
        return CompileError(f"{error}\nslangpy: uniforms get their values by set: {how}")

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], _result: Any) -> Any:
        function, given, outputs = self._chosen(args, kwargs)
        into = self._result if _result is None else _result_kind(_result)
        if function.arguments.written or any(isinstance(value, ValueRef) for value in outputs.values()):
            return self._write(function, given, outputs, self._originals(function.arguments, args, kwargs), into)
        plain = {name: _plain(value) for name, value in outputs.items()}
        variant = self._variant(function)
        if has_tensors(function.arguments):
            with leaves_written(function.arguments, given):
                result = call_over(
                    function.arguments,
                    as_constants(function.arguments, given),
                    lambda given: variant(**given, **plain, _result=_plain(into)),
                )
        else:
            result = variant(**given, **plain, _result=_plain(into))
        if into is not None or outputs:
            return result
        if _has_shape(given.values()):
            is_number = not _has_shape((*args, *kwargs.values())) and _is_constant_number(result)
            return result.item() if is_number else result
        return _python_value(function.results.tree, result)

    def _write(
        self,
        function: Function,
        given: Mapping[str, Any],
        outputs: Mapping[str, Any],
        originals: Mapping[str, Any],
        into: Any,
    ) -> Any:
        """Calls, writes results of `inout` and `out` parameters into the given arguments, and returns the others."""
        arguments = function.arguments
        variant = self._variant(function)
        results = function.results.by_name(variant(**kept_for_backward(arguments, given)))
        writer = Writer(arguments, variant.map_of(function))
        for name in arguments.written:
            writer.add(name, originals[name], results.pop(name))
        for name, target in outputs.items():
            writer.add(name, target, results.pop(name))
        left = results["result"] if list(results) == ["result"] else results
        is_written = bool(results) and not (into is None or is_tensor_type(into) or is_array_type(into))
        if is_written:
            writer.add("_result", into, left)
        writer.write()
        if hasattr(self._this, "update_this"):
            self._this.update_this(originals["this"])
        if not results:
            return None
        if is_array_type(into) and isinstance(left, torch.Tensor):
            return left.numpy(force=True)
        return into if is_written else left

    def _is_plain(self) -> bool:
        """Whether nothing is set, and nothing written."""
        if self._plain is None:
            is_one = (
                isinstance(self._function, Function) and self._map == ((), {}) and self._result is self._this is None
            )
            arguments = self._function.candidates[0].arguments
            vars(self)["_plain"] = (
                is_one and not arguments.written and not arguments.outputs and not has_tensors(arguments)
            )
        return bool(self._plain)

    def _chosen(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Function, dict[str, Any], dict[str, Any]]:
        """The function, its arguments by name as it takes them, and the given arguments of `out` parameters."""
        if self._this is not None:
            args = (self._this, *args)
        plain = tuple(map(_plain, args)), {name: _plain(value) for name, value in kwargs.items()}
        function = self._function.choose(*plain, self._variant().map_of)
        arguments = function.arguments
        inputs, named, _ = arguments.split(*plain)
        _, _, outputs = arguments.split(args, kwargs)
        return function, {**dict(zip(arguments.names, inputs, strict=False)), **named}, outputs

    def _originals(
        self, arguments: FunctionArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The given argument of each input, unchanged."""
        if self._this is not None:
            args = (self._this, *args)
        inputs, named, _ = arguments.split(args, kwargs)
        given = {**dict(zip(arguments.names, inputs, strict=False)), **named}
        return {name: _fields(value) for name, value in given.items()}

    def _variant(self, function: Function | None = None) -> FunctionVariant:
        return FunctionVariant(function or self._function, *self._map)

    def _of(self, module: Module) -> FunctionNode:
        generic = module.require_function(self._wanted)._generic
        return self._with(module=module, _generic=generic, _function=generic.with_types(*self._map))

    def _with(self, **changes: Any) -> FunctionNode:
        node = copy.copy(self)
        vars(node).update(changes, _plain=None)
        return node

    def __repr__(self) -> str:
        return f"<slangpy function {self._function!r}>"


class _Backward:
    """The backward of a function, called with the arguments of the call and its result."""

    def __init__(self, node: FunctionNode) -> None:
        self._node = node

    def map(self, *args: Any, **kwargs: Any) -> _Backward:
        return _Backward(self._node.map(*args, **kwargs))

    def __call__(self, *args: Any, _result: Any = None, **kwargs: Any) -> None:
        if self._node._this is not None:
            args = (self._node._this, *args)
        try:
            self._node._variant().bwds(
                *map(_paired, args),
                **{name: _paired(value) for name, value in kwargs.items()},
                _result=_paired(_result),
            )
        except CompileError as error:
            raise self._node._with_hint(error) from None


def _result_kind(kind: Any) -> Any:
    """SlangPy's tensors are torch's here."""
    if kind is Tensor:
        return "tensor"
    if isinstance(kind, str) and kind == "texture":
        refuse("texture", "belongs to graphics: results are tensors")
    return kind


def _type_name(given: Any) -> Any:
    return getattr(given, "full_name", given.__name__ if isinstance(given, type) else given)


def _fields(value: Any) -> Any:
    """What an instance holds."""
    return value.get_this() if hasattr(value, "get_this") else value


def _plain(value: Any) -> Any:
    """An argument as torch_slang's functions take it."""
    if type(value) is torch.Tensor or value is None:
        return value
    value = _fields(value)
    for kind, attribute in ((DiffPair, "primal"), (Tensor, "storage"), (ValueRef, "value"), (Packed, "value")):
        if isinstance(value, kind):
            return _plain(getattr(value, attribute))
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if type(value).__module__ == "numpy":
        return torch.as_tensor(value) if type(value).__name__ == "ndarray" else value.item()
    return value


def _paired(value: Any) -> Any:
    """As `_plain`, with a pair's gradient as the tensor's."""
    value = _fields(value)
    if isinstance(value, Mapping):
        return {name: _paired(item) for name, item in value.items()}
    if isinstance(value, Tensor) and value.grad is not None:
        value = DiffPair(value.storage, value.grad.storage)
    if not isinstance(value, DiffPair) or value.primal is None:
        return _plain(value)
    if isinstance(value.primal, Generator):
        raise TypeError("slangpy: bwds: expected the primal of a diff_pair to be a tensor: a generator is a constant")
    if value.grad is None:
        return value.primal.detach()
    tensor = value.primal.detach().requires_grad_()
    tensor.grad = value.grad
    return tensor


def _are_tensors_and_numbers(args: tuple[Any, ...], named: Any) -> bool:
    tensors = False
    for value in (*args, *named):
        kind = type(value)
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            tensors = True
        elif kind not in EXACT_NUMBERS:
            return False
    return tensors


def _has_shape(values: Any) -> bool:
    """Whether a tensor that is not packed, or a generator, is among values."""
    return any(map(_is_shaped, values))


def _is_shaped(value: Any) -> bool:
    if isinstance(value, Mapping):
        return _has_shape(value.values())
    if isinstance(value, (tuple, list)):
        return _has_shape(value)
    if isinstance(value, Packed):
        return False
    return isinstance(value, (torch.Tensor, Generator, torch.nn.Module)) or dataclasses.is_dataclass(value)


def _is_constant_number(result: Any) -> bool:
    """What a call gives whose tensors are all packed, and which runs once."""
    return isinstance(result, torch.Tensor) and result.dim() == 0 and not result.requires_grad


def _python_value(tree: Tree, value: Any) -> Any:
    """A result of one element as Python has it."""
    if isinstance(value, tuple):
        items = [_python_value(field, item) for field, item in zip(tree.fields, value, strict=True)]
        return items if tree.names[0].isdigit() else dict(zip(tree.names, items, strict=True))
    name = short_name(tree.type)
    if name in VECTORS:
        return VECTORS[name](*value.tolist())
    if name in MATRICES:
        return MATRICES[name](value.tolist())
    return value.tolist()
