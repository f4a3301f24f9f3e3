"""Plain Slang functions as PyTorch functions, which broadcast their arguments and have gradients."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_slang._descriptor import describe
from torch_slang._library import _C, forget_cached_op
from torch_slang._packed import packing_of
from torch_slang.functions import registry
from torch_slang.functions.arguments import FunctionArguments, WithGenerators
from torch_slang.functions.generated import generated, places_of
from torch_slang.functions.instance import GenericArguments, bound, written
from torch_slang.functions.leaf import FunctionLeaf
from torch_slang.functions.map import DimensionMap, generic_arguments
from torch_slang.functions.results import (
    FunctionResults,
    copy_results,
    is_array_type,
    is_tensor_type,
    no_result_type,
)
from torch_slang.functions.variant import FunctionVariant
from torch_slang.functions.vector_components import component_gradients
from torch_slang.generators import Generator

__all__ = ["Function"]


# Whose the operators of instances of generic functions are, which no load takes, by qualified name.
_instances: weakref.WeakValueDictionary[str, Function] = weakref.WeakValueDictionary()


@dataclass(frozen=True)
class _Ops:
    """The operators of a function, which exist."""

    name: str
    arguments: FunctionArguments
    results: FunctionResults
    op: Any  # as PyTorch has it
    forward: Any
    backward: Any  # None: there is no derivative
    out: Any
    call: Callable[..., Tensor | tuple[Tensor, ...] | None] | None  # None: there are structs to take apart


class Function:
    """A plain function of a module, applied to each element of its arguments, which broadcast as in PyTorch.

    Arguments go by position or by name, in the order of the Slang source: a tensor, a number (a constant), a list of
    numbers for a vector, matrix or array, and a mapping, a tuple or a named tuple of such for a struct. A vector's
    components are the tensor's last dimension, a matrix's its last two. ``out`` parameters are results.

    Results are new tensors; structs, and several results, are named tuples. ``_result=`` gives the tensors to write
    into instead; ``_result="tensor"`` and ``_result=torch.Tensor`` ask for the default.

    The operators are registered as ``torch.ops.<namespace>.<name>`` at first use, or at load where the source says
    ``[TorchOp]``.
    """

    def __init__(
        self,
        handle: _C.Module,
        name: str,
        retired: set[str],
        base: str | None = None,
        generics: GenericArguments | None = None,
    ) -> None:
        # No more than this: a module may have hundreds, of which few are called.
        self.__name__ = name
        self._handle = handle
        self._retired = retired
        self._base = base or name  # of "copy_4": "copy", which a later load may take
        self._generics = generics  # what the generic arguments of an instance are
        self._made: dict[GenericArguments, Function] = {}  # the instances of a generic function
        self._qualified = f"{handle.namespace}::{name}"
        self._arguments: FunctionArguments | None = None
        self._ops: _Ops | None = None
        self._generating: dict[tuple[int, ...], _Ops] = {}  # by the places of arguments that operators make themselves
        self._number = registry.add(self)

    def __call__(self, /, *args: Any, _result: Any = None, **kwargs: Any) -> Any:
        ops = None if torch.compiler.is_dynamo_compiling() else self._ops
        if ops is None:
            ops = self._ready()
        elif ops.call is not None and _result is None and self._base not in self._retired:
            results = ops.call(*args, **kwargs)  # Note [remembered calls] in csrc/python/function_call.cpp
            if results is not None:
                return results if ops.results.is_tensor else ops.results.build(results)
        return self.call(args, kwargs, _result, None)

    def call(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, dimensions: DimensionMap | None
    ) -> Any:
        """What a call does, with a map of dimensions or without."""
        ops = self._ready()
        args, kwargs, outputs = ops.arguments.split(args, kwargs)
        tensors = ops.arguments.flatten(args, kwargs)
        placed = tensors if dimensions is None else dimensions.place(tensors)
        if outputs and dimensions is not None:
            outputs = dimensions.place_outputs(outputs, tensors)
        if outputs:
            return self._into_parameters(ops, tensors, placed, outputs, result)
        if type(tensors) is WithGenerators:
            ops, placed = self._generated(ops, placed, _with_leaves(ops, result))
        return self._results(ops, placed, result)

    def map(self, /, *args: Any, **kwargs: Any) -> FunctionVariant:
        """The function with a map: for an argument, which dimension of the call each of its dimensions goes along.

        ``multiply.map(a=(0,), b=(1,))(a, b)`` is the outer product. Negative dimensions count from the call's last; of
        a vector only the dimensions before its components are named. A struct's map is a mapping of its fields to
        theirs. Arguments without a map, and those with None, broadcast as ever. A string is the argument's type: where
        that is generic it says what the generic arguments are, else it must be that type.
        """
        return FunctionVariant(self, args, kwargs)

    def as_func(self) -> Function:
        """The function itself, for programs that tell functions from structs."""
        return self

    def return_type(self, result: Any) -> Function | FunctionVariant:
        """The function with results of a kind: those of ``_result``. It gives tensors anyway, for which
        ``torch.Tensor`` and ``"tensor"`` are the names.
        """
        self.check_return_type(result)
        return self if is_tensor_type(result) else FunctionVariant(self, result=result)

    def check_return_type(self, result: Any) -> None:
        """Raises TypeError for what no result can be."""
        if not is_tensor_type(result) and not is_array_type(result):
            raise self.described().error(no_result_type(result))

    def instance(self, generics: GenericArguments) -> Function:
        """The generic function with these arguments. Raises RuntimeError for what they cannot be."""
        if torch.compiler.is_dynamo_compiling():
            from torch_slang.functions.compiled import register_instance

            register_instance(self._number, *written(generics))
            return self._made[generics]
        if generics not in self._made:
            types, sizes = generics
            name = self._handle.instantiate(self.__name__, list(types), list(sizes))
            self._made[generics] = Function(self._handle, name, self._retired, self.__name__, generics)
        return self._made[generics]

    def with_types(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Function:
        """The generic function with the arguments that the types in a map say."""
        if not any(isinstance(given, (str, Mapping)) for given in (*args, *kwargs.values())):
            return self
        found = generic_arguments(self.described(), args, kwargs)
        if found is None:
            return self
        try:
            return self.instance(found)
        except RuntimeError as reason:
            raise TypeError(f"map: {reason}") from None

    @property
    def candidates(self) -> tuple[Function]:
        """Itself: as :class:`OverloadedFunction` has several."""
        return (self,)

    def choose(self, args: Any, kwargs: Any, maps: Any = None) -> Function:
        """Itself: as :class:`OverloadedFunction` chooses one."""
        del args, kwargs, maps
        return self

    def bwds(self, /, *args: Any, _result: Any = None, **kwargs: Any) -> None:
        """Adds to the ``.grad`` of each argument that requires grad, given the function's result with its ``.grad``.

        The arguments are those of the call that gave the result. No graph is needed, nor used if there is one. Where
        ``out`` parameters are given, these are results with a ``.grad`` too. The ``.grad`` of a whole tensor that the
        function stores to is read as well, and becomes the gradient of what the tensor held before the call.
        """
        self.add_gradients(args, kwargs, _result, None)

    def add_gradients(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, dimensions: DimensionMap | None
    ) -> None:
        """What `bwds` does, with a map of dimensions or without."""
        ops = self._ready()
        args, kwargs, outputs = ops.arguments.split(args, kwargs)
        if outputs and dimensions is not None:
            outputs = dimensions.place_output_gradients(outputs, ops.arguments.flatten(args, kwargs))
        if outputs:
            result = ops.results.whole(outputs, result)
        elif result is None and any(leaf.differentiable for leaf in ops.results.leaves):
            raise ops.arguments.error("bwds wants _result, which has the gradient that it begins with")
        tensors = ops.arguments.flatten(args, kwargs)
        placed = tensors if dimensions is None else dimensions.place(tensors)
        if ops.backward is None:
            raise RuntimeError(f"{ops.arguments} has no gradient: mark it [Differentiable]")
        leaves = ops.arguments.leaves
        stored = [i for i, leaf in enumerate(leaves) if leaf.is_written and leaf.differentiable]
        given = [self._gradient(ops, f"{leaves[i].name}.grad", tensors[i]) for i in stored]
        if result is not None:
            pairs = ops.results.differentiable(ops.results.flatten(result))
            given += [self._gradient(ops, f"{name}.grad of _result", output) for name, output in pairs]
        for leaf, tensor in zip(leaves, tensors, strict=True):
            if leaf.no_gradient and _requires_grad(tensor):
                raise RuntimeError(
                    f"{ops.arguments}: expected {leaf.what} to be a constant, since {leaf.no_gradient}, but got a "
                    "tensor that requires grad"
                )
        wanted = [i for i, leaf in enumerate(leaves) if leaf.differentiable and not isinstance(tensors[i], Generator)]
        mask = [i in stored or tensors[i].requires_grad for i in wanted]
        if not any(mask):
            raise RuntimeError(f"{ops.arguments}: no differentiable argument of bwds requires grad")
        by_leaf: list[Tensor | None] = [None] * len(leaves)
        if type(tensors) is WithGenerators:
            ops, placed = self._generated(ops, placed, _with_leaves(ops, result))
        with torch.no_grad():
            gradients = self._run(ops, ops.backward, [*given, *placed, mask])
            for i, gradient in zip(wanted, [gradients] if isinstance(gradients, Tensor) else gradients, strict=True):
                by_leaf[i] = gradient
            if dimensions is not None:
                by_leaf = dimensions.take_back(by_leaf, tensors)
            for i, after in zip(stored, given, strict=False):
                after.copy_(by_leaf[i])
                by_leaf[i] = None
        given_values = ops.arguments.values(args, kwargs)
        _accumulate(
            pair
            for tensor, gradient, value in zip(tensors, by_leaf, given_values, strict=True)
            if gradient is not None
            for pair in (component_gradients(value, gradient) if isinstance(value, Mapping) else [(tensor, gradient)])
        )

    @property
    def arguments(self) -> FunctionArguments:
        """What the function takes. Its operators exist from now on, in a trace too."""
        return self._ready().arguments

    @property
    def results(self) -> FunctionResults:
        """What the function gives."""
        return self._ready().results

    @property
    def op(self) -> Any:
        """The operator ``torch.ops.<namespace>.<name>``: it takes a tensor for each argument, or field of one."""
        return self._ready().op

    def flatten(self, /, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """The operator's arguments by name, without calling it. Raises TypeError for what does not fit."""
        arguments = self.described()
        tensors = arguments.flatten(args, kwargs)
        if type(tensors) is WithGenerators:
            raise arguments.error("the operator takes tensors, but got a generator")
        return {leaf.name: tensor for leaf, tensor in zip(arguments.leaves, tensors, strict=True)}

    def register(self) -> _Ops:
        """Makes the operators exist, unless they do."""
        if self._base != self.__name__:
            previous = _instances.get(self._qualified)
            if previous is not None and previous._handle is not self._handle:
                previous._retired.add(previous._base)
            _instances[self._qualified] = self
        for changed in self._handle.register_function(self.__name__):
            forget_cached_op(changed)
        self._ops = self._named(self.__name__)
        return self._ops

    def register_generating(self, places: tuple[int, ...]) -> _Ops:
        """Makes the operators exist that make the arguments at these places themselves, unless they do."""
        if places not in self._generating:
            name = self._handle.generating(self.__name__, list(places))
            for changed in self._handle.register_function(name):
                forget_cached_op(changed)
            self._generating[places] = self._named(name)
        return self._generating[places]

    def generating_operators(self) -> list[str]:
        """The names of those operators, as far as calls have made them."""
        return [ops.name for ops in self._generating.values()]

    def _named(self, name: str) -> _Ops:
        about = bound(describe(self._handle, name), self._generics)
        arguments = self.described()
        namespace = getattr(torch.ops, self._handle.namespace)
        ops = [
            None if (called := about.operators[kind]) is None else getattr(namespace, called).default
            for kind in ("forward", "backward", "out")
        ]
        packings = [packing_of(about, kind) for kind in ("forward", "backward", "launch")]
        forward, backward, out = (
            op if packing is None else packing.called_by_place(op) for op, packing in zip(ops, packings, strict=True)
        )
        has_no_call = arguments.has_structs or not about.results or name != self.__name__ or packings[0] is not None
        call = None if has_no_call else _C.function_call(self._handle, name)
        return _Ops(name, arguments, FunctionResults(about, arguments.error), ops[0], forward, backward, out, call)

    @property
    def __signature__(self) -> inspect.Signature:
        return self.described().signature()

    def __repr__(self) -> str:
        return f"<torch_slang function {self.described()}>"

    def described(self) -> FunctionArguments:
        """What the function takes. Makes no operators, but in a trace."""
        if torch.compiler.is_dynamo_compiling():
            self._ready()
        if self._arguments is None:
            about = bound(describe(self._handle, self.__name__), self._generics)
            self._arguments = FunctionArguments(about, self._qualified)
        return self._arguments

    def _ready(self) -> _Ops:
        if torch.compiler.is_dynamo_compiling():
            from torch_slang.functions.compiled import register

            register(self._number)  # before the trace looks at self._ops, which it takes for constant
        ops = self._ops
        return self.register() if ops is None else ops

    def _generated(
        self, ops: _Ops, values: Sequence[Any], outputs: Sequence[tuple[FunctionLeaf, Tensor]]
    ) -> tuple[_Ops, list[Any]]:
        """The operators that make what generators stand for, and their arguments."""
        arguments = generated(values, ops.arguments.leaves, outputs, ops.arguments.error)
        places = places_of(values)
        if torch.compiler.is_dynamo_compiling():
            from torch_slang.functions.compiled import register_generating

            register_generating(self._number, ",".join(map(str, places)))
            return self._generating[places], arguments
        return self.register_generating(places), arguments

    def _run(self, ops: _Ops, op: Any, arguments: Sequence[Any]) -> Any:
        if self._base not in self._retired:
            return op(*arguments)
        with _C.Pin(self._handle, ops.name):  # a later load took the operator's name
            return op(*arguments)

    def _forward(self, ops: _Ops, arguments: Sequence[Any]) -> Any:
        if len(arguments) == 0 or any(isinstance(argument, Tensor) for argument in arguments):
            return self._run(ops, ops.forward, arguments)
        # All are generated, but the dispatcher wants a tensor: the results.
        rank, *others = arguments[0]
        leaves = ops.results.leaves
        results = [torch.empty((*others[:rank], *leaf.shape), dtype=leaf.dtype) for leaf in leaves]
        self._run(ops, ops.out, [*arguments, *results])
        return results[0] if ops.results.is_tensor else results

    def _results(self, ops: _Ops, tensors: Sequence[Tensor], result: Any) -> Any:
        if result is not None and not is_tensor_type(result):
            return self._write(ops, tensors, result)
        results = self._forward(ops, tensors)
        return results if ops.results.is_tensor else ops.results.build(results)

    def _write(self, ops: _Ops, tensors: Sequence[Tensor], result: Any) -> Any:
        """Into given tensors: where a graph is recorded as a copy, so that autograd says what it always says."""
        if is_array_type(result):
            computed = self._forward(ops, tensors)
            return ops.results.arrays([computed] if isinstance(computed, Tensor) else computed)
        if isinstance(result, (str, type)):
            raise ops.arguments.error(no_result_type(result))
        outputs = ops.results.flatten(result)
        if torch.is_grad_enabled() and any(map(_requires_grad, (*tensors, *outputs))):
            computed = self._forward(ops, tensors)
            results = [computed] if isinstance(computed, Tensor) else computed
            copy_results(self._qualified, [leaf.name for leaf in ops.results.leaves], outputs, results)
        else:
            self._run(ops, ops.out, [*tensors, *outputs])
        return (
            result
            if ops.results.has_arrays(result)
            else ops.results.build(outputs[0] if ops.results.is_tensor else outputs)
        )

    def _into_parameters(
        self, ops: _Ops, tensors: Sequence[Any], placed: Sequence[Any], outputs: dict[str, Any], result: Any
    ) -> Any:
        """Writes what `out` parameters give into the tensors given for them. Gives the other results, None if none."""
        others = ops.results.others(outputs)
        into = None if result is None or is_tensor_type(result) or is_array_type(result) else result
        if not others or (others == ["result"] and into is not None):
            whole = ops.results.whole(outputs, into)
            if type(tensors) is WithGenerators:
                ops, placed = self._generated(ops, placed, _with_leaves(ops, whole))
            self._write(ops, placed, whole)
            return into
        if type(tensors) is WithGenerators:
            ops, placed = self._generated(ops, placed, ops.results.pairs(outputs))
        computed = self._forward(ops, placed)
        return ops.results.deal(
            self._qualified, [computed] if isinstance(computed, Tensor) else computed, outputs, others, result
        )

    def _gradient(self, ops: _Ops, what: str, tensor: Tensor) -> Tensor:
        gradient = _C.gradient_of(tensor)
        if gradient is None:
            raise RuntimeError(f"{ops.arguments}: bwds reads {what}, which is None: set it first")
        return gradient


def _with_leaves(ops: _Ops, result: Any) -> list[tuple[FunctionLeaf, Tensor]]:
    """The tensors of a `_result` that is given, with their leaves."""
    if result is None or isinstance(result, (str, type)):
        return []
    return list(zip(ops.results.leaves, ops.results.flatten(result), strict=True))


def _requires_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _accumulate(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    leaves = []
    for tensor, gradient in pairs:
        if tensor.is_leaf:
            leaves.append((tensor, gradient))
            continue
        before = _C.gradient_of(tensor)
        tensor.grad = gradient if before is None else before + gradient
    if leaves:
        torch.autograd.backward([tensor for tensor, _ in leaves], [gradient for _, gradient in leaves])
