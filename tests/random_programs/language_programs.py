"""Slang programs of many cases at once, and each case's numbers: values, gradients, tangents, second derivatives.

A case's result is weighed to one number. What the operands of a case are in the program is its binding: elements of
arguments of a plain function, of a kernel's views, a kernel's values, and so on.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from language_cases import DOMAINS, Case, Type
from language_positions import INLINE, Position, spelled

import torch_slang

Tensor = torch.Tensor
Named = dict[str, Tensor]
ROWS = 4
DTYPES = {"half": torch.float16, "float": torch.float32, "double": torch.float64, "int": torch.int32}
WEIGHTS = [0.7, -0.3, 1.1, 0.45, -0.9, 0.6, 1.3, -0.5, 0.8, 0.35, -1.2, 0.55, 0.95, -0.65, 1.05, 0.25]
KINDS = ("value", "gradient", "tangent", "second")


@dataclass(frozen=True)
class Placed:
    """A case at a position."""

    case: Case
    position: Position

    @property
    def name(self) -> str:
        return f"{self.case.name}, {self.position.name}"

    def reference(self, n: Tensor, operands: Sequence[Tensor]) -> Tensor:
        """The weighted sum of its result's components, for rows."""
        value = self.position.run(self.case)(n, *operands)
        flat = value.reshape(len(value), -1)
        return (flat * torch.tensor(WEIGHTS[: flat.shape[1]], dtype=torch.float64)).sum(1)

    @property
    def slots(self) -> list[str]:
        return [slot(k, type) for k, type in enumerate(self.case.operands)]


def slot(k: int, type: Type) -> str:
    """The parameter for the operands of this type at this place, which the cases of a program share."""
    return f"p{k}_{type.name}"


def slots_of(group: Iterable[Placed]) -> dict[str, Type]:
    return {name: t for placed in group for name, t in zip(placed.slots, placed.case.operands, strict=True)}


def components(type: Type) -> list[str]:
    if len(type.shape) == 2:
        return [f"[{i}][{j}]" for i in range(type.shape[0]) for j in range(type.shape[1])]
    return [f"[{i}]" for i in range(type.shape[0])] if type.shape else [""]


def weighing(group: Sequence[Placed]) -> str:
    """`double weigh(T r)` for each type of results."""
    text = ""
    for type in {placed.case.result.name: placed.case.result for placed in group}.values():
        terms = [f"{w}lf * double(r{place})" for w, place in zip(WEIGHTS, components(type), strict=False)]
        text += f"[Differentiable] double weigh({type.name} r) {{ return {' + '.join(terms)}; }}\n"
    return text


def derived(kind: str, call: Callable[[Named], Tensor], points: Named, along: Named, weights: Named) -> Named:
    """The numbers of one kind of a function of named tensors; of the sum of its values where it has many."""
    if kind == "value":
        return {"": call(points).detach()}
    names = list(along)
    if kind == "tangent":

        def of_leaves(*leaves: Tensor) -> Tensor:
            return call(points | dict(zip(names, leaves, strict=True)))

        given = tuple(points[name] for name in names)
        return {"": torch.func.jvp(of_leaves, given, tuple(along[name] for name in names))[1]}
    leaves = {name: points[name].detach().requires_grad_() for name in names}
    results = _gradients(call(points | leaves).sum(), leaves, kind == "second")
    if kind == "second":
        total = sum((g * weights[name]).double().sum() for name, g in zip(names, results, strict=True))
        results = _gradients(total, leaves)
    return {name: result.detach() for name, result in zip(names, results, strict=True)}


def _gradients(value: Tensor, leaves: Named, again: bool = False) -> Sequence[Tensor]:
    if not value.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves.values()]
    return torch.autograd.grad(value, list(leaves.values()), create_graph=again, materialize_grads=True)


