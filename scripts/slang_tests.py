"""Runs Slang's own tests of derivatives through torch_slang and compares with the numbers that they expect.

    python scripts/slang_tests.py FOLDER [--device cpu|cuda] [--only PATTERN] [--jobs N] [--functions] [--no-nvrtc]
        [--json FILE] [--write]

FOLDER is tests/autodiff of shader-slang/slang, of tag v2026.16: `git archive v2026.16 tests/autodiff | tar -x`.

Each compute test's entry becomes a kernel: the text is rewritten so that the buffers of its `//TEST_INPUT` lines are
TensorViews, which the entry gets as parameters, and its thread comes from CUDA's indices. What it writes is compared
with `X.slang.expected.txt` or with the numbers of its `CHECK` lines. Without a GPU NVRTC compiles it for sm_90 as well.

--functions: also differentiates each `[Differentiable]` function of numbers and vectors, in a copy of the text in which
float is double, and compares with central differences in float64.

Of each file: right; refused (an error that names what it is about); wrong; not applicable (and why). It ends with 1 if
any is wrong. Each file runs in a process of its own, since a wrong program may end it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from marked_tables import write_table

TYPES = {"float": "float32", "int": "int32", "uint": "int32"}
KINDS = "|".join(TYPES)
RIGHT, REFUSED, WRONG, ELSEWHERE = "right", "refused", "wrong", "not applicable"
LIMIT_S = 900.0  # of one file


class NotApplicableError(Exception):
    """What the test is about is not what torch_slang does; the reason is for the table."""


@dataclass
class Result:
    file: str
    outcome: str
    why: str = ""
    nvrtc: str = ""  # "compiles", or what it says
    functions: dict[str, str] = field(default_factory=dict)  # name: "right", or what is wrong


# --- What a test says about itself


@dataclass(frozen=True)
class Buffer:
    name: str
    type: str
    width: int  # components of an element
    words: list[int]
    is_out: bool


def reason_to_leave_out(text: str) -> str | None:
    """Why a file is not a compute test that runs somewhere, or None."""
    if re.search(r"^\s*//TEST(\([^)]*\))?:COMPARE_COMPUTE", text, re.MULTILINE):
        return None
    for pattern, reason in [
        (r"TEST_IGNORE_FILE", "part of another test"),
        (r"//DIAGNOSTIC_TEST", "expects an error or warning of Slang's"),
        (r"//TEST[^:\n]*:INTERPRET", "of Slang's interpreter"),
        (r"-target torch", "text of the target torch"),
        (r"//TEST[^:\n]*:(SIMPLE|COMPILE)", "the text of a target"),
        (r"//(DISABLE_TEST|TEST_DISABLED)", "switched off by Slang"),
    ]:
        if re.search(pattern, text):
            return reason
    return "not a test"


def words_of(text: str) -> list[int]:
    """As Slang's tests have them: a number without a point is a whole one, in a buffer of floats too."""
    found = []
    for number in re.findall(r"[^\s,]+", text):
        is_whole = re.fullmatch(r"-?\d+|0[xX][0-9a-fA-F]+", number) is not None
        packed = (
            (int(number, 0) & 0xFFFFFFFF).to_bytes(4, "little")
            if is_whole
            else struct.pack("<f", float(number.rstrip("f")))
        )
        found.append(int.from_bytes(packed, "little", signed=True))
    return found


def buffers_of(text: str) -> list[Buffer]:
    declared = re.findall(rf"StructuredBuffer<\s*({KINDS})([234]?)\s*>\s*(\w+)\s*[;,)]", text)
    types = {name: (kind, int(width or 1)) for kind, width, name in declared}
    found = []
    for line in re.findall(r"^\s*//TEST_INPUT:(.*)$", text, re.MULTILINE):
        if "type_conformance" in line:
            continue
        data = re.search(r"ubuffer\(data=\[([^\]]*)\]", line)
        name = re.search(r"set\s+(\w+)\s*=", line) or re.search(r"name[ =]\s*(\w+)", line)
        if data is None or name is None or name[1] not in types:
            raise NotApplicableError("buffers of structs, handles, textures or pointers")
        is_out = re.search(r"\bout\b", line) is not None
        found.append(Buffer(name[1], *types[name[1]], words_of(data[1]), is_out))
    if not found:
        raise NotApplicableError("no buffer")
    return found


