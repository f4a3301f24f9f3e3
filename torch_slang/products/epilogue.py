"""What operators with an epilogue share: they read a Slang function, load its kernels and take its arguments."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_slang._descriptor import Descriptor, Leaf, Parameter, describe
from torch_slang._library import _C
from torch_slang._load import load, options_of
from torch_slang._module import members_of
from torch_slang._numbers import kind_of, number_of
from torch_slang.products.epilogue_text import Epilogue, EpilogueParameter, Product, epilogue_text

__all__ = ["EpilogueOperator", "EpilogueSource"]

_NUMBERS = {"float", "double"}
_GENERATED = "torch_slang epilogue"  # what diagnostics call the text that we append


class EpilogueSource:
    """A function's text, and how it is loaded, for kernels of any product."""

    def __init__(
        self,
        who: str,
        source_or_path: str | os.PathLike[str],
        *,
        name: str | None,
        namespace: str,
        include_dirs: Iterable[str | os.PathLike[str]] | None,
        **options: Any,
    ) -> None:
        self.text, self.path = _text_of(who, source_or_path)
        self.name, self.namespace = name, namespace
        folders = [os.fspath(folder) for folder in include_dirs or ()]
        if self.path is not None:
            folders.insert(0, str(self.path.parent))
        self.options: dict[str, Any] = {"include_dirs": folders, **options}


