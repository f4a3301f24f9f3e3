"""``torch_slang.matmul_with_epilogue``: a matrix product with a Slang function of each element in its kernel."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_slang._epilogue_text import Epilogue, Parameter, epilogue_text
from torch_slang._library import _C
from torch_slang._load import load, options_of
from torch_slang._module import Module, members_of
from torch_slang._numbers import kind_of, number_of

__all__ = ["MatmulEpilogue", "matmul_with_epilogue"]

_WHO = "torch_slang.matmul_with_epilogue"
_NUMBERS = {"float", "double"}
_GENERATED = "torch_slang epilogue"  # what diagnostics call the text that we append


def matmul_with_epilogue(
    source_or_path: str | os.PathLike[str],
    *,
    name: str | None = None,
    namespace: str = "slang",
    defines: Mapping[str, Any] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] | None = None,
    fast_math: bool = False,
    debug: bool | None = None,
) -> MatmulEpilogue:
    """A matrix product with a Slang function of each element fused into it.

    ::

        op = torch_slang.matmul_with_epilogue('''
            [Differentiable]
            T shade<T : __BuiltinFloatingPointType>(T sum, T bias, no_diff T scale, T residual)
            {
                return max(sum + bias, T(0)) * scale + residual;
            }
        ''')
        y = op(a, b, bias, 0.5, residual)      # shade(matmul(a, b), bias, 0.5, residual)

    The function's first parameter is an element of ``torch.matmul(a, b)``; each further one is an argument of ``op``,
    which broadcasts against that product ``[..., M, N]``: a bias ``[N]``, a scale of rows ``[M, 1]``, a residual
    ``[..., M, N]``, a 0-dimensional tensor. There are gradients for a, b, and each argument whose parameter is
    differentiable.

    Args:
        source_or_path: Slang text, or the path of a ``.slang`` file: what ends in ``.slang`` is one.
        name: of the function, if the text has several that are ``[Differentiable]``.
        namespace: of the epilogue's operators. Another text with a function of the same name replaces them, as a reload
            does; a name that another module has needs a namespace of its own.
        defines, include_dirs, fast_math, debug: as in :func:`torch_slang.load`.

    A generic function computes in double for float64 operands and in float for others, a function of ``float`` in
    float, so float64 is refused. Sums are float (double for float64), and what is computed from them is rounded once,
    when it is stored. Tensors whose parameters are ``no_diff`` may have the type that the function computes in.

    The operator is ``torch.ops.slang.matmul_with_epilogue(op.name, a, b, arguments)``.

    Raises:
        CompileError: the text does not compile; Slang's diagnostics are in the message.
        TypeError: the function cannot be an epilogue; the message says why.
    """
    text, path = _text_of(source_or_path)
    folders = [os.fspath(folder) for folder in include_dirs or ()]
    if path is not None:
        folders.insert(0, str(path.parent))
    options: dict[str, Any] = {"defines": defines, "include_dirs": folders, "fast_math": fast_math, "debug": debug}
    shown = f"epilogue_{sha256(text.encode()).hexdigest()[:8]}.slang" if path is None else str(path)
    # Read by itself first, and loaded with the kernels that are made for what was read.
    read = _C.read(options_of(None, source=text, name=shown, namespace=namespace, annotations=None, **options))
    about = _function_of(read, name, shown)
    epilogue, leaves = _epilogue_of(about)
    product = (Path(__file__).parent / "ops" / "matmul.slang").read_text()
    generated = f'#line 1 "{_GENERATED}"\n{epilogue_text(epilogue, product)}'
    identity = f"epilogue {epilogue.name}" if path is None else f"{path} epilogue {epilogue.name}"
    module = load(source=f'#line 1 "{shown}"\n{text}\n{generated}', name=identity, namespace=namespace, **options)
    return MatmulEpilogue(module, epilogue.name, leaves)


class MatmulEpilogue:
    """What :func:`matmul_with_epilogue` returns: ``op(a, b, *arguments)``, arguments by position or by name.

    Arguments are tensors or numbers; a number has no gradient.
    """

    def __init__(self, module: Module, function: str, leaves: tuple[_Argument, ...]) -> None:
        self.__name__ = function
        #: What ``torch.ops.slang.matmul_with_epilogue`` takes as its first argument.
        namespace = members_of(module).handle.namespace
        self.name = function if namespace == "slang" else f"{namespace}::{function}"
        self._module = module
        self._arguments = leaves

    def __call__(self, a: Tensor, b: Tensor, /, *args: Any, **kwargs: Any) -> Tensor:
        arguments = [
            self._tensor(argument, value, a)
            for argument, value in zip(self._arguments, self._values(args, kwargs), strict=True)
        ]
        if members_of(self._module).retired:
            return self._pinned(a, b, arguments)
        result: Tensor = torch.ops.slang.matmul_with_epilogue(self.name, a, b, arguments)
        return result

    @property
    def __signature__(self) -> inspect.Signature:
        kinds = inspect.Parameter
        behind = [
            kinds(one.name, kinds.POSITIONAL_OR_KEYWORD, default=kinds.empty if one.default is None else one.default)
            for one in self._arguments
        ]
        return inspect.Signature([kinds("a", kinds.POSITIONAL_ONLY), kinds("b", kinds.POSITIONAL_ONLY), *behind])

    def __repr__(self) -> str:
        return f"<torch_slang matmul with epilogue {self}>"

    def __str__(self) -> str:
        return f"{self.__name__}({', '.join(['a', 'b', *(f'{one.name}: {one.type}' for one in self._arguments)])})"

    def _values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if len(args) > len(self._arguments):
            raise TypeError(f"{self}: expected at most {len(self._arguments) + 2} arguments, but got {len(args) + 2}")
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

    def _tensor(self, argument: _Argument, value: Any, a: Tensor) -> Tensor:
        if isinstance(value, Tensor):
            return value
        if kind_of(value) < 0:
            raise TypeError(f"{self}: expected {argument.name} to be a tensor or a number, but got {value!r}")
        dtype = a.dtype if argument.differentiable else argument.dtype
        if dtype is None:
            dtype = torch.float64 if a.dtype == torch.float64 else torch.float32
        try:
            number = number_of(value, dtype)
        except OverflowError:
            number = None
        if number is None:
            raise TypeError(
                f"{self}: expected {argument.name} ({argument.type}) to be a number that fits, but got {value!r}"
            )
        # On the device at once: a copy from the host could not be captured into a CUDA graph.
        return torch.full((), number, dtype=dtype, device=a.device)

    def _pinned(self, a: Tensor, b: Tensor, arguments: list[Tensor]) -> Tensor:
        """Calls operators whose names a later load took."""
        members = members_of(self._module)
        with contextlib.ExitStack() as pins:
            for name in (*members.names, *(self.__name__ + suffix for suffix in ("_in_float", "_in_double"))):
                if name in members.retired:
                    pins.enter_context(_C.Pin(members.handle, name))
            result: Tensor = torch.ops.slang.matmul_with_epilogue(self.name, a, b, arguments)
        return result


@dataclass(frozen=True)
class _Argument:
    """One behind a and b. `dtype`: of a number; None: what the function computes in."""

    name: str
    type: str
    differentiable: bool
    dtype: torch.dtype | None
    default: float | None


def _text_of(source_or_path: str | os.PathLike[str]) -> tuple[str, Path | None]:
    if isinstance(source_or_path, str) and not source_or_path.endswith(".slang"):
        return source_or_path, None
    if not isinstance(source_or_path, str | os.PathLike):
        raise TypeError(f"{_WHO}: expected Slang text or a path, but got {type(source_or_path).__name__}")
    path = Path(source_or_path).resolve()
    if not path.is_file():
        raise RuntimeError(f"{_WHO}: no such file: {os.fspath(source_or_path)}")
    return path.read_text(), path


def _function_of(read: _C.Module, name: str | None, shown: str) -> dict[str, Any]:
    """The descriptor of the function that is meant."""
    if name is not None:
        try:
            about: dict[str, Any] = read.describe(name)
        except RuntimeError as error:
            raise TypeError(f"{_WHO}: {shown}: {error}") from None
        if name in read.operators():
            raise TypeError(f"{_WHO}: {shown}: expected {name} to be a function of one element, but it is a kernel")
        return about
    functions: list[dict[str, Any]] = [read.describe(one) for one in read.functions()]
    wanted = [one for one in functions if one["has_backward"]] or functions
    if len(wanted) != 1:
        names = ", ".join(one["name"] for one in wanted)
        rule = (
            f"name= to say which function is meant, of {names}" if wanted else "a [Differentiable] function in the text"
        )
        raise TypeError(f"{_WHO}: {shown}: expected {rule}")
    return wanted[0]


def _epilogue_of(about: dict[str, Any]) -> tuple[Epilogue, tuple[_Argument, ...]]:
    """Checks the signature. Raises TypeError, naming the function, the rule and what it has."""
    generic = [name for name, _ in about["type_parameters"]]
    types = {*_NUMBERS, *generic}

    def expect(rule: bool, what: str) -> None:
        if not rule:
            raise TypeError(f"{_WHO}: {about['file']}:{about['line']}: expected {about['name']} {what}")

    expect(about["has_backward"], "to be [Differentiable], but it is not")
    expect(len(generic) <= 1, f"to have at most one type parameter, but it has {', '.join(generic)}")
    expect(not about["size_parameters"], "to be generic over a type alone, but it has sizes as parameters")
    for _, allowed in about["type_parameters"]:
        expect(
            {"float32", "float64"} <= set(allowed),
            f"to be generic over types that float and double are of, but {generic[0]} may be {' or '.join(allowed)}",
        )
    parameters = [_leaf_of(about, parameter, types, expect) for parameter in about["parameters"]]
    expect(len(parameters) > 0, "to have a parameter, the sum, but it has none")
    total = parameters[0]
    expect(
        total["type"] in types,
        f"to have a floating-point number as its first parameter, the sum, but {total['name']} is {_a(total['type'])}",
    )
    expect(total["differentiable"], f"to be differentiable by its first parameter, but {total['name']} is no_diff")
    results = about["results"]
    expect(
        len(results) == 1 and results[0]["name"] == "result",
        f"to return a number and to have no out parameters, but it gives {', '.join(r['name'] for r in results)}",
    )
    expect(
        results[0]["type"] == total["type"],
        f"to return {_a(total['type'])}, the type of its first parameter, but it returns {_a(results[0]['type'])}",
    )
    epilogue = Epilogue(
        name=about["name"],
        qualified_name=about["qualified_name"],
        type_parameter=generic[0] if generic and total["type"] == generic[0] else None,
        sum_name=total["name"],
        sum_type=total["type"],
        parameters=tuple(
            Parameter(leaf["name"], leaf["type"], leaf["type"] in types, leaf["differentiable"])
            for leaf in parameters[1:]
        ),
    )
    return epilogue, tuple(_argument(leaf, generic) for leaf in parameters[1:])


def _leaf_of(about: dict[str, Any], parameter: dict[str, Any], types: set[str], expect: Any) -> dict[str, Any]:
    what = f"to have numbers as parameters, but {parameter['name']} is {_a(parameter['type'])}"
    expect(parameter["leaf"] >= 0, what)
    leaf: dict[str, Any] = about["leaves"][parameter["leaf"]]
    expect(not leaf["element_shape"], what)
    if leaf["type"] not in types:  # an integer or a bool
        expect(leaf["type_parameter"] < 0 and not getattr(torch, leaf["dtype"]).is_floating_point, what)
    return leaf


def _argument(leaf: dict[str, Any], generic: list[str]) -> _Argument:
    dtype = None if leaf["type"] in generic else getattr(torch, leaf["dtype"])
    return _Argument(leaf["name"], leaf["type"], leaf["differentiable"], dtype, leaf["default"])


def _a(slang_type: str) -> str:
    return f"a{'n' if slang_type[:1] in 'aeiou' else ''} {slang_type}"
