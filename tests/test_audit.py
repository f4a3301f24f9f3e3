"""Audits: a backward that is not the transpose of its forward derivative is found, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from devices import needs_cuda
from slang_bugs import BUGS, LEAVE_OUT, Bug

import torch_slang
from torch_slang.audit import Finding

Tensor = torch.Tensor
KERNEL = "[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] void"
RESULT = '[Out("N")] DiffTensorView<float> y'
GATHERED = '[Shape("M")] TensorView<int> n, [Out("M")] DiffTensorView<float> y'


@pytest.fixture(autouse=True)
def audits_first() -> Iterator[None]:
    before = torch_slang.audit.mode("first")
    yield
    torch_slang.audit.mode(before)


def gradients(operator: Callable[..., Tensor], *args: Any, order: int = 1) -> None:
    """Calls the backward, and the double backward."""
    given = [x for x in args if isinstance(x, Tensor) and x.requires_grad]
    results = operator(*args)
    result = results if isinstance(results, Tensor) else results[-1]
    found = torch.autograd.grad(result.sum(), given, create_graph=order > 1)
    if order > 1:
        torch.autograd.grad(sum(g.sum() for g in found), given)


def found_of(name: str) -> dict[int, Finding]:
    """By order."""
    return {one.order: one for one in torch_slang.audit.report() if one.name == name}


def leaf(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(len(sizes))
    return torch.randn(sizes, generator=generator, dtype=dtype).requires_grad_()


def test_functions_and_kernels_agree_in_both_orders() -> None:
    source = f"""
    [Differentiable] float3 bent(float a, float3 x) {{ return a * x * sin(x); }}
    [Differentiable] T scaled<T : __BuiltinFloatingPointType>(T a, T x) {{ return a * x * x; }}
    {KERNEL} climbed([Shape("N")] DiffTensorView<float> x, {RESULT})
    {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = max(x[i], 0.0f) * x[i]; }}
    """
    module = torch_slang.load(source=source, namespace="audit_agree")
    gradients(module.bent, leaf(100), leaf(100, 3), order=2)
    gradients(module.scaled, leaf(7, 1), leaf(5), order=2)
    gradients(module.climbed, leaf(100), order=2)
    for name in ("bent", "scaled", "climbed"):
        found = found_of(f"audit_agree::{name}")
        assert [found[order].outcome for order in (1, 2)] == ["agrees", "agrees"], found
        assert "audited: agrees with the forward derivative" in str(module.explain(name))
    assert found_of("audit_agree::scaled")[1].types == "float32"


# What an audit finds of the ledger where Slang's error is not mended; and what it cannot find, and why.
NOT_FOUND = {
    "constant_call": "the user asks for a constant, and both orders have another",
    "no_diff_call": "the user asks for a constant, and both orders have none",
    "quotient": "both orders square the divisor, which overflows in float32 alone",
    "constants_as_inout": "memory that was never set may hold the right number",
}
SILENT = [bug for bug in BUGS if bug.facts.get("derivative") != "value" and bug.name not in NOT_FOUND]


def unmended(bug: Bug, namespace: str) -> Any:
    return torch_slang.load(bug.path, namespace=namespace, defines={LEAVE_OUT: bug.facts["repair"]})


def inputs_of(bug: Bug) -> list[Tensor]:
    return [x.requires_grad_(x.is_floating_point()) for x in bug.inputs(torch.device("cpu"))]


def differentiate(bug: Bug, namespace: str) -> None:
    """Without Slang's error being mended."""
    gradients(unmended(bug, namespace).f, *inputs_of(bug))
    if bug.is_forward:
        bug.found(torch.device("cpu"), without_repair=True, namespace=namespace)


@pytest.mark.parametrize("bug", SILENT, ids=lambda bug: bug.name)
def test_an_error_of_slang_that_is_not_mended_is_found(bug: Bug) -> None:
    """Or does not compile."""
    with pytest.raises(RuntimeError, match=r"does not compile|is wrong: along|give .*, central differences"):
        differentiate(bug, f"audit_{bug.name}")


WRONG = next(bug for bug in BUGS if bug.name == "left_by_break")


