"""Audits wherever a program calls a derivative: in its processes and threads, on a GPU, in epilogues, under vmap."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from audits import KERNEL, RESULT, found_of, gradients, leaf
from devices import needs_cuda
from long_tests import dear_file, some_tests
from slang_bugs import LEAVE_OUT

import torch_slang

Tensor = torch.Tensor
pytestmark = [some_tests(9), dear_file]


@pytest.fixture(autouse=True)
def audits_first() -> Iterator[None]:
    before = torch_slang.audit.mode("first")
    yield
    torch_slang.audit.mode(before)


RUN = """
import torch, torch_slang
module = torch_slang.load(source="[Differentiable] float f(float x) { return x * sin(x); }", namespace="audit_again")
x = torch.randn(5, requires_grad=True)
torch.autograd.grad(module.f(x).sum(), x)
print(torch_slang.audit.report()[0].outcome, torch_slang.audit.report()[0].seconds > 0)
"""


def run(mode: str, folder: Path, script: str = RUN, **variables: str) -> str:
    variables |= {"TORCH_SLANG_CACHE_DIR": str(folder), "TORCH_SLANG_AUDIT": mode}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | variables,
        check=True,
        capture_output=True,
        text=True,
        timeout=250,
    ).stdout


def test_one_process_audits_for_the_others(tmp_path: Path) -> None:
    assert run("first", tmp_path) == "agrees True\n"
    assert run("background", tmp_path) == "agrees False\n"  # from the disk
    assert list((tmp_path / "audit").iterdir())


def test_a_process_that_ends_waits_for_no_audit(tmp_path: Path) -> None:
    assert run("background", tmp_path) == "waiting False\n"
    assert not (tmp_path / "audit").exists() or not list((tmp_path / "audit").iterdir())


def test_a_damaged_entry_of_the_cache_is_audited_again(tmp_path: Path) -> None:
    run("first", tmp_path)
    (entry,) = (tmp_path / "audit").iterdir()
    entry.write_bytes(entry.read_bytes()[:-5])
    assert run("first", tmp_path) == "agrees True\n"


# Four operators, each called for the first time by eight threads at once.
THREADS = """
import threading, torch, torch_slang
source = "".join(f"[Differentiable] float f{k}(float x, float y) {{ return x * sin({k + 1} * y); }}" for k in range(4))
module = torch_slang.load(source=source, namespace="audit_threads")
failures = []
def work(n):
    try:
        for k in range(16):
            x = torch.randn(50, requires_grad=True)
            (found,) = torch.autograd.grad(getattr(module, f"f{(k + n) % 4}")(x, 0.5).sum(), x)
            torch.testing.assert_close(found, torch.full((50,), (torch.tensor(0.5) * ((k + n) % 4 + 1)).sin().item()))
    except Exception as error:
        failures.append(error)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failures, torch_slang.audit.wait(200), [one.outcome for one in torch_slang.audit.report()])
"""


@pytest.mark.parametrize("mode", ["background", "first"])
def test_many_threads_ask_for_one_audit_of_each_operator(mode: str, tmp_path: Path) -> None:
    assert run(mode, tmp_path, THREADS) == f"[] True {['agrees'] * 4}\n"
    assert len(list((tmp_path / "audit").iterdir())) == 4


@pytest.mark.parametrize("mode", ["background", "first"])
def test_a_cache_that_cannot_be_written_keeps_nothing_and_hinders_nobody(mode: str, tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("no folder")  # root may write to any folder
    script = RUN.replace("print", "torch_slang.audit.wait(60)\nprint")
    assert run(mode, folder, script) == "agrees True\n"


# Takes the wrong one of two functions for the derivative of the other, in texts that are not backwards.
COMPILER_WITH_AN_ERROR = """#!{python}
import json, subprocess, sys
command = [{compiler!r}, *sys.argv[1:]]
answer = subprocess.run(command, stdin=sys.stdin, stdout=subprocess.PIPE, text=True, check=True).stdout
for line in answer.splitlines():
    program = json.loads(line)
    for text in program.get("texts", []):
        if text.get("direction") != "backward":
            text["body"] = text["body"].replace("cos(", "sin(")
    print(json.dumps(program))
