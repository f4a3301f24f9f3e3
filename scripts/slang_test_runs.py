"""Slang's own tests of derivatives (slang_tests.py), run: one file, in a process of its own."""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slang_test_texts import (
    DERIVATIVES,
    SPARE,
    TYPES,
    Buffer,
    Claim,
    NotApplicableError,
    block_of,
    buffers_of,
    claim_of,
    entry_of,
    expected_lines,
    has_entry,
    in_double,
    is_interpreted,
    is_switched_off,
    kernel_text,
    messages_of,
    part_text,
    views_for_buffers,
    with_own_derivatives,
)
from slang_torch_kernels import KERNELS

OWN = "the source's own derivative"
RIGHT, REFUSED, WRONG, ELSEWHERE = "right", "refused", "wrong", "not applicable"
ERRORS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, NotImplementedError)


@dataclass
class Result:
    file: str
    outcome: str
    why: str = ""  # of what is right, what it claims
    nvrtc: str = ""  # "compiles", or what it says
    functions: dict[str, str] = field(default_factory=dict)  # name: "right", or what is wrong


def says(error: BaseException) -> str:
    text = re.sub(r"\b(?:(?:the (?:\w+ of )?)?\w+ in )?[\w-]+\.slang\b", "the file", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if re.search(r"error\[|signal|is refused|would be wrong", line)]
    hints = [
        lines[n + 1]
        for n, line in enumerate(lines[:-1])
        if line.startswith("Constructs") and lines[n + 1] not in told[:2]
    ]
    told = told or lines
    shown = " / ".join(dict.fromkeys([*told[:1], *hints, *told[1:2]]))
    return re.sub(r"^torch_slang: |\(thread .*?\)", "", shown)[:400]


def is_broken(error: BaseException) -> bool:
    """Not said by torch_slang: a kernel has run, and harmed its device."""
    return "CUDA error" in str(error) or "illegal memory access" in str(error)


# --- What a test expects


def agrees(got: float, expected: str) -> bool:
    """As slang-test compares: numbers nearly, other text as FileCheck does."""
    try:
        number = float(expected.rstrip("f"))
    except ValueError:
        return any(_matches(shown, expected) for shown in (f"{got:f}", f"{got:g}", f"{got:.0f}"))
    if math.isnan(got) or math.isnan(number):
        return math.isnan(got) and math.isnan(number)
    return got == number or abs(got - number) <= 1e-4 * max(1.0, abs(number))


def _matches(shown: str, expected: str) -> bool:
    parts = re.split(r"\{\{(.*?)\}\}", expected)
    return re.search("".join(part if n % 2 else re.escape(part) for n, part in enumerate(parts)), shown) is not None


def different_numbers(expected: list[str], got: list[float]) -> str:
    """What differs, or an empty text."""
    if len(expected) > len(got):
        raise NotApplicableError("expects other text than its buffer")
    left = iter(got)
    if len(expected) < len(got) and all(any(agrees(number, line) for number in left) for line in expected):
        return ""  # FileCheck passes over lines that it does not name
    differ = [f"[{n}] {g:g} for {e}" for n, (g, e) in enumerate(zip(got, expected, strict=False)) if not agrees(g, e)]
    return "; ".join(differ)


def different_lines(expected: list[str], printed: list[str]) -> str:
    left = iter(printed)
    for line in expected:
        if not any(_matches(shown, line) for shown in left):
            return f"no {line} in {', '.join(printed)}"
    return ""


@contextmanager
def _printed(lines: list[str]) -> Iterator[None]:
    """What C's printf, and a GPU's, write meanwhile."""
    import torch

    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    before = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
        finally:
            libc.fflush(None)
            os.dup2(before, 1)
            os.close(before)
            file.seek(0)
            lines += [line.strip() for line in file.read().decode().splitlines() if line.strip()]


# --- One file