def test_the_message_names_operator_argument_numbers_and_remedy() -> None:
    module = unmended(WRONG, "audit_message")
    message = (
        r"audit_message::f_backward: the gradient of \w+ is wrong: along a random direction the backward gives "
        r"[-\d.e]+, the forward derivative [-\d.e]+, central differences [-\d.e]+ .*\[ForceUnroll\].*"
        r'torch_slang.audit.accept\("audit_message::f"\)'
    )
    for _ in range(2):  # each call
        with pytest.raises(RuntimeError, match=message):
            gradients(module.f, *inputs_of(WRONG))
    torch_slang.audit.accept("audit_message.f")
    gradients(module.f, *inputs_of(WRONG))
    found = found_of("audit_message::f")[1]
    assert found.outcome == "wrong"
    assert "WRONG (accepted)" in str(found)


def test_beside_the_work_a_wrong_gradient_is_warned_of_and_raises_later(capfd: pytest.CaptureFixture[str]) -> None:
    torch_slang.audit.mode("background")
    module = unmended(WRONG, "audit_background")
    torch_slang.cache.clear()
    gradients(module.f, *inputs_of(WRONG))
    assert found_of("audit_background::f")[1].outcome == "waiting"
    assert "not audited yet" in str(module.explain("f"))
    assert torch_slang.audit.wait(120)
    said = capfd.readouterr().err
    assert "gradients that this process has computed so far with audit_background::f may be wrong" in said
    with pytest.raises(RuntimeError, match="is wrong"):
        gradients(module.f, *inputs_of(WRONG))


def test_off() -> None:
    torch_slang.audit.mode("off")
    gradients(unmended(WRONG, "audit_off").f, *inputs_of(WRONG))
    assert not found_of("audit_off::f")
    with pytest.raises(RuntimeError, match="expected off, background or first, but got 'of'"):
        torch_slang.audit.mode("of")


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
        timeout=120,
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