"""


def test_a_verdict_ends_with_its_compiler(tmp_path: Path) -> None:
    script = tmp_path / "torch-slangc"
    compiler = str(Path(torch_slang.__file__).parent / "bin" / "torch-slangc")
    script.write_text(COMPILER_WITH_AN_ERROR.format(python=sys.executable, compiler=compiler))
    script.chmod(0o755)
    folder = tmp_path / "cache"
    assert run("first", folder, TORCH_SLANG_COMPILER=str(script)) == "wrong tangents True\n"
    assert run("first", folder) == "agrees True\n"
    assert run("first", folder, TORCH_SLANG_COMPILER=str(script)) == "wrong tangents False\n"  # from the disk


# No backward before the fork: PyTorch's engine refuses one behind it where there is a GPU.
FORKED = """
import os, torch, torch_slang
module = torch_slang.load(source="[Differentiable] float f(float x) { return x * cos(x); }", namespace="audit_child")
x = torch.randn(5, requires_grad=True)
y = module.f(x).sum()
pid = os.fork()
if pid == 0:
    torch.autograd.grad(y, x)
    os._exit(0 if torch_slang.audit.wait(60) and torch_slang.audit.report()[0].outcome == "agrees" else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_forked_process_audits_for_itself(tmp_path: Path) -> None:
    assert run("background", tmp_path, FORKED) == "0\n"


def test_on_the_device(device: torch.device) -> None:
    source = "[Differentiable] float2 f(float2 x, float y) { return x * sin(y) / (1 + x.yx * x.yx); }"
    module = torch_slang.load(source=source, namespace=f"audit_{device.type}")
    torch_slang.audit.mode("first")
    gradients(
        module.f, leaf(3, 4, 2).detach().to(device).requires_grad_(), torch.tensor(0.3, device=device).requires_grad_()
    )
    assert found_of(f"audit_{device.type}::f")[1].outcome == "agrees"


@pytest.mark.parametrize("mode", ["background", "first"])
@pytest.mark.parametrize("variable", ["TORCH_SLANG_CXX", "TORCH_SLANG_COMPILER"])
def test_without_a_compiler_nothing_is_audited(variable: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with a GPU, whose kernels no C++ compiler has made."""
    name = f"audit_{variable.lower()}_{mode}"
    source = f"[Differentiable] float f(float x) {{ return x * sin(x); }}  // {name}"
    module, x = torch_slang.load(source=source, namespace=name), leaf(50)
    torch_slang.audit.mode("off")
    gradients(module.f, x)
    torch_slang.audit.mode(mode)
    monkeypatch.setenv(variable, "/nonexistent/compiler")
    gradients(module.f, x)
    assert torch_slang.audit.wait(120)
    gradients(module.f, x)
    found = found_of(f"{name}::f")[1]
    if variable == "TORCH_SLANG_CXX":
        assert found.outcome == "not audited"
        assert "/nonexistent/compiler" in str(module.explain("f"))
    else:  # torch-slangc has made the backward's text, but not the forward derivative's
        assert found.outcome in ("agrees", "not audited")


@needs_cuda
@pytest.mark.parametrize("mode", ["background", "first"])
def test_a_captured_backward_is_audited_at_a_later_call(mode: str) -> None:
    factor = 2 if mode == "first" else 3  # a text that no audit in the cache knows
    source = f"""
    [Differentiable] float f(float x) {{ return {factor} * x * sin(x); }}
    {KERNEL} k([Shape("N")] DiffTensorView<float> x, {RESULT})
    {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = {factor} * x[i] * x[i]; }}
    """
    module = torch_slang.load(source=source, namespace=f"audit_captured_{mode}")
    x = torch.full((100,), 2.0, device="cuda", requires_grad=True)

    def work() -> Tensor:
        return torch.autograd.grad((module.f(x) + module.k(x)).sum(), x)[0]

    torch_slang.audit.mode("off")
    expected = work()  # compiles
    torch_slang.audit.mode(mode)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = work()
    assert not found_of(f"audit_captured_{mode}::f")
    work()
    # An audit may copy and wait now, while another capture goes on.
    other = torch.cuda.CUDAGraph()
    with torch.cuda.graph(other, capture_error_mode="global"):
        work()
        assert torch_slang.audit.wait(120)
    for name in ("f", "k"):
        assert found_of(f"audit_captured_{mode}::{name}")[1].outcome == "agrees"
    found.zero_()
    graph.replay()
    other.replay()
    torch.testing.assert_close(found, expected)


def test_under_vmap_and_compile() -> None:
    module = torch_slang.load(
        source="[TorchOp] [Differentiable] float f(float x, float y) { return x * y * y; }", namespace="audit_vmap"
    )
    jacobian = torch.func.jacrev(lambda x: module.f(x, x * 2))(torch.randn(4))
    assert jacobian.shape == (4, 4)
    compiled = torch.compile(lambda x: module.f(x, x).sum(), backend="aot_eager")
    compiled(leaf(6)).backward()
    assert found_of("audit_vmap::f")[1].outcome == "agrees"


def test_a_kernel_under_vmap_is_audited_with_one_sample() -> None:
    source = f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, float s, {RESULT})
    {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = x[i] * x[i] * s; }}"""
    module = torch_slang.load(source=source, namespace="audit_samples")
    x, s = leaf(3, 5).detach(), leaf(3).detach()
    gradient = torch.func.grad(lambda x, s: module.f(x, s).sum())
    torch.testing.assert_close(torch.vmap(gradient)(x, s), 2 * x * s[:, None])
    assert found_of("audit_samples::f")[1].outcome == "agrees"
    twice = torch.func.hessian(lambda x: module.f(x, s[0]).sum())
    torch.testing.assert_close(torch.vmap(twice)(x), 2 * s[0] * torch.eye(5).expand(3, 5, 5))
    assert found_of("audit_samples::f")[2].outcome == "agrees"


def test_a_module_in_debug_mode_waits_for_its_audits() -> None:
    torch_slang.audit.mode("background")
    source = "[Differentiable] float f(float x) { return x * cos(3 * x); }"
    module = torch_slang.load(source=source, namespace="audit_debug", debug=True)
    gradients(module.f, leaf(50))
    assert found_of("audit_debug::f")[1].outcome == "agrees"


# --- Epilogues: the function that is made for their precision is an operator, and its backward theirs.

EPILOGUE = """
[Differentiable] float shaded(float total, float bias)
{
    float a = total + bias;
    int k = 0;
    [MaxIters(4)] while (k < 3) { if (k == 2) { a = a * bias; break; } a = a * total; ++k; }
    return a;
}
"""


def product(namespace: str, is_sparse: bool, **options: Any) -> Callable[[Tensor], Tensor]:
    """Of a matrix with another, shaded."""
    if not is_sparse:
        dense = torch_slang.matmul_with_epilogue(EPILOGUE, namespace=namespace, **options)
        return lambda x: dense(x, torch.ones(16, 16), 0.5 * x[0])
    sparse = torch_slang.block_sparse_mm_with_epilogue(EPILOGUE, namespace=namespace, **options)
    pattern = torch_slang.BlockPattern.random((16, 16), (16, 16), 1.0, torch.Generator())
    return lambda x: sparse(x, torch.ones(1, 16, 16), pattern, 0.5 * x[0])


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_an_epilogue_is_audited_in_both_orders(is_sparse: bool) -> None:
    namespace = f"audit_epilogue_{is_sparse}".lower()
    gradients(product(namespace, is_sparse), leaf(16, 16), order=2)
    found = found_of(f"{namespace}::shaded{'_block_sparse' if is_sparse else ''}_in_float")
    assert [found[order].outcome for order in (1, 2)] == ["agrees", "agrees"], found


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_a_wrong_epilogue_is_found(is_sparse: bool) -> None:
    namespace = f"audit_wrong_epilogue_{is_sparse}".lower()
    shade = product(namespace, is_sparse, defines={LEAVE_OUT: "while loops"})
    with pytest.raises(
        RuntimeError, match="_in_float_backward: the gradient of total is wrong: along a random direction"
    ):
        gradients(shade, leaf(16, 16))


def test_a_wrong_function_of_whole_tensors_is_found() -> None:
    source = """
    [Differentiable] float f(DiffTensorView<float> w, float x, int n)
    {
        float a = x;
        int k = 0;
        [MaxIters(4)] while (k < n) { if (k == 2) { a = a * w[0]; break; } a = a * x; ++k; }
        return a;
    }"""
    module = torch_slang.load(source=source, namespace="audit_wrong_whole", defines={LEAVE_OUT: "while loops"})
    with pytest.raises(RuntimeError, match=r"a gradient is wrong: along a random direction the backward gives"):
        gradients(module.f, leaf(3), leaf(50), torch.full((50,), 4, dtype=torch.int32))
