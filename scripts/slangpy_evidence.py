"""Runs SlangPy's own tests on torch_slang.slangpy, from a checkout of their repository.

    python scripts/slangpy_evidence.py CHECKOUT [--device cpu|cuda] [--only test_pytorch,...] [-k EXPRESSION] [--strike]

Their tests run as they are, with these changes made in a copy: `slangpy` is ours; on the CPU device="cuda" and
`.cuda()` mean the CPU; errors are expected by our words. Tests of SlangPy's own inside (signatures, marshalling,
graphics buffers) are left out, each for a reason. Writes a table for docs/slangpy.md.

--strike: without `import slangpy;` in Slang texts, and without the functions that name its tensor types.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

FOLDER = Path("slangpy", "tests", "slangpy_tests")
FILES = (
    *("test_torchintegration", "test_pytorch", "test_pytorch_gradient_parity", "test_torch_autograd_workflows"),
    *("test_torch_dtypes", "test_torch_mixed", "test_value_torch_pipeline"),
)

# Tests by what their names match, and why they are left out.
LEFT_OUT = {
    r"signature|call_data|diffpair_factory_(?!output)|marshall|hash_torch|factory_unsupported|slang_dtype|torch_dtype_to"
    r"|reduce_type|pack_float2|pack_scalar": "SlangPy's own inside",
    r"copy_tensor_to_buffer|copy_buffer_to_tensor|copy_noncontiguous|buffer_roundtrip": "buffers of graphics devices",
    r"cpu_tensor_rejected": "CPU tensors are welcome here",
}
LEFT_OUT_ON_CPU = {r"vram_stable": "counts a GPU's memory"}

OURS = [
    (r'"does not match slang type"', '"expected the shape of|no overload fits"'),
    (r"^from slangpy\.core\.callsignature import ResolveException", "ResolveException = (TypeError, RuntimeError)"),
]
ON_CPU = [
    (r'(["\'])cuda\1', '"cpu"'),
    (r"\.cuda\(\)", ".cpu()"),
    (r"torch\.cuda\.synchronize\(\)", "None"),
    (r"not torch\.cuda\.is_available\(\)", "False"),
]

CONFTEST = '''
import hashlib, sys, types
import pytest, torch
import torch_slang.slangpy as slangpy

class _Anything(type):
    def __getattr__(cls, name):
        raise AttributeError(name)

def _module(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
    return module

class _Inside:
    """SlangPy's own inside."""

def get_device(device_type=None, **settings):
    return slangpy.create_torch_device(include_paths=[FOLDER])

def create_module(device, source, **settings):
    return slangpy.Module.load_from_source(device, hashlib.sha256(source.encode()).hexdigest()[:16], source)

def create_function_from_module(device, name, source, **settings):
    if 'import "slangpy";' not in source:  # as their helper does
        source = 'import "slangpy"; ' + source
    module = create_module(device, source)
    names = name.split(".")
    found = module.require_function(names[0])
    return found

helpers = _module("slangpy.testing.helpers", DEFAULT_DEVICE_TYPES=[slangpy.DeviceType.cuda], get_device=get_device,
                  get_torch_device=get_device, create_module=create_module,
                  create_function_from_module=create_function_from_module)
sys.modules["slangpy"] = slangpy
testing = _module("slangpy.testing", helpers=helpers)
sys.modules["slangpy.types"] = slangpy.types
native = _module("slangpy.core.native", NativeCallDataCache=_Inside, NativeTorchTensorDiffPair=_Inside,
                 SignatureBuilder=_Inside)
sys.modules["slangpy.core"] = slangpy.core
marshall = _module("slangpy.torchintegration.torchtensormarshall")
_module("slangpy.torchintegration", diff_pair=slangpy.diff_pair, torchtensormarshall=marshall)
slangpy.torchintegration = sys.modules["slangpy.torchintegration"]

@pytest.fixture
def torch_bridge_mode():
    return "native"
'''


def struck(text: str) -> str:
    """A Slang text, or a test with such texts, without SlangPy's module in Slang."""
    text = re.sub(r"^import (slangpy|tensor);$", "", text, flags=re.MULTILINE)
    return re.sub(
        r"^(\[Differentiable\]\n)?[\w<>\[\], :]+ \w+(<[^>]*>)?\([^)]*Tensor<[^)]*\)\s*\{.*?^\}",
        "",
        text,
        flags=re.MULTILINE | re.DOTALL,
    )


def prepare(checkout: Path, folder: Path, device: str, strike: bool) -> None:
    """Copies the tests, with what is changed in them."""
    edits = OURS + (ON_CPU if device == "cpu" else [])
    for source in (checkout / FOLDER).glob("*.slang"):
        text = source.read_text()
        (folder / source.name).write_text(struck(text) if strike else text)
    for name in FILES:
        text = (checkout / FOLDER / f"{name}.py").read_text()
        for pattern, replacement in edits:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        (folder / f"{name}.py").write_text(
            re.sub(r"^import slangpy;$", "", text, flags=re.MULTILINE) if strike else text
        )
    (folder / "conftest.py").write_text(CONFTEST.replace("FOLDER", repr(str(folder))))


def reason_to_leave_out(name: str, device: str) -> str | None:
    table = {**LEFT_OUT, **(LEFT_OUT_ON_CPU if device == "cpu" else {})}
    return next((reason for pattern, reason in table.items() if re.search(pattern, name)), None)


def run(folder: Path, name: str, expression: str) -> ElementTree.Element:
    report = folder / f"{name}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{name}.py", f"--junitxml={report}"]
    if expression:
        command += ["-k", expression]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if not report.exists():
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return ElementTree.parse(report).getroot()


def count(root: ElementTree.Element, device: str) -> tuple[Counter[str], list[str]]:
    """How many passed, were left out (by reason) or skipped by themselves; and what failed."""
    counts: Counter[str] = Counter()
    failures = []
    for case in root.iter("testcase"):
        name = case.get("name", "")
        reason = reason_to_leave_out(name, device)
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        if reason is not None:
            counts[reason] += 1
        elif case.find("skipped") is not None:
            counts["skipped by SlangPy itself"] += 1
        elif problem is not None:
            counts["failed"] += 1
            text = (problem.text or problem.get("message") or "").strip().splitlines()
            errors = [line for line in text if line.startswith("E ")] or text
            failures.append(f"{name}: {errors[0][:300] if errors else ''}")
        else:
            counts["passed"] += 1
    return counts, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", default=",".join(FILES), help="files, without .py")
    parser.add_argument("-k", default="", help="as pytest's")
    parser.add_argument("--strike", action="store_true", help="without `import slangpy;` and its tensors in Slang")
    options = parser.parse_args()
    all_failures = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(options.checkout, folder, options.device, options.strike)
        print(f"| on {options.device} | passed | failed | left out |\n|---|---|---|---|")
        for name in options.only.split(","):
            counts, failures = count(run(folder, name, options.k), options.device)
            others = ", ".join(f"{n} {why}" for why, n in sorted(counts.items()) if why not in {"passed", "failed"})
            print(f"| {name} | {counts['passed']} | {counts['failed']} | {others} |", flush=True)
            all_failures += [f"{name}::{failure}" for failure in failures]
    print("\n".join(["", *all_failures]))
    return 1 if all_failures else 0


if __name__ == "__main__":
    sys.exit(main())