class File:
    def __init__(self, path: Path, device: str, with_nvrtc: bool) -> None:
        self.path, self.device, self.with_nvrtc = path, device, with_nvrtc
        self.text = path.read_text()
        self.folder = path.parent
        self.parts: dict[str, str] = {}
        for other in path.parent.glob("*.slang"):
            part = other.read_text()
            if other != path and re.search(r"^public (RW)?StructuredBuffer", part, re.MULTILINE):
                self.parts[other.name] = part

    def buffers(self) -> list[Buffer]:
        return buffers_of(self.text, "\n".join(self.parts.values()))

    def load(self, source: str, name: str, buffers: list[Buffer]) -> Any:
        import torch_slang

        if self.parts:  # the files that it imports have buffers
            self.folder = Path(tempfile.mkdtemp())
            for other in self.path.parent.glob("*.slang"):
                (self.folder / other.name).write_text(part_text(other.read_text(), buffers))
        return torch_slang.load(source=source, name=name, namespace="slang_tests", include_dirs=[self.folder])

    # Of the outputs, without the spare ones, and what was printed.
    def launch(self, module: Any, buffers: list[Buffer]) -> tuple[list[float], list[str]]:
        import torch

        tensors, lengths = [], []
        for buffer in buffers or [Buffer("", "float", 1, "float", [0], True)]:
            words = torch.tensor([*buffer.words, *[0] * (SPARE * buffer.width)], dtype=torch.int32)
            words = words[: words.numel() // buffer.width * buffer.width].view(getattr(torch, TYPES[buffer.type]))
            tensors.append((words if buffer.is_number else words.reshape(-1, buffer.width)).to(self.device))
            lengths.append(len(buffer.words))
        printed: list[str] = []
        with _printed(printed):
            getattr(module, entry_of(self.text)[1])(
                *tensors, launchBlockSize=block_of(self.text), launchGridSize=[1, 1, 1]
            )
        outs = [n for n, buffer in enumerate(buffers) if buffer.is_out] or [0]
        return [number for n in outs for number in tensors[n].cpu().flatten()[: lengths[n]].tolist()], printed

    def run_entry(self, claim: Claim, result: Result) -> None:
        buffers = self.buffers()
        expected = expected_lines(self.path, self.text) if claim is Claim.NUMBERS else []
        if self.path.stem in DERIVATIVES:
            expected, result.why = DERIVATIVES[self.path.stem], Claim.DERIVATIVE.value
        module = self.load(kernel_text(self.text, buffers), self.path.name, buffers)
        got, printed = self.launch(module, buffers)
        if claim is Claim.NUMBERS:
            is_text = is_interpreted(self.text)
            different = different_lines(expected, printed) if is_text else different_numbers(expected, got)
            if different:
                result.outcome, result.why = WRONG, different
        self.compile_for_gpu(module, [entry_of(self.text)[1]], result)

    def compile_for_gpu(self, module: Any, kernels: list[str], result: Result) -> None:
        if not self.with_nvrtc:
            return
        try:
            for name in kernels:
                module._handle.cubin(name, "launch", [])
            result.nvrtc = "compiles"
        except RuntimeError as error:
            result.nvrtc = says(error)

    # Of the target torch, whose kernels slang_torch_kernels.py calls.
    def run_by_hand(self, claim: Claim, result: Result) -> None:
        from torch_slang import slangtorch

        module = slangtorch.loadModule(str(self.path))
        different = KERNELS[self.path.stem](module, self.device)
        result.outcome = WRONG if different else RIGHT
        result.why = different or (claim if claim is Claim.FAILS else Claim.NUMBERS).value

    # Without an entry: its kernels.
    def run_kernels(self, result: Result) -> None:
        import torch_slang

        module = torch_slang.load(
            source=views_for_buffers(self.text),
            name=self.path.name,
            namespace="slang_tests",
            include_dirs=[self.path.parent],
        )
        kernels = [name for name in module.kernels() if not module._handle.describe(name)["type_parameters"]]
        if not kernels and not module.functions():
            raise NotApplicableError("has nothing that is a kernel or a function")
        for name in kernels:
            about = module._handle.describe(name)
            for kind in ("forward", "backward", "fwd"):
                if about.get(kind) is not None:
                    module._handle.cuda_text(name, kind, [])
        self.compile_for_gpu(module, kernels, result)

    def run(self) -> Result:
        result = Result(self.path.name, RIGHT)
        try:
            claim = claim_of(self.text.replace("DISABLE_TEST", "TEST").replace("TEST_DISABLED", "TEST"))
            result.why = claim.value
            try:
                self.run_claim(claim, result)
            except ERRORS as error:
                is_expected = claim is Claim.FAILS and any(one in str(error) for one in messages_of(self.text))
                result.outcome = WRONG if is_broken(error) else RIGHT if is_expected else REFUSED
                result.why = claim.value if is_expected else says(error)
        except NotApplicableError as why:
            result.outcome, result.why = ELSEWHERE, str(why)
        return result

    def run_claim(self, claim: Claim, result: Result) -> None:
        if self.path.stem in KERNELS:
            self.run_by_hand(claim, result)
            return
        if "[AutoPyBindCUDA]" in self.text or (claim is not Claim.NUMBERS and not has_entry(self.text)):
            self.run_kernels(result)
        else:
            self.run_entry(claim, result)
        if claim is Claim.FAILS:
            self.differentiate_all()
            if result.outcome == RIGHT:
                result.outcome, result.why = WRONG, "no error"

    def differentiate_all(self) -> None:
        """Raises what the derivatives of functions that no entry calls do not compile with."""
        module = self.load(views_for_buffers(self.text), f"{self.path.name}_functions", [])
        for name in module.functions():
            if module._handle.describe(name)["backward"] is not None:
                module._handle.cuda_text(name, "backward", [])


# --- Derivatives of its functions, in float64


def uses_buffers(module: Any, name: str) -> bool:
    """Whether it uses buffers beside its parameters, which only an entry sets."""
    try:
        text = module._handle.cuda_text(name, "forward", [])
    except RuntimeError:
        return False  # told by its call
    return "TensorView" in text.partition("struct KernelContext")[2].partition("}")[0]


def check_function(module: Any, name: str, device: str) -> str | None:  # noqa: PLR0911
    """None: not a function of numbers and vectors with a derivative."""
    import torch
    from torch.autograd.gradcheck import GradcheckError

    try:
        about = module._handle.describe(name)
    except RuntimeError as error:  # it has a parameter of a name that PyTorch does not allow
        return f"refused: {says(error)}"
    leaves = [leaf for leaf in about["leaves"] if not leaf["is_output"]]
    plain = all(leaf["dtype"] in {"float64", "int32"} and not leaf["is_whole"] for leaf in leaves)
    plain = plain and all(size >= 0 for leaf in leaves for size in leaf["element_shape"])  # not of a generic one
    is_of_structs = any(parameter["fields"] for parameter in about["parameters"])
    if about["backward"] is None or about["type_parameters"] or is_of_structs or not plain:
        return None
    torch.manual_seed(1)
    values = []
    for leaf in leaves:
        real = torch.rand(3, *leaf["element_shape"], dtype=torch.float64) + 0.4
        whole = torch.ones(3, *leaf["element_shape"], dtype=torch.int32)
        values.append((real if leaf["dtype"] == "float64" else whole).to(device).requires_grad_(leaf["differentiable"]))
    if not any(value.requires_grad for value in values) or uses_buffers(module, name):
        return None

    def call(*arguments: torch.Tensor) -> Any:
        results = getattr(module, name)(*arguments)
        return results if isinstance(results, torch.Tensor) else tuple(one for one in results if one.requires_grad)

    try:
        torch.autograd.gradcheck(call, values, eps=1e-6, atol=1e-5, rtol=1e-4, nondet_tol=1e-9)
    except GradcheckError as error:
        return re.sub(r"\s+", " ", str(error))[:300]
    except ERRORS as error:
        if "'bwd_diff' is not a member" in str(error):
            return None  # its only derivative is a [ForwardDerivative]
        return says(error) if is_broken(error) else f"refused: {says(error)}"
    return "right"


def functions_of(path: Path, device: str) -> dict[str, str]:
    import torch_slang

    file = File(path, device, with_nvrtc=False)
    try:
        buffers = file.buffers()
        source = in_double(kernel_text(file.text, buffers))
    except NotApplicableError:
        source, buffers = in_double(views_for_buffers(file.text)), []
    try:
        module = torch_slang.load(
            source=source, name=f"{path.name}_double", namespace="slang_tests_double", include_dirs=[file.folder]
        )
    except RuntimeError:
        return {}  # told by the kernel, or there is no such function of doubles
    found = {name: check_function(module, name, device) for name in module.functions()}
    own = with_own_derivatives(file.text)
    is_own = {
        name: said is not None and said.startswith("Jacobian") and not own.isdisjoint({name, name.rpartition("_")[0]})
        for name, said in found.items()  # an overload's name ends with its type
    }
    return {name: OWN if is_own[name] else said for name, said in found.items() if said is not None}


def run_file(path: Path, folder: Path, device: str, with_functions: bool, with_nvrtc: bool) -> Result:
    file = File(path, device, with_nvrtc)
    result = file.run()
    result.file = str(path.relative_to(folder))
    is_refused = is_switched_off(file.text) and result.outcome in {REFUSED, WRONG} and "TEST_IGNORE" not in file.text
    if is_refused and re.search("DISABLE_TEST|TEST_DISABLED", file.text):
        result.outcome, result.why = ELSEWHERE, "switched off by Slang, and fails here too"
    if with_functions and result.why not in {Claim.FAILS.value, "part of another test"}:
        result.functions = functions_of(path, device)
    return result