def expected_lines(path: Path, text: str) -> list[str]:
    """Of the values that a test writes: a number, or a pattern that FileCheck knows; in order."""
    beside = path.with_name(path.name + ".expected.txt")
    lines = beside.read_text().splitlines() if beside.exists() else []
    lines = [line.strip() for line in lines if line.strip() and "type:" not in line]
    if lines and re.fullmatch(r"[-+.\w]+", lines[0]):
        return lines
    prefix = re.search(r"^\s*//TEST[^\n]*filecheck-buffer=(\w+)", text, re.MULTILINE)
    if prefix is None:
        raise NotApplicableError("no expected numbers")
    lines = re.findall(rf"//\s*{prefix[1]}(?:-NEXT|-SAME|-DAG)?:\s*(.*?)\s*$", text, re.MULTILINE)
    return [line for line in lines if "type:" not in line]


# --- The text as a kernel of ours


def entry_of(text: str) -> re.Match[str]:
    name = re.search(r"^\s*//TEST[^\n]*-entry (\w+)", text, re.MULTILINE)
    found = re.search(rf"(?:public\s+)?void\s+({name[1] if name else 'computeMain'})\s*\(([^)]*)\)\s*\{{", text)
    if found is None:
        raise NotApplicableError("no entry of a compute shader")
    return found


def thread_of(parameters: str) -> str:
    """The entry's system values as variables."""
    lines = []
    indices = {"SV_DispatchThreadID": "cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx()"}
    indices |= {"SV_GroupThreadID": "cudaThreadIdx()", "SV_GroupID": "cudaBlockIdx()"}
    for parameter in filter(None, map(str.strip, parameters.split(","))):
        found = re.fullmatch(r"(u?int)([23]?)\s+(\w+)\s*:\s*(\w+)", parameter)
        if found is None and "StructuredBuffer" in parameter:
            continue  # a buffer's declaration
        if found is None or found[4] not in indices:
            raise NotApplicableError("an entry with other parameters than buffers and its thread")
        part = {"": ".x", "2": ".xy", "3": ""}[found[2]]
        lines.append(f"{found[1]}{found[2]} {found[3]} = {found[1]}{found[2]}(({indices[found[4]]}){part});")
    return " ".join(lines)


def types_in_use(text: str, view: str, element: str) -> tuple[str, str]:
    """Functions and calls, never made, that use each type of a `type_conformance`: so Slang's linker knows of it."""
    pairs = re.findall(r"^\s*//TEST_INPUT:\s*type_conformance\s+(\S+?)\s*:\s*(\S+)\s*=", text, re.MULTILINE)
    functions, calls = [], []
    for number, (kind, interface) in enumerate(pairs):
        used = f"if (kept is {kind}) view[0] = {element}(0);"
        functions.append(
            f"[noinline] void tsl_keep_{number}({interface} kept, TensorView<{element}> view) {{ {used} }}"
        )
        calls.append(f"{{ {kind} tsl_type; tsl_keep_{number}(tsl_type, {view}); }}")
    return " ".join(functions), f"if ({view}.size(0) == 0) {{ {' '.join(calls)} }}" if calls else ""


def kernel_text(text: str, buffers: list[Buffer]) -> str:
    """Buffers that functions use beside the entry are static, and set by the entry."""
    entry = entry_of(text)
    element = {b.name: f"{b.type}{b.width if b.width > 1 else ''}" for b in buffers}
    declaration = rf"^[ \t]*(?:public |uniform )*(?:RW)?StructuredBuffer<[^>\n]*>\s*(?:{'|'.join(element)})\s*;"
    before, after = (
        re.sub(declaration, "", part, flags=re.MULTILINE) for part in (text[: entry.start()], text[entry.end() :])
    )
    elsewhere = re.sub(r"//.*", "", before)
    shared = [name for name in element if re.search(rf"\b{name}\b", elsewhere)]
    parameters = ", ".join(f"TensorView<{kind}> {name}{'_given' * (name in shared)}" for name, kind in element.items())
    sets = " ".join(f"{name} = {name}_given;" for name in shared)
    head = f"[PyBindCUDA(Auto)] [CudaKernel] void {entry[1]}({parameters}) {{ {thread_of(entry[2])} {sets} "
    functions, calls = types_in_use(text, *next(iter(element.items())))
    result = f"{before}{functions} {head}{calls}{after}"
    attribute = r'(?:shader\("\w+"\)|numthreads\([^)]*\))'
    result = re.sub(rf"\[\s*{attribute}(?:\s*,\s*{attribute})*\s*\]", "", result)
    result = re.sub(r"\b(?:RW)?StructuredBuffer<\s*(\w+)\s*>(?!\.)", r"TensorView<\1>", result)
    return "".join(f"static TensorView<{element[name]}> {name}; " for name in shared) + result


def block_of(text: str) -> list[int]:
    found = re.search(r"numthreads\(\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)", text[: entry_of(text).start() + 1])
    return [int(size) for size in found.groups()] if found else [1, 1, 1]


# --- One file, in a process of its own


