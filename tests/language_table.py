"""Programs of many cases, and what is wrong with each case: value, gradients, tangent, second derivatives."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from language_operations import DOMAINS, Case, Type
from language_positions import Position

import torch_slang

Tensor = torch.Tensor
ROWS = 4
DTYPES = {"half": torch.float16, "float": torch.float32, "double": torch.float64, "int": torch.int32}
TOLERANCES = {"half": 3e-2, "float": 3e-5, "double": 1e-7}  # some of Slang's constants are floats
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

    def reference(self, n: Tensor, *operands: Tensor) -> Tensor:
        """The weighted sum of its result's components, for rows."""
        value = self.position.run(self.case)(n, *operands)
        flat = value.reshape(len(value), -1)
        return (flat * torch.tensor(WEIGHTS[: flat.shape[1]], dtype=torch.float64)).sum(1)

    @property
    def tolerance(self) -> float:
        return max(TOLERANCES[t.element] for t in (*self.case.operands, self.case.result) if t.differentiable)


def weighing(type: Type) -> str:
    """`double weigh(T r)`: a number of a result."""
    places = [""]
    if len(type.shape) == 1:
        places = [f"[{i}]" for i in range(type.shape[0])]
    elif type.shape:
        places = [f"[{i}][{j}]" for i in range(type.shape[0]) for j in range(type.shape[1])]
    sum = " + ".join(f"{w}lf * double(r{place})" for w, place in zip(WEIGHTS, places))
    return f"[Differentiable] double weigh({type.name} r) {{ return {sum}; }}\n"


Slot = tuple[str, Type]  # a parameter: its name, and its type


def slots(group: Sequence[Placed]) -> dict[str, Type]:
    """The parameters that all cases of a program share: one for each place among the operands, and each type."""
    return {slot(k, t): t for placed in group for k, t in enumerate(placed.case.operands)}


def slot(k: int, type: Type) -> str:
    return f"p{k}_{type.name}"


PACKS = {"half": "h", "float": "s", "double": "d", "int": "i"}


def packed(parameters: dict[str, Type]) -> dict[str, int]:
    """Where each parameter begins in the array of its element's numbers."""
    sizes = dict.fromkeys(PACKS, 0)
    begins = {}
    for name, type in parameters.items():
        begins[name] = sizes[type.element]
        sizes[type.element] += math.prod(type.shape)
    return begins


def gathered(type: Type, first: int) -> str:
    numbers = ", ".join(f"{PACKS[type.element]}[{first + i}]" for i in range(math.prod(type.shape)))
    return f"{type.name}({numbers})" if type.shape else numbers


def program_text(group: Sequence[Placed]) -> str:
    """`run(n, parameters) -> result[k]`, the number of case k."""
    text = "import torch_slang;\n"
    results = {placed.case.result.name: placed.case.result for placed in group}
    text += "".join(weighing(type) for type in results.values())
    for k, placed in enumerate(group):
        text += f"// {placed.name}\n{placed.position.text(placed.case, f'f{k}')}"
    parameters = slots(group)
    begins = packed(parameters)
    sizes = {e: sum(math.prod(t.shape) for t in parameters.values() if t.element == e) for e in PACKS}
    given = ", ".join(["int n", *(f"{e} {PACKS[e]}[{size}]" for e, size in sizes.items() if size)])
    text += f"[TorchOp] [Differentiable] void run({given}, out double result[{len(group)}])\n{{\n"
    for k, placed in enumerate(group):
        names = [slot(i, t) for i, t in enumerate(placed.case.operands)]
        operands = ", ".join(["n", *(gathered(parameters[name], begins[name]) for name in names)])
        text += f"    result[{k}] = weigh(f{k}({operands}));\n"
    return text + "}\n"


@dataclass
class Inputs:
    """Of case k the rows [k]: parameters, directions of tangents, weights of gradients."""

    n: Tensor
    points: dict[str, Tensor]
    directions: dict[str, Tensor]
    weights: dict[str, Tensor]


def draw(group: Sequence[Placed], seed: int = 0) -> Inputs:
    generator = torch.Generator().manual_seed(seed)
    low, high = DOMAINS[group[0].case.operation.domain]
    either_sign = group[0].case.operation.domain == "any"
    points, directions, weights = {}, {}, {}

    def uniform(shape: Sequence[int]) -> Tensor:
        return torch.rand(tuple(shape), generator=generator, dtype=torch.float64)

    for name, type in slots(group).items():
        shape = (len(group), ROWS, *type.shape)
        if type.differentiable:
            values = low + (high - low) * uniform(shape)
            values = torch.where(uniform(shape) < 0.5, -values, values) if either_sign else values
        else:
            values = 1 + (3 * uniform(shape)).floor()
        points[name] = values.to(DTYPES[type.element])
        if type.differentiable:
            directions[name], weights[name] = ((2 * uniform(shape) - 1).to(DTYPES[type.element]) for _ in range(2))
    n = torch.arange(ROWS, dtype=torch.int32).remainder(2).expand(len(group), ROWS).contiguous()
    return Inputs(n, points, directions, weights)


Numbers = dict[str, dict[str, Tensor]]  # by kind, and by the name of a parameter


