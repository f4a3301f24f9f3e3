"""From what a user passes to a plain function to the tensors that its operator takes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torch_slang._descriptor import Descriptor
from torch_slang._numbers import EXACT_NUMBERS, kind_of, number_of, result_type, share_tensor, shared_tensor
from torch_slang.functions.leaf import FunctionLeaf, Tree
from torch_slang.functions.vector_components import vector_of
from torch_slang.generators import Generator

__all__ = ["FunctionArguments", "WithGenerators"]


class WithGenerators(list[Any]):
    """Tensors, among which generators stand that want the call's shape."""


class FunctionArguments:
    """The parameters of a plain function, in the order of the Slang source: `out` ones are results, not arguments."""

    def __init__(self, about: Descriptor, qualified: str) -> None:
        trees = [Tree.of(parameter, parameter.name) for parameter in about.parameters]
        self.names: tuple[str, ...] = tuple(parameter.name for parameter in about.parameters)
        results = [result.name for result in about.results]
        # As Slang has the parameters: `out` ones, which need not be given, stand among the others.
        self.order: tuple[str, ...] = about.order
        self.outputs = tuple(name for name in self.order if name not in self.names and name in results)
        self.written = tuple(name for name in self.names if name in results)  # `inout`
        leaves = [FunctionLeaf.of(leaf) for leaf in about.leaves]
        self.leaves = [leaf for leaf in leaves if not leaf.is_output]
        self.output_leaves = {i: leaf for i, leaf in enumerate(leaves) if leaf.is_output}
        self.trees = trees
        self.output_trees = {
            result.name: Tree.of(result, result.name) for result in about.results if result.name in self.outputs
        }
        self.type_parameters = tuple(parameter.name for parameter in about.type_parameters)
        self.size_parameters = about.size_parameters
        named = (*self.type_parameters, *self.size_parameters)
        self.generics = tuple(name for name in named if name not in about.bound)  # those that follow from tensors
        self.has_structs = any(tree.leaf < 0 for tree in trees)
        self._allowed = [set(parameter.allowed) for parameter in about.type_parameters]
        self._types: tuple[str, ...] = tuple(tree.type for tree in trees)
        self._defaults: dict[str, Any] = {
            name: self.leaves[tree.leaf].default
            for name, tree in zip(self.names, trees, strict=True)
            if tree.leaf >= 0 and self.leaves[tree.leaf].default is not None
        }
        self._signature = qualified + self._written(about)

    def __str__(self) -> str:
        return self._signature

    def error(self, message: str) -> TypeError:
        return TypeError(f"{self._signature}: {message}")

    def signature(self) -> inspect.Signature:
        """As Python has it. Raises ValueError for a name that is a keyword there."""
        return inspect.Signature(
            [
                inspect.Parameter(
                    name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=self._defaults.get(name, inspect.Parameter.empty),
                    annotation=slang_type,
                )
                for name, slang_type in zip(self.names, self._types, strict=True)
            ]
        )

    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[torch.Tensor]:
        """One tensor for each leaf; with generators among them a :class:`WithGenerators`.

        Raises TypeError or OverflowError with the signature for what does not fit.
        """
        values = self.values(args, kwargs)
        for value in values:
            if type(value) is not torch.Tensor:
                return self._tensors(values)
        return values

    def values(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """The value given for each leaf."""
        values: Sequence[Any] = self._bound(args, kwargs) if kwargs or len(args) != len(self.names) else args
        if not self.has_structs:
            return values
        leaves: list[Any] = []
        for tree, value in zip(self.trees, values, strict=True):
            tree.take_apart(value, leaves, self.error)
        return leaves

    def vector(self, leaf: FunctionLeaf, given: Mapping[str, Any]) -> Any:
        """The tensor, or the list of numbers, that a vector's components make: :func:`vector_of`."""
        return vector_of(leaf, given, self.generics, self.error)

    def split(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any], dict[str, Any]]:
        """Arguments without those for `out` parameters, and these by name: none is given, or all are.

        Where all parameters are given, positions are those of the Slang source.
        """
        named = [name for name in self.outputs if name in kwargs]
        if not self.outputs or (not named and len(args) + len(kwargs) <= len(self.names)):
            return args, kwargs, {}
        bound = dict(zip(self.order, args, strict=False))
        if len(args) > len(self.order):
            raise self.error(f"expected at most {len(self.order)} arguments, but got {len(args)}")
        twice = [name for name in bound if name in kwargs]
        if twice:
            raise self.error(f"got two values for {', '.join(twice)}")
        bound.update(kwargs)
        missing = [name for name in self.outputs if name not in bound]
        if missing:
            raise self.error(f"expected all out parameters to be given or none, but there is no {', '.join(missing)}")
        outputs = {name: bound.pop(name) for name in self.outputs}
        return (), bound, outputs

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        values = list(args)
        taken = 0
        for name in self.names[len(args) :]:
            if name in kwargs:
                values.append(kwargs[name])
                taken += 1
            elif name in self._defaults:
                values.append(self._defaults[name])
        if len(values) != len(self.names) or taken != len(kwargs):
            raise self._unbound(args, kwargs)
        return values

    def _unbound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> TypeError:
        if len(args) > len(self.names):
            return self.error(f"expected at most {len(self.names)} arguments, but got {len(args)}")
        unknown = [name for name in kwargs if name not in self.names]
        if unknown:
            return self.error(f"there is no argument {', '.join(unknown)}")
        twice = [name for name in self.names[: len(args)] if name in kwargs]
        if twice:
            return self.error(f"got two values for {', '.join(twice)}")
        missing = [name for name in self.names[len(args) :] if name not in kwargs and name not in self._defaults]
        return self.error(f"missing {', '.join(missing)}")

    def _tensors(self, values: Sequence[Any]) -> list[torch.Tensor]:
        tensors = list(values)
        others = []  # where there is a number
        mapped = []  # where there are a vector's components
        generators = False
        is_plain = is_foreign = False
        for i, value in enumerate(values):
            exact = type(value)
            if exact is torch.Tensor or exact is torch.nn.Parameter:
                is_plain = True
            elif exact in EXACT_NUMBERS:  # soon, as what follows takes its time
                others.append(i)
            elif isinstance(value, Generator):
                generators = True
            elif isinstance(value, torch.Tensor):
                is_foreign = True  # a mode's or a user's own tensors: Note [shared numbers]
            elif isinstance(value, Mapping):
                tensors[i] = self.vector(self.leaves[i], value)
                mapped.append(i)
                if not isinstance(tensors[i], torch.Tensor):
                    others.append(i)
                is_foreign = True
            else:
                others.append(i)
        given, values = values, tuple(tensors)
        may_share = is_plain and not is_foreign and not torch.compiler.is_compiling()
        chosen = [self._chosen_type(k, values, others) for k in range(len(self._allowed))]
        for i in mapped:
            self._check_chosen(self.leaves[i], given[i], values[i], chosen)
        for i in others:
            leaf, value = self.leaves[i], values[i]
            if leaf.is_whole:
                raise self.error(
                    f"expected {leaf.what} to be a tensor, which the function sees whole, but got {value!r}"
                )
            dtype = chosen[leaf.type_parameter] if leaf.dtype is None else leaf.dtype
            tensor = shared_tensor(value, dtype) if may_share and not leaf.shape else None
            tensors[i] = self._new_tensor(leaf, value, dtype, may_share) if tensor is None else tensor
        return WithGenerators(tensors) if generators else tensors

    def _check_chosen(
        self, leaf: FunctionLeaf, given: Mapping[str, Any], made: Any, chosen: Sequence[torch.dtype]
    ) -> None:
        """A vector whose type was given must get that, where the other arguments count too."""
        if leaf.dtype is None and "_type" in given and made.dtype != chosen[leaf.type_parameter]:
            rule = f"to be of its _type {given['_type']!r}"
            name = self.type_parameters[leaf.type_parameter]
            raise self.error(
                f"expected {leaf.what} {rule}, but by all arguments {name} is {chosen[leaf.type_parameter]}"
            )

    def _chosen_type(self, k: int, values: Sequence[Any], others: Sequence[int]) -> torch.dtype:
        """What a type parameter will be: tensors decide, and numbers weigh least.

        Note [elementwise types] in csrc/functions/arguments.h.
        """
        strong = weak = None
        for i, (leaf, value) in enumerate(zip(self.leaves, values, strict=True)):
            if leaf.type_parameter != k or i in others or isinstance(value, Generator):
                continue
            if value.dim() > len(leaf.shape):
                strong = value.dtype if strong is None else torch.promote_types(strong, value.dtype)
            else:
                weak = value.dtype if weak is None else torch.promote_types(weak, value.dtype)
        if strong is not None and strong.is_floating_point:
            return strong
        kinds = [_kind_of(values[i]) for i in others if self.leaves[i].type_parameter == k]
        default = torch.get_default_dtype()
        chosen = result_type(strong, weak, max(kinds, default=-1), default) or default
        is_integral = not (chosen.is_floating_point or chosen.is_complex)
        return default if is_integral and chosen not in self._allowed[k] else chosen

    def _new_tensor(self, leaf: FunctionLeaf, value: Any, dtype: torch.dtype, may_share: bool) -> torch.Tensor:
        try:
            numbers = self._numbers_of(leaf, value, leaf.shape, dtype)
        except OverflowError:
            fits = "" if dtype.is_floating_point else f" [{torch.iinfo(dtype).min}, {torch.iinfo(dtype).max}]"
            raise OverflowError(
                f"{self._signature}: expected {leaf.what} to be within the range{fits} of its type, but got {value!r}"
            ) from None
        if may_share and not leaf.shape:
            return share_tensor(value, dtype, numbers)
        if torch.compiler.is_compiling() and not leaf.shape and dtype.is_floating_point:
            # torch.compile makes numbers inputs of its graph, once they change, where they are factors, but compiles
            # again for each that torch.tensor takes.
            return torch.ones((), dtype=dtype, device="cpu") * numbers
        return torch.tensor(numbers, dtype=dtype, device="cpu")

    def _numbers_of(self, leaf: FunctionLeaf, value: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
        """A number, or the numbers of a vector, matrix or array, in lists as deep as `shape`."""
        if not shape:
            number = number_of(value, dtype)
            if number is None:
                raise self._misfit(leaf, value, dtype)
            return number
        if not isinstance(value, list | tuple):
            raise self._misfit(leaf, value, dtype)
        if shape[0] >= 0 and len(value) != shape[0]:
            raise self.error(f"expected {leaf.what} to have shape {_shown(leaf.shape)}, but got {value!r}")
        return [self._numbers_of(leaf, item, shape[1:], dtype) for item in value]

    def _misfit(self, leaf: FunctionLeaf, value: Any, dtype: torch.dtype) -> TypeError:
        number = "a bool" if dtype == torch.bool else "a number" if dtype.is_floating_point else "an integer"
        if leaf.shape:
            number = f"a list of numbers, of shape {_shown(leaf.shape)}"
        got = repr(value) if kind_of(value) >= 0 else f"a {type(value).__name__}"
        hint = "; torch.stack makes one tensor of several" if isinstance(value, torch.Tensor) else ""
        return self.error(f"expected {leaf.what} to be a tensor or {number}, but got {got}{hint}")

    def _written(self, about: Descriptor) -> str:
        generics = self.generics
        parameters = [
            f"{name}: {slang_type}" + (f" = {self._defaults[name]}" if name in self._defaults else "")
            for name, slang_type in zip(self.names, self._types, strict=True)
        ]
        results = about.results
        if not results:
            returned = "void"
        elif [result.name for result in results] == ["result"]:
            returned = results[0].type
        else:
            returned = f"({', '.join(result.name + ': ' + result.type for result in results)})"
        return f"{'<' + ', '.join(generics) + '>' if generics else ''}({', '.join(parameters)}) -> {returned}"


def _shown(shape: tuple[int, ...]) -> str:
    return f"[{', '.join('*' if size < 0 else str(size) for size in shape)}]"


def _kind_of(value: Any) -> int:
    """The weightiest among the numbers of a vector or matrix."""
    return max(map(_kind_of, value), default=-1) if isinstance(value, list | tuple) else kind_of(value)