class Program:
    """A group of cases of one domain, loaded. Each has points, directions and weights of its own."""

    kinds = KINDS  # of numbers that it has

    def __init__(self, group: Sequence[Placed], device: torch.device, seed: int = 0) -> None:
        self.group, self.device = list(group), device
        self.slots = slots_of(group)
        text = "import torch_slang;\n" + weighing(group)
        for k, placed in enumerate(group):
            text += f"// {placed.name}\n{placed.position.text(placed.case, f'f{k}')}"
        text += self.text()
        name = f"language_{zlib.crc32(text.encode()):08x}"
        self.module = self.load(text, name)
        self.generator = torch.Generator().manual_seed(seed)
        self.points, self.along, self.weights = {}, {}, {}
        for name, type in self.slots.items():
            shape = (len(group), *self.outer(name), *type.shape)
            self.points[name] = self._draw(type, shape)
            if type.differentiable:
                self.along[name], self.weights[name] = (
                    (2 * self._uniform(shape) - 1).to(DTYPES[type.element]) for _ in range(2)
                )

    def load(self, text: str, name: str) -> Any:
        return torch_slang.load(source=text, name=f"{name}.slang", namespace=name)

    def _uniform(self, shape: Sequence[int]) -> Tensor:
        return torch.rand(tuple(shape), generator=self.generator, dtype=torch.float64)

    def _draw(self, type: Type, shape: Sequence[int]) -> Tensor:
        domain = self.group[0].case.operation.domain
        low, high = DOMAINS[domain]
        if not type.differentiable:
            return (1 + (3 * self._uniform(shape)).floor()).to(torch.int32)
        values = low + (high - low) * self._uniform(shape)
        if domain == "any":
            values = torch.where(self._uniform(shape) < 0.5, -values, values)
        return values.to(DTYPES[type.element])

    def text(self) -> str:
        raise NotImplementedError

    def outer(self, name: str) -> tuple[int, ...]:
        """The dimensions of a parameter beside those of its type."""
        return (ROWS,)

    def number(self, k: int, places: Sequence[str], n: str = "n") -> str:
        """Statements that store the number of case k."""
        placed = self.group[k]
        if placed.position is not INLINE:
            return f"    {self.result(k)} = weigh(f{k}({', '.join([n, *places])}));\n"
        statements, value = spelled(placed.case, places)
        return f"    {{ {statements} {self.result(k)} = weigh({value}); }}\n"

    def result(self, k: int) -> str:
        return f"result[{k}]"

    @cached_property
    def n(self) -> Tensor:
        return torch.arange(ROWS, dtype=torch.int32).remainder(2)

    def of_case(self, k: int, several: Named, names: Sequence[str]) -> Named:
        return {name: several[name][k] for name in names if name in several}

    def expected(self, k: int, kind: str) -> Named:
        """In float64, on the CPU."""
        placed = self.group[k]
        given = [
            {name: t.double() for name, t in self.of_case(k, several, placed.slots).items()}
            for several in (self.points, self.along, self.weights)
        ]

        def call(points: Named) -> Tensor:
            rows = self.rows(placed, points)
            return placed.reference(self.n.double().expand(len(rows[0]) // ROWS, ROWS).T.reshape(-1), rows)

        return derived(kind, call, *given)

    def rows(self, placed: Placed, points: Named) -> list[Tensor]:
        """The operands as rows."""
        return [points[name] for name in placed.slots]

    def numbers(self, kind: str) -> list[Named]:
        """Of each case."""
        raise NotImplementedError


class Together(Program):
    """Where one call computes all cases for the rows of each: of the results of rows [k] that of case k is wanted."""

    def numbers(self, kind: str) -> list[Named]:
        given = [
            {name: t.to(self.device) for name, t in each.items()} for each in (self.points, self.along, self.weights)
        ]
        found = derived(kind, self.call, *given)
        return [{name: value[k].cpu() for name, value in found.items()} for k in range(len(self.group))]

    def call(self, points: Named) -> Tensor:
        return self.all_results(points).diagonal(dim1=0, dim2=2).T

    def all_results(self, points: Named) -> Tensor:
        """[cases, rows, cases]"""
        raise NotImplementedError

    @cached_property
    def all_n(self) -> Tensor:
        return self.n.expand(len(self.group), ROWS).contiguous().to(self.device)


PACKS = {"half": "h", "float": "s", "double": "d", "int": "i"}


class OfFunctions(Together):
    """A plain function that calls one of each case. Its parameters are packed, which is quicker to compile."""

    def text(self) -> str:
        sizes = dict.fromkeys(PACKS, 0)
        gathered = {}
        for name, type in self.slots.items():
            pack, first, count = PACKS[type.element], sizes[type.element], math.prod(type.shape)
            numbers = ", ".join(f"{pack}[{first + i}]" for i in range(count))
            gathered[name] = f"{type.name}({numbers})" if type.shape else numbers
            sizes[type.element] += count
        given = ", ".join(["int n", *(f"{e} {PACKS[e]}[{size}]" for e, size in sizes.items() if size)])
        text = f"[TorchOp] [Differentiable] void run({given}, out double result[{len(self.group)}])\n{{\n"
        for k, placed in enumerate(self.group):
            text += self.number(k, [gathered[name] for name in placed.slots])
        return text + "}\n"

    def all_results(self, points: Named) -> Tensor:
        packs: dict[str, list[Tensor]] = {}
        for name, type in self.slots.items():
            packs.setdefault(PACKS[type.element], []).append(points[name].reshape(len(self.group), ROWS, -1))
        return self.module.run(n=self.all_n, **{pack: torch.cat(several, -1) for pack, several in packs.items()})


def view(name: str, type: Type) -> str:
    element = type.element if len(type.shape) == 2 else type.name
    return f"{'Diff' if type.differentiable else ''}TensorView<{element}> {name}"


def element(name: str, type: Type) -> str:
    """Of a view."""
    if len(type.shape) < 2:
        return f"{name}[i]"
    return (
        f"{type.name}({', '.join(f'{name}[i, {a}, {b}]' for a in range(type.shape[0]) for b in range(type.shape[1]))})"
    )


def declared_view(name: str, type: Type) -> str:
    shape = "N" if len(type.shape) < 2 else f"N, {type.shape[0]}, {type.shape[1]}"
    return f'[Shape("{shape}")] {view(name, type)}'


KERNEL = "[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]"


class OfViews(Together):
    """A kernel whose views' elements are the operands."""

    def text(self) -> str:
        views = [declared_view(name, type) for name, type in self.slots.items()]
        given = [
            '[Shape("N")] TensorView<int> which',
            *views,
            f'[Out("N, {len(self.group)}")] DiffTensorView<double> result',
        ]
        text = f"{KERNEL}\nvoid run({', '.join(given)})\n{{\n"
        text += "    uint i = cudaGlobalIdx().x;\n    if (i >= which.size(0)) return;\n"
        for k, placed in enumerate(self.group):
            text += self.number(k, [element(name, self.slots[name]) for name in placed.slots], "which[i]")
        return text + "}\n"

    def result(self, k: int) -> str:
        return f"result[i, {k}]"

    def all_results(self, points: Named) -> Tensor:
        flat = {name: tensor.flatten(0, 1) for name, tensor in points.items()}
        return self.module.run(which=self.all_n.flatten(), **flat).unflatten(0, (len(self.group), ROWS))


class OfWholeTensors(Together):
    """A plain function that sees its tensors whole. It has first derivatives alone."""

    kinds = ("value", "gradient")

    def text(self) -> str:
        views = ", ".join(view(name, type) for name, type in self.slots.items())
        text = f"[TorchOp] [Differentiable] void run(int i, int n, {views}, out double result[{len(self.group)}])\n{{\n"
        for k, placed in enumerate(self.group):
            text += self.number(k, [element(name, self.slots[name]) for name in placed.slots])
        return text + "}\n"

    def all_results(self, points: Named) -> Tensor:
        flat = {name: tensor.flatten(0, 1) for name, tensor in points.items()}
        i = torch.arange(self.all_n.numel(), dtype=torch.int32, device=self.device).reshape(self.all_n.shape)
        return self.module.run(i=i, n=self.all_n, **flat)


class Apart(Program):
    """Where each case has a call of its own."""

    def numbers(self, kind: str) -> list[Named]:
        found = []
        for k in range(len(self.group)):  # by all parameters, so that one compiled kernel serves all calls
            given = [
                {name: t[k].to(self.device) for name, t in each.items()}
                for each in (self.points, self.along, self.weights)
            ]
            numbers = derived(kind, lambda points, k=k: self.call(k, points), *given)
            found.append({name: value.cpu() for name, value in numbers.items()})
        return found

    def call(self, k: int, points: Named) -> Tensor:
        raise NotImplementedError


class OfRows(Apart):
    """A plain function with a parameter for each operand, which broadcast: columns, rows and single elements."""

    COLUMNS = 3

    def outer(self, name: str) -> tuple[int, ...]:
        return {"p0": (ROWS, 1), "p1": (self.COLUMNS,)}.get(name[:2], ())

    def text(self) -> str:
        given = ", ".join(["int n", *(f"{type.name} {name}" for name, type in self.slots.items())])
        text = f"[TorchOp] [Differentiable] void run({given}, out double result[{len(self.group)}])\n{{\n"
        for k, placed in enumerate(self.group):
            text += self.number(k, placed.slots)
        return text + "}\n"

    def rows(self, placed: Placed, points: Named) -> list[Tensor]:
        shapes = [type.shape for type in placed.case.operands]
        wide = [
            points[name].expand(ROWS, self.COLUMNS, *shape) for name, shape in zip(placed.slots, shapes, strict=True)
        ]
        return [tensor.flatten(0, 1) for tensor in wide]

    def call(self, k: int, points: Named) -> Tensor:
        n = self.n[:, None].expand(ROWS, self.COLUMNS).to(self.device)
        return self.module.run(n=n, **points)[..., k].flatten()


class OfValues(Apart):
    """A kernel whose values are the operands that are numbers; the others are elements of views."""

    of_numbers = True

    def is_value(self, name: str) -> bool:
        return (self.slots[name].shape == ()) == self.of_numbers

    def outer(self, name: str) -> tuple[int, ...]:
        return () if self.is_value(name) else (ROWS,)

    def text(self) -> str:
        given = ['[Shape("N")] TensorView<int> which']
        for name, type in self.slots.items():
            given.append(f"{type.name} {name}" if self.is_value(name) else declared_view(name, type))
        given.append(f'[Out("N, {len(self.group)}")] DiffTensorView<double> result')
        text = f"{KERNEL}\nvoid run({', '.join(given)})\n{{\n"
        text += "    uint i = cudaGlobalIdx().x;\n    if (i >= which.size(0)) return;\n"
        for k, placed in enumerate(self.group):
            places = [name if self.is_value(name) else element(name, self.slots[name]) for name in placed.slots]
            text += self.number(k, places, "which[i]")
        return text + "}\n"

    def result(self, k: int) -> str:
        return f"result[i, {k}]"

    def rows(self, placed: Placed, points: Named) -> list[Tensor]:
        return [
            points[name].expand(ROWS, *type.shape)
            for name, type in zip(placed.slots, placed.case.operands, strict=True)
        ]

    def call(self, k: int, points: Named) -> Tensor:
        return self.module.run(which=self.n.to(self.device), **points)[:, k]


class OfWideValues(OfValues):
    """A kernel whose values are the vectors and matrices."""

    of_numbers = False


class OfEpilogues(Apart):
    """The epilogue of a product. Its numbers are the operands' components; the first is the product's element."""

    def load(self, text: str, name: str) -> torch_slang.MatmulEpilogue:
        return torch_slang.matmul_with_epilogue(text, name="run", namespace=name)

    @cached_property
    def parameters(self) -> list[tuple[str, int]]:
        """A slot and a component each."""
        every = [(name, i) for name, type in self.slots.items() for i in range(math.prod(type.shape))]
        first = next(name for name, type in self.slots.items() if type.differentiable)
        return sorted(every, key=lambda one: one != (first, 0))

    def text(self) -> str:
        given = [f"{'double' if self.slots[name].differentiable else 'int'} {name}_{i}" for name, i in self.parameters]
        text = f"[Differentiable] double run({', '.join([*given, 'int n', 'int which'])})\n{{\n    double result = 0;\n"
        for k, placed in enumerate(self.group):
            places = []
            for name in placed.slots:
                type = self.slots[name]
                numbers = [f"{type.element}({name}_{i})" for i in range(math.prod(type.shape))]
                places.append(f"{type.name}({', '.join(numbers)})" if type.shape else numbers[0])
            text += f"    if (which == {k})\n    {{\n{self.number(k, places)}    }}\n"
        return text + "    return result;\n}\n"

    def result(self, k: int) -> str:
        return "result"

    def call(self, k: int, points: Named) -> Tensor:
        flat = {name: tensor.reshape(ROWS, -1) for name, tensor in points.items()}
        element, *others = [flat[name][:, i : i + 1] for name, i in self.parameters]
        given = [other.double() if other.is_floating_point() else other for other in others]
        one = torch.ones(1, 1, dtype=torch.float64, device=self.device)
        return self.module(element.double(), one, *given, self.n[:, None].to(self.device), k).flatten()


BINDINGS: dict[str, type[Program]] = {
    "functions": OfFunctions,
    "rows": OfRows,
    "whole tensors": OfWholeTensors,
    "views": OfViews,
    "values": OfValues,
    "wide values": OfWideValues,
    "epilogues": OfEpilogues,
}