def says(error: BaseException) -> str:
    text = re.sub(r"\b(?:(?:the forward of )?\w+ in )?[\w-]+\.slang\b", "the file", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if re.search(r"error\[|signal|is refused", line)]
    lines = told or lines
    return " / ".join(dict.fromkeys([*lines[:1], *told[:2]]))[:400]


def agrees(got: float, expected: str) -> bool:
    """As slang-test compares: numbers nearly, other text as FileCheck does."""
    try:
        number = float(expected.rstrip("f"))
    except ValueError:
        parts = re.split(r"\{\{(.*?)\}\}", expected)
        pattern = "".join(part if n % 2 else re.escape(part) for n, part in enumerate(parts))
        return any(re.search(pattern, shown) for shown in (f"{got:f}", f"{got:g}", f"{got:.0f}"))
    if math.isnan(got) or math.isnan(number):
        return math.isnan(got) and math.isnan(number)
    return got == number or abs(got - number) <= 1e-4 * max(1.0, abs(number))


def compare(path: Path, text: str, got: list[float]) -> str:
    """What differs, or an empty text."""
    expected = expected_lines(path, text)
    if len(expected) > len(got):
        raise NotApplicableError("expects other text than its buffer")
    left = iter(got)
    if len(expected) < len(got) and all(any(agrees(number, line) for number in left) for line in expected):
        return ""  # FileCheck passes over lines that it does not name
    differ = [f"[{n}] {g:g} for {e}" for n, (g, e) in enumerate(zip(got, expected, strict=False)) if not agrees(g, e)]
    return "; ".join(differ)


def launch(module: Any, name: str, buffers: list[Buffer], block: list[int], device: str) -> list[float]:
    import torch

    tensors = []
    for buffer in buffers:
        words = torch.tensor(buffer.words or [0], dtype=torch.int32).view(getattr(torch, TYPES[buffer.type]))
        tensors.append((words.reshape(-1, buffer.width) if buffer.width > 1 else words).to(device))
    getattr(module, name)(*tensors, launchBlockSize=block, launchGridSize=[1, 1, 1])
    outputs = [t for b, t in zip(buffers, tensors, strict=True) if b.is_out] or tensors[:1]
    return [number for tensor in outputs for number in tensor.flatten().tolist()]


def run_kernel(path: Path, text: str, device: str, with_nvrtc: bool) -> Result:
    import torch_slang

    result = Result(path.name, RIGHT)
    buffers = buffers_of(text)
    expected_lines(path, text)
    name = entry_of(text)[1]
    try:
        module = torch_slang.load(
            source=kernel_text(text, buffers), name=path.name, namespace="slang_tests", include_dirs=[path.parent]
        )
        got = launch(module, name, buffers, block_of(text), device)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if "-experimental-feature" in text:
            raise NotApplicableError("wants Slang's -experimental-feature") from error
        result.outcome, result.why = REFUSED, says(error)
        return result
    different = compare(path, text, got)
    if different:
        result.outcome, result.why = WRONG, different
    if with_nvrtc:
        try:
            module._handle.cubin(name, "launch", [])
            result.nvrtc = "compiles"
        except RuntimeError as error:
            result.nvrtc = says(error)
    return result


# --- Derivatives of its functions, in float64


def in_double(text: str) -> str:
    text = re.sub(r"(?<![\w.])(\d+\.\d*|\.\d+|\d+)f\b", r"\1", text)
    return re.sub(r"\bfloat([234](?:x[234])?)?\b", r"double\1", text)


def check_function(module: Any, name: str, device: str) -> str | None:
    """None: not a function of numbers and vectors with a derivative."""
    import torch

    about = module._handle.describe(name)
    leaves = [leaf for leaf in about["leaves"] if not leaf["is_output"]]
    plain = all(leaf["dtype"] in {"float64", "int32"} and not leaf["is_whole"] for leaf in leaves)
    if about["backward"] is None or about["type_parameters"] or not plain or len(leaves) != len(about["parameters"]):
        return None
    torch.manual_seed(1)
    values = []
    for leaf in leaves:
        real = torch.rand(3, *leaf["element_shape"], dtype=torch.float64) + 0.4
        whole = torch.ones(3, *leaf["element_shape"], dtype=torch.int32)
        values.append((real if leaf["dtype"] == "float64" else whole).to(device).requires_grad_(leaf["differentiable"]))
    if not any(value.requires_grad for value in values):
        return None
    try:
        torch.autograd.gradcheck(getattr(module, name), values, eps=1e-6, atol=1e-5, rtol=1e-4, nondet_tol=1e-9)
    except torch.autograd.gradcheck.GradcheckError as error:
        return says(error)
    except (RuntimeError, TypeError, ValueError) as error:
        return f"refused: {says(error)}"
    return "right"