def expected(placed: Placed, k: int, inputs: Inputs) -> Numbers:
    operands = [slot(i, t) for i, t in enumerate(placed.case.operands)]
    points = {name: inputs.points[name][k].double() for name in operands}
    leaves = {name: points[name].requires_grad_() for name in operands if name in inputs.directions}
    value = placed.reference(inputs.n[k].double(), *(points[name] for name in operands))
    zero = sum((leaf * 0).sum() for leaf in leaves.values())
    gradients = torch.autograd.grad((value + zero).sum(), leaves.values(), create_graph=True, materialize_grads=True)
    along = sum((g * inputs.directions[name][k].double()).reshape(ROWS, -1).sum(1) for name, g in zip(leaves, gradients))
    total = sum((g * inputs.weights[name][k].double()).sum() for name, g in zip(leaves, gradients)) + zero
    seconds = torch.autograd.grad(total, leaves.values(), materialize_grads=True)
    return {
        "value": {"": value.detach()}, "tangent": {"": along.detach()},
        "gradient": dict(zip(leaves, (g.detach() for g in gradients))), "second": dict(zip(leaves, seconds)),
    }  # fmt: skip


class Program:
    """A group of cases, loaded; each kind of number is computed for all at once."""

    def __init__(self, group: Sequence[Placed], device: torch.device) -> None:
        self.group = list(group)
        self.slots = slots(group)
        text = program_text(group)
        name = f"language_{zlib.crc32(text.encode()):08x}"
        self.module = torch_slang.load(source=text, name=f"{name}.slang", namespace=name)
        self.inputs = draw(group)
        self.device = device
        self.points = {name: point.to(device) for name, point in self.inputs.points.items()}
        self.names = list(self.inputs.directions)

    def call(self, **given: Tensor) -> Tensor:
        """[cases, rows]: case k of rows [k]."""
        packs: dict[str, list[Tensor]] = {}
        for name, tensor in (self.points | given).items():
            packs.setdefault(PACKS[self.slots[name].element], []).append(tensor.reshape(len(self.group), ROWS, -1))
        together = {name: torch.cat(tensors, -1) for name, tensors in packs.items()}
        results = self.module.run(n=self.inputs.n.to(self.device), **together)
        return results.diagonal(dim1=0, dim2=2).T

    def numbers(self, kind: str) -> list[dict[str, Tensor]]:
        """Of each case."""
        if kind == "value":
            return [{"": value} for value in self.call().cpu().unbind()]
        if kind == "tangent":
            points, along = (tuple(of[name].to(self.device) for name in self.names) for of in (self.inputs.points, self.inputs.directions))
            _, tangents = torch.func.jvp(lambda *given: self.call(**dict(zip(self.names, given))), points, along)
            return [{"": tangent} for tangent in tangents.cpu().unbind()]
        leaves = {name: self.points[name].detach().requires_grad_() for name in self.names}
        results = torch.autograd.grad(self.call(**leaves).sum(), leaves.values(), create_graph=kind == "second")
        if kind == "second":
            total = sum((g * self.inputs.weights[name].to(self.device)).double().sum() for name, g in zip(leaves, results))
            results = torch.autograd.grad(total, leaves.values(), materialize_grads=True)
        cpu = [result.detach().cpu() for result in results]
        return [{name: result[k] for name, result in zip(leaves, cpu)} for k in range(len(self.group))]


@dataclass
class Outcome:
    placed: Placed
    wrong: dict[str, str] = field(default_factory=dict)  # by kind
    refused: dict[str, str] = field(default_factory=dict)


def difference(placed: Placed, kind: str, actual: dict[str, Tensor], wanted: dict[str, Tensor]) -> str | None:
    scale = max([1.0, *(float(value.abs().max()) for value in wanted.values())])
    for name, value in actual.items():
        one = value.double()
        other = wanted.get(name, torch.zeros_like(one))
        limit = placed.tolerance * scale * (4 if kind == "second" else 1)
        if not torch.allclose(one, other, rtol=placed.tolerance, atol=limit):
            return f"by {name}: {one.flatten().tolist()[:4]} instead of {other.flatten().tolist()[:4]}"
    return None


def outcomes(group: Sequence[Placed], device: torch.device, kinds: Sequence[str] = KINDS) -> list[Outcome]:
    """Where a program as a whole is refused, halves of it are tried, until single cases are known."""
    results = [Outcome(placed) for placed in group]
    _try(results, device, kinds)
    return results


def _try(results: list[Outcome], device: torch.device, kinds: Sequence[str]) -> None:
    group = [outcome.placed for outcome in results]
    refused: dict[str, str] = {}
    try:
        program = Program(group, device)
        for kind in kinds:
            try:
                actual = program.numbers(kind)
            except RuntimeError as error:
                refused[kind] = str(error)
                continue
            for k, outcome in enumerate(results):
                problem = difference(outcome.placed, kind, actual[k], expected(outcome.placed, k, program.inputs)[kind])
                if problem:
                    outcome.wrong[kind] = problem
    except RuntimeError as error:
        refused = dict.fromkeys(kinds, str(error))
    if len(group) == 1:
        results[0].refused.update(refused)
    elif refused:
        middle = len(group) // 2
        _try(results[:middle], device, list(refused))
        _try(results[middle:], device, list(refused))
