"""The ledger of Slang's errors: tests/slang_bugs/NAME.slang, the smallest programs that show them.

A file begins with what is wrong, in one sentence, and then has lines `// key: value`:

    issues        numbers of Slang's issues, where there are some
    repair        what mends it here, or refuses it: a name in ir/repairs.cpp, emit/passes.cpp or left_out_repairs.cpp
    refusal       words of the message, where it is refused
    seen          the versions of Slang that have it
    derivative    "backward", if the line is missing, "forward", or "value": f itself is wrong
    inputs        of the function `f`, as JSON: float64, "0.5f" float32, "1i" int32
    values        of f itself, the right ones
    gradients     the right ones of the sum of f (or its tangent), where finite differences do not say them
    chance        "yes": what is wrong is memory that was never set, which may hold the right value

What takes Slang too long has no program here, since it would take the test as long: test_long_chains.py.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import torch_slang

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from write_ledger import FOLDER, programs, read_program

Tensor = torch.Tensor
LEAVE_OUT = "TORCH_SLANG_LEAVE_OUT"
STEP = 1e-6


@dataclass
class Bug:
    name: str
    what: str
    facts: dict[str, str]
    folder: Path = FOLDER

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.slang"

    @property
    def is_forward(self) -> bool:
        return self.facts.get("derivative") == "forward"

    def inputs(self, device: torch.device) -> list[Tensor]:
        return [_tensor(value).to(device) for value in json.loads(self.facts["inputs"])]

    def found(self, device: torch.device, without_repair: bool, namespace: str | None = None) -> list[Tensor]:
        """The gradients by inputs that have some; or the tangent of f along ones, or its values."""
        kind = "raw" if without_repair else "mended"
        namespace = namespace or f"slang_bugs_{self.name}_{kind}_{device.type}"
        defines = {LEAVE_OUT: self.facts["repair"]} if without_repair else {}
        module = torch_slang.load(self.path, namespace=namespace, defines=defines)
        inputs = self.inputs(device)
        if "values" in self.facts:
            return [module.f(*(x.flatten() for x in inputs)).cpu()]
        if self.is_forward:
            floats = [x for x in inputs if x.is_floating_point()]
            ones = tuple(torch.ones_like(x) for x in floats)
            return [
                torch.func.jvp(lambda *given: _with_integers(module.f, inputs, given), tuple(floats), ones)[1].cpu()
            ]
        for x in inputs:
            x.requires_grad_(x.is_floating_point())
        value = module.f(*inputs)
        return [g.cpu() for g in torch.autograd.grad(value.sum(), [x for x in inputs if x.requires_grad])]

    def expected(self) -> list[Tensor]:
        """As the file says; else from central differences of the values, which no repair has a part in."""
        if "values" in self.facts:
            return [torch.tensor(json.loads(self.facts["values"]), dtype=torch.float64)]
        if "gradients" in self.facts:
            return [torch.tensor(g, dtype=torch.float64) for g in json.loads(self.facts["gradients"])]
        module = torch_slang.load(self.path, namespace=f"slang_bugs_{self.name}_values")
        inputs = self.inputs(torch.device("cpu"))
        floats = [x for x in inputs if x.is_floating_point()]

        def value(given: list[Tensor]) -> Tensor:
            return _with_integers(module.f, inputs, tuple(given)).double().sum()

        if self.is_forward:
            ahead, back = ([x + s * STEP for x in floats] for s in (1, -1))
            return [((value(ahead) - value(back)) / (2 * STEP)).reshape(1)]
        gradients = []
        for k, x in enumerate(floats):
            step = STEP if x.dtype == torch.float64 else 1e-3
            gradient = torch.zeros(x.numel(), dtype=torch.float64)
            for i in range(x.numel()):
                ends = []
                for sign in (1, -1):
                    moved = [y.clone() for y in floats]
                    moved[k].view(-1)[i] += sign * step
                    ends.append(value(moved))
                gradient[i] = (ends[0] - ends[1]) / (2 * step)
            gradients.append(gradient.reshape(x.shape))
        return gradients


def _tensor(value: Any) -> Tensor:
    if isinstance(value, str):
        dtype = torch.float32 if value.endswith("f") else torch.int32
        number = torch.tensor(json.loads(value[:-1]), dtype=torch.float64).to(dtype)
    else:
        number = torch.tensor(value, dtype=torch.float64)
    return number[None]  # f is called with one element


def _with_integers(f: Any, inputs: list[Tensor], floats: tuple[Tensor, ...]) -> Tensor:
    rest = iter(floats)
    value: Tensor = f(*[next(rest) if x.is_floating_point() else x for x in inputs])
    return value


BUGS = [Bug(path.stem, *read_program(path)) for path in programs()]