def run_functions(path: Path, text: str, device: str) -> dict[str, str]:
    import torch_slang

    try:
        source = in_double(kernel_text(text, buffers_of(text)))
    except NotApplicableError:
        source = in_double(text)
    try:
        module = torch_slang.load(
            source=source, name=f"{path.name}_double", namespace="slang_tests_double", include_dirs=[path.parent]
        )
    except RuntimeError:
        return {}  # told by the kernel, or there is no such function of doubles
    found = {name: check_function(module, name, device) for name in module.functions()}
    return {name: said for name, said in found.items() if said is not None}


def run_file(path: Path, folder: Path, options: argparse.Namespace) -> Result:
    text = path.read_text()
    reason = reason_to_leave_out(text)
    try:
        if reason is not None:
            raise NotApplicableError(reason)
        result = run_kernel(path, text, options.device, not options.no_nvrtc)
    except NotApplicableError as why:
        result = Result(path.name, ELSEWHERE, str(why))
    if options.functions and reason not in {"expects an error or warning of Slang's", "part of another test"}:
        result.functions = run_functions(path, text, options.device)
    result.file = str(path.relative_to(folder))
    return result


def in_own_process(path: Path, folder: Path, options: argparse.Namespace) -> Result:
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch_slang"])
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sending, path, folder, options))
    process.start()
    sending.close()
    found = None
    try:
        if receiving.poll(LIMIT_S):
            found = receiving.recv()
    except EOFError:
        pass
    if found is None:
        process.kill()
    process.join()
    if found is not None:
        return found
    ending = process.exitcode or 0
    said = signal.Signals(-ending).name if ending < 0 else f"exit {ending}"
    return Result(str(path.relative_to(folder)), WRONG, f"the process ended: {said}")


def _send(sending: Any, path: Path, folder: Path, options: argparse.Namespace) -> None:
    sending.send(run_file(path, folder, options))


# --- The table


def table(results: list[Result], device: str) -> Iterator[str]:
    counts = Counter(result.outcome for result in results)
    compiled: Counter[bool] = Counter(result.nvrtc == "compiles" for result in results if result.nvrtc)
    yield f"{len(results)} files, on {device}."
    yield ""
    yield "| outcome | files |"
    yield "|---|---|"
    yield from (f"| {outcome} | {counts[outcome]} |" for outcome in (RIGHT, WRONG, REFUSED, ELSEWHERE))
    yield f"| compiled by NVRTC for sm_90, of those that ran | {compiled[True]} of {compiled.total()} |"
    functions = [said for result in results for said in result.functions.values()]
    if functions:
        refused = sum(said.startswith("refused") for said in functions)
        right = functions.count("right")
        wrong = len(functions) - right - refused
        yield f"| functions against central differences | {right} right, {wrong} wrong, {refused} refused |"
    for outcome, title in ((WRONG, "wrong"), (REFUSED, "refused"), (ELSEWHERE, "not applicable")):
        reasons: dict[str, list[str]] = {}
        for result in results:
            if result.outcome == outcome:
                reasons.setdefault(cell(result.why), []).append(result.file.removesuffix(".slang"))
        if reasons:
            yield ""
            yield f"| {title}: why | files |"
            yield "|---|---|"
        for why, files in sorted(reasons.items(), key=lambda item: -len(item[1])):
            yield f"| {why} | {len(files)}: {', '.join(files[:6])}{', ...' * (len(files) > 6)} |"


def cell(text: str) -> str:
    return text.replace("|", "\\|")[:300]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", default="", help="a regular expression of files' names")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--no-nvrtc", action="store_true")
    parser.add_argument("--json", type=Path, help="the results; those that it has already are kept")
    parser.add_argument("--write", action="store_true", help="the table into docs/derivatives.md")
    options = parser.parse_args()
    folder = options.folder.resolve()
    paths = [p for p in sorted(folder.rglob("*.slang")) if re.search(options.only, str(p.relative_to(folder)))]
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}

    def one(path: Path) -> Result:
        name = str(path.relative_to(folder))
        if name not in kept:
            start = time.monotonic()
            kept[name] = vars(in_own_process(path, folder, options))
            if options.json:
                options.json.write_text(json.dumps(dict(sorted(kept.items())), indent=1))
            print(f"{name}: {kept[name]['outcome']} {kept[name]['why']} ({time.monotonic() - start:.0f} s)", flush=True)
        return Result(**kept[name])

    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, paths))
    lines = list(table(results, options.device))
    print("\n".join(lines))
    wrong = [f"{r.file}: {name}: {said}" for r in results for name, said in r.functions.items() if said != "right"]
    print("\n".join(wrong))
    if options.write:
        write_table("slang_tests", lines)
    return 1 if any(r.outcome == WRONG for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