class EpilogueOperator:
    """A product with a function of each element. Arguments are tensors or numbers; a number has no gradient."""

    _operands: tuple[str, ...]
    _flags: tuple[str, ...] = ()  # arguments of the operator itself that go by name

    def __init__(self, who: str, product: Product, source: EpilogueSource) -> None:
        text, path, namespace = source.text, source.path, source.namespace
        shown = f"epilogue_{sha256(text.encode()).hexdigest()[:8]}.slang" if path is None else str(path)
        # Read by itself first, and loaded with the kernels that are made for the function found.
        read = _C.read(
            options_of(None, source=text, name=shown, namespace=namespace, annotations=None, **source.options)
        )
        about = _function_of(who, read, source.name, shown)
        epilogue, self._arguments = _epilogue_of(who, product.suffix, about)
        for flag in self._flags:
            if any(one.name == flag for one in self._arguments):
                raise TypeError(
                    f"{who}: {about.file}:{about.line}: expected {about.name} to have no parameter named "
                    f"{flag}, which is an argument of the product"
                )
        generated = f'#line 1 "{_GENERATED}"\n{epilogue_text(epilogue, product, Path(__file__).parent.parent / "ops")}'
        self._module = load(
            source=f'#line 1 "{shown}"\n{text}\n{generated}',
            name=f"epilogue {epilogue.name}" if path is None else f"{path} epilogue {epilogue.name}",
            namespace=namespace,
            **source.options,
        )
        self.__name__: str = about.name
        #: What the operator in ``torch.ops.slang`` takes as its first argument.
        self.name = self.__name__ if namespace == "slang" else f"{namespace}::{self.__name__}"
        self._source = source
        self._made = epilogue.name

    @property
    def __signature__(self) -> inspect.Signature:
        kinds = inspect.Parameter
        behind = [
            kinds(one.name, kinds.POSITIONAL_OR_KEYWORD, default=kinds.empty if one.default is None else one.default)
            for one in self._arguments
        ]
        return inspect.Signature([*(kinds(name, kinds.POSITIONAL_ONLY) for name in self._operands), *behind])

    def __str__(self) -> str:
        shown = [*self._operands, *(f"{one.name}: {one.type}" for one in self._arguments)]
        return f"{self.__name__}({', '.join(shown)})"

    def _tensors(self, first: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """The arguments as tensors. `first`: the first operand."""
        values = self._values(args, kwargs)
        return [self._tensor(argument, value, first) for argument, value in zip(self._arguments, values, strict=True)]

    def _values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        operands = len(self._operands)
        if len(args) > len(self._arguments):
            raise TypeError(
                f"{self}: expected at most {len(self._arguments) + operands} arguments, but got {len(args) + operands}"
            )
        values = []
        for i, argument in enumerate(self._arguments):
            if i < len(args):
                if argument.name in kwargs:
                    raise TypeError(f"{self}: got two values for {argument.name}")
                values.append(args[i])
            elif argument.name in kwargs:
                values.append(kwargs[argument.name])
            elif argument.default is not None:
                values.append(argument.default)
            else:
                raise TypeError(f"{self}: missing {argument.name}")
        for name in kwargs:
            if all(name != argument.name for argument in self._arguments):
                raise TypeError(f"{self}: there is no argument {name}")
        return values

    def _tensor(self, argument: Argument, value: Any, first: Tensor) -> Tensor:
        if isinstance(value, Tensor):
            return value
        if kind_of(value) < 0:
            raise TypeError(f"{self}: expected {argument.name} to be a tensor or a number, but got {value!r}")
        dtype = first.dtype if argument.differentiable else argument.dtype
        if dtype is None:
            dtype = torch.float64 if first.dtype == torch.float64 else torch.float32
        try:
            number = number_of(value, dtype)
        except OverflowError:
            number = None
        if number is None:
            raise TypeError(
                f"{self}: expected {argument.name} ({argument.type}) to be a number that fits, but got {value!r}"
            )
        # On the device at once: a copy from the host could not be captured into a CUDA graph.
        return torch.full((), number, dtype=dtype, device=first.device)

    def _call(self, operator: Callable[..., Any], *args: Any) -> Tensor:
        if members_of(self._module).retired:
            return self._pinned(operator, *args)
        result: Tensor = operator(self.name, *args)
        return result

    def _pinned(self, operator: Callable[..., Any], *args: Any) -> Tensor:
        """Calls operators whose names a later load took."""
        members = members_of(self._module)
        with contextlib.ExitStack() as pins:
            for name in (*members.names, *(self._made + suffix for suffix in ("_in_float", "_in_double"))):
                if name in members.retired:
                    pins.enter_context(_C.Pin(members.handle, name))
            result: Tensor = operator(self.name, *args)
        return result


@dataclass(frozen=True)
class Argument:
    """One behind the operands. `dtype`: of a number; None: what the function computes in."""

    name: str
    type: str
    differentiable: bool
    dtype: torch.dtype | None
    default: float | None


def _text_of(who: str, source_or_path: str | os.PathLike[str]) -> tuple[str, Path | None]:
    if isinstance(source_or_path, str) and not source_or_path.endswith(".slang"):
        return source_or_path, None
    if not isinstance(source_or_path, str | os.PathLike):
        raise TypeError(f"{who}: expected Slang text or a path, but got {type(source_or_path).__name__}")
    path = Path(source_or_path).resolve()
    if not path.is_file():
        raise RuntimeError(f"{who}: no such file: {os.fspath(source_or_path)}")
    return path.read_text(), path


def _function_of(who: str, read: _C.Module, name: str | None, shown: str) -> Descriptor:
    """The descriptor of the function that is meant."""
    if name is not None:
        try:
            about = describe(read, name)
        except RuntimeError as error:
            raise TypeError(f"{who}: {shown}: {error}") from None
        if name in read.operators():
            raise TypeError(f"{who}: {shown}: expected {name} to be a function of one element, but it is a kernel")
        return about
    functions = [describe(read, one) for one in read.functions()]
    wanted = [one for one in functions if one.has_backward] or functions
    if len(wanted) != 1:
        names = ", ".join(one.name for one in wanted)
        rule = (
            f"name= to say which function is meant, of {names}" if wanted else "a [Differentiable] function in the text"
        )
        raise TypeError(f"{who}: {shown}: expected {rule}")
    return wanted[0]


def _epilogue_of(who: str, suffix: str, about: Descriptor) -> tuple[Epilogue, tuple[Argument, ...]]:
    """Checks the signature. Raises TypeError, naming the function, the rule and what it has."""
    generic = [parameter.name for parameter in about.type_parameters]
    types = {*_NUMBERS, *generic}

    def expect(rule: bool, what: str) -> None:
        if not rule:
            raise TypeError(f"{who}: {about.file}:{about.line}: expected {about.name} {what}")

    expect(about.has_backward, "to be [Differentiable], but it is not")
    expect(len(generic) <= 1, f"to have at most one type parameter, but it has {', '.join(generic)}")
    expect(not about.size_parameters, "to be generic over a type alone, but it has sizes as parameters")
    for parameter in about.type_parameters:
        names = [str(dtype).removeprefix("torch.") for dtype in parameter.allowed]
        expect(
            {torch.float32, torch.float64} <= set(parameter.allowed),
            f"to be generic over types that float and double are of, but {parameter.name} may be {' or '.join(names)}",
        )
    parameters = [_leaf_of(about, parameter, types, expect) for parameter in about.parameters]
    expect(len(parameters) > 0, "to have a parameter, the sum, but it has none")
    total = parameters[0]
    expect(
        total.type in types,
        f"to have a floating-point number as its first parameter, the sum, but {total.name} is {_a(total.type)}",
    )
    expect(total.differentiable, f"to be differentiable by its first parameter, but {total.name} is no_diff")
    results = about.results
    expect(
        len(results) == 1 and results[0].name == "result",
        f"to return a number and to have no out parameters, but it gives {', '.join(r.name for r in results)}",
    )
    expect(
        results[0].type == total.type,
        f"to return {_a(total.type)}, the type of its first parameter, but it returns {_a(results[0].type)}",
    )
    epilogue = Epilogue(
        name=about.name + suffix,
        qualified_name=about.qualified_name,
        type_parameter=generic[0] if generic and total.type == generic[0] else None,
        sum_name=total.name,
        sum_type=total.type,
        parameters=tuple(
            EpilogueParameter(leaf.name, leaf.type, leaf.type in types, leaf.differentiable) for leaf in parameters[1:]
        ),
    )
    return epilogue, tuple(_argument(leaf, generic) for leaf in parameters[1:])


def _leaf_of(about: Descriptor, parameter: Parameter, types: set[str], expect: Callable[[bool, str], None]) -> Leaf:
    what = f"to have numbers as parameters, but {parameter.name} is {_a(parameter.type)}"
    expect(parameter.leaf >= 0, what)
    leaf = about.leaves[parameter.leaf]
    expect(not leaf.element_shape, what)
    if leaf.type not in types:  # an integer or a bool
        expect(leaf.type_parameter < 0 and not leaf.dtype.is_floating_point, what)
    return leaf


def _argument(leaf: Leaf, generic: list[str]) -> Argument:
    dtype = None if leaf.type in generic else leaf.dtype
    return Argument(leaf.name, leaf.type, leaf.differentiable, dtype, leaf.default)


def _a(slang_type: str) -> str:
    return f"a{'n' if slang_type[:1] in 'aeiou' else ''} {slang_type}"