# Functions and kernels whose derivatives are right, and that an audit must leave alone: source, arguments, outcome.
INDEX = torch.tensor([3, 0, 0, 2], dtype=torch.int32)
RIGHT: dict[str, tuple[str, Callable[[], list[Any]], str]] = {
    "ties": (
        "[Differentiable] float f(float x, float y) { return max(x, y) * min(x, 0.0f) + abs(x) + clamp(y, 0, 1); }",
        lambda: [torch.zeros(50).requires_grad_(), torch.zeros(50).requires_grad_()],
        "agrees",
    ),
    "steps": (
        "[Differentiable] float f(float x) { return (x > 0 ? x * x : 3) + floor(x) + frac(x) * 2; }",
        lambda: [leaf(50)],
        "agrees",
    ),
    "singular": (
        "[Differentiable] float f(float x) { return sqrt(x) + log(x) + 1 / x; }",
        lambda: [torch.tensor([0.0, -1, 0, 2]).requires_grad_()],
        "agrees",
    ),
    "nowhere finite": (
        "[Differentiable] float f(float x) { return sqrt(-1 - x * x); }",
        lambda: [torch.full((4,), -1.0).requires_grad_()],
        "not audited",
    ),
    "constants": (
        "float g(float x) { return x * x; } [Differentiable] float f(float x) { return x * no_diff g(x) + detach(x); }",
        lambda: [leaf(50)],
        "agrees",
    ),
    "zero": ("[Differentiable] float f(float x) { return x * 0 + 1; }", lambda: [leaf(50)], "agrees"),
    "half": (
        "[Differentiable] half f(half x, float y) { return x * x * half(y); }",
        lambda: [leaf(50).half(), leaf(50)],
        "agrees",
    ),
    "bits": (
        "[Differentiable] float f(float x) { return x * x * float(1 + (no_diff asuint(x) & 0)); }",
        lambda: [leaf(50)],
        "agrees",
    ),
    "one number": (
        "[Differentiable] float f(float x) { return x * x; }",
        lambda: [torch.tensor(2.0).requires_grad_()],
        "agrees",
    ),
    "by hand": (
        """[BackwardDerivative(back)] [ForwardDerivative(ahead)] float step(float x) { return x > 0 ? 1.0f : 0.0f; }
        void back(inout DifferentialPair<float> x, float g) { x = diffPair(x.p, g); }
        DifferentialPair<float> ahead(DifferentialPair<float> x) { return diffPair(step(x.p), 2 * x.d); }
        [Differentiable] float f(float x) { return step(x) * x; }""",
        lambda: [leaf(50)],
        "not audited",
    ),
    "whole tensors": (
        """[Differentiable] float f(DiffTensorView<float> w, int i, float x) { return w[i] * x * x; }""",
        lambda: [leaf(6), torch.arange(50, dtype=torch.int32) % 6, leaf(50)],
        "agrees",
    ),
    "gathered": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, {GATHERED})
        {{ uint i = cudaGlobalIdx().x; if (i < n.size(0)) y[i] = x[n[i]] * x[n[i]]; }}""",
        lambda: [leaf(5), INDEX],
        "agrees",
    ),
    "unwritten": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, {RESULT})
        {{ uint i = cudaGlobalIdx().x; if (i < x.size(0) && i % 2 == 0) y[i] = x[i] * x[i]; }}""",
        lambda: [leaf(9)],
        "agrees",
    ),
    "reads what it stored": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, {RESULT})
        {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) {{ y[i] = x[i]; y[i] = y[i] * sin(y[i]); }} }}""",
        lambda: [leaf(9)],
        "agrees",
    ),
    "counts calls": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, [Out("1")] [Fill(0)] TensorView<int> n, {RESULT})
        {{
            uint i = cudaGlobalIdx().x;
            if (i >= x.size(0)) return;
            int old;
            n.InterlockedAdd(0u, 1, old);
            y[i] = x[i] * 3;
        }}""",
        lambda: [leaf(9)],
        "agrees",
    ),
    "replicas": (
        f"""{KERNEL} f([Shape("N")] DiffTensorViewR<float, 4> x, {GATHERED})
        {{ uint i = cudaGlobalIdx().x; if (i < n.size(0)) y[i] = x[n[i]] * x[n[i]]; }}""",
        lambda: [leaf(5), INDEX],
        "agrees",
    ),
    "a value": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, float s, {RESULT})
        {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = x[i] * s * s; }}""",
        lambda: [leaf(9), torch.tensor(2.0).requires_grad_()],
        "agrees",
    ),
    "large": (
        f"""{KERNEL} f([Shape("B, N")] DiffTensorView<float2> x, [Shape("2 * N")] TensorView<int> n,
            [Out("B, N")] DiffTensorView<float> y)
        {{
            uint i = cudaGlobalIdx().x;
            if (i >= y.size(0) * y.size(1)) return;
            uint2 at = uint2(i / y.size(1), i % y.size(1));
            float2 a = x[at], b = x[at.x, n[2 * at.y]];
            y[at] = a.x * b.y;
        }}""".replace("[CudaKernel]", '[CudaKernel] [LaunchTotal("B * N")]'),
        lambda: [leaf(3, 1 << 20, 2), torch.arange(1 << 21, dtype=torch.int32).flip(0) // 2],
        "agrees",
    ),
    "a large whole tensor": (
        """[Differentiable] float f(DiffTensorView<float> w, int i, float x) { return w[i, 1] * x * x; }""",
        lambda: [leaf(1 << 22, 2), torch.arange(1 << 22, dtype=torch.int32), leaf(1 << 22)],
        "agrees",
    ),
    "too large": (
        f"""{KERNEL} f([Shape("1 << 23")] DiffTensorView<float> x, {RESULT.replace("N", "1 << 23")})
        {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = x[i] * x[i]; }}""".replace("1 << 23", str(1 << 23)),
        lambda: [torch.zeros(1 << 23).requires_grad_()],
        "not audited",
    ),
    "an index beyond a part": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, {RESULT})
        {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = x[i] * x[x.size(0) % {1 << 23} < 99 ? i : {1 << 23}]; }}""",
        lambda: [torch.ones(1 << 23).requires_grad_()],
        "not audited",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_no_alarm(name: str) -> None:
    source, arguments, outcome = RIGHT[name]
    namespace = f"audit_{name.replace(' ', '_')}"
    module = torch_slang.load(source=source, namespace=namespace)
    gradients(module.f, *arguments())
    found = found_of(f"{namespace}::f")[1]
    assert found.outcome == outcome, found


def test_the_first_call_of_which_a_part_can_be_taken_is_audited() -> None:
    source, arguments, _ = RIGHT["an index beyond a part"]
    module = torch_slang.load(source=source, namespace="audit_small_later")
    gradients(module.f, *arguments())
    assert "its run for the audit failed" in str(module.explain("f"))
    gradients(module.f, leaf(9))
    assert found_of("audit_small_later::f")[1].outcome == "agrees"


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
    source = f"""
    [Differentiable] float f(float x) {{ return x * sin(x); }}
    {KERNEL} k([Shape("N")] DiffTensorView<float> x, {RESULT})
    {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = x[i] * x[i]; }}
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
