"""Lanes of a GPU's wave that add to the same elements sum first: the same gradients with and without, whoever is there.

Note [wave sums] in csrc/prelude/wave_sums.h says how. On the CPU there is nothing to sum: the gradients are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from cases import nvrtc_is_here
from long_tests import some_cases, some_tests
from torch import Tensor

import torch_slang
from torch_slang import _C

pytestmark = some_tests(6)

SOURCE = """
import torch_slang;
#define KERNEL [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
#define THREAD uint i = cudaGlobalIdx().x; if (i >= y.size(0)) return;

// What each thread adds to is given: all lanes the same, some, or none. Several additions in one statement.
#define GATHERED(NAME, VIEW, VIEW1)                                                                     \\
    KERNEL void NAME<T : IReal>(                                                                        \\
        [Shape("M, 3")] VIEW x, [Shape("M")] VIEW1 s, [Shape("N")] TensorView<int> at,                  \\
        [Out("N")] DiffTensorView<T> y)                                                                 \\
    {                                                                                                   \\
        THREAD                                                                                          \\
        uint k = uint(at[i]);                                                                           \\
        y[i] = x[uint2(k, 0)] * x[uint2(k, 1)] + x[uint2(k, 2)] * s[k] * T(1 + i % 3);                  \\
    }
GATHERED(gathered, DiffTensorView<T>, DiffTensorView<T>)
#define ALL DiffTensorViewAA<T>
GATHERED(gathered_aa, ALL, ALL)
#define REPLICATED DiffTensorViewR<T, 3>
GATHERED(gathered_r, REPLICATED, REPLICATED)
#define RECORDED DiffTensorViewASR<T, 2>
#define PLAIN DiffTensorView<T>
GATHERED(gathered_asr, PLAIN, RECORDED)

// Lanes that are not there: an early return, a loop of several lengths with continue and break, a branch.
KERNEL void divergent([Shape("M")] DiffTensorView<float> x, [Shape("N")] TensorView<int> at,
                      [Out("N")] DiffTensorView<float> y)
{
    THREAD
    if (i % 7 == 3) { y[i] = x[0]; return; }
    float sum = 0;
    [MaxIters(6)]
    for (uint k = 0; k < i % 6; ++k)
    {
        if ((i + k) % 4 == 1) continue;
        sum += x[k] * x[uint(at[i])];
        if (sum > 3.0f) break;
    }
    if (i % 2 == 0) sum *= x[uint(at[i])];
    y[i] = sum;
}

// More numbers than a run has, of vectors, structs and replicas, and of one element for all; barriers.
struct Pair : IDifferentiable { float a; float b; };
struct Wide : IDifferentiable { float3 a; float3 b; float3 c; float3 d; float3 e; float3 f; };  // too wide to sum
groupshared float shared_sums[64];
[BlockSize(64)]
KERNEL void many([Shape("M")] DiffTensorView<float3> v, [Shape("M, 9")] DiffTensorView<float> w,
                 [Shape("M")] DiffTensorViewR<float, 3> r, [Shape("M")] DiffTensorView<Pair> p,
                 [Shape("M")] DiffTensorView<Wide> m, [Shape("1")] DiffTensorView<float4> all,
                 [Shape("N")] TensorView<int> at, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    uint t = cudaThreadIdx().x;
    shared_sums[t] = float(t % 5);
    GroupMemoryBarrierWithGroupSync();
    if (i >= y.size(0)) return;
    uint k = uint(at[i]);
    float3 a = v[k];
    Pair pair = p[k];
    Wide wide = m[k];
    float sum = dot(a, a) * r[k] + pair.a * pair.b + dot(all[0], float4(a, 1.0f));
    sum += dot(wide.a, wide.b) + dot(wide.c, wide.d) + dot(wide.e, wide.f);
    for (uint j = 0; j < 9; ++j) sum += w[uint2(k, j)] * w[uint2(k, (j + 1) % 9)] * a.x;
    y[i] = sum * shared_sums[63 - t];
}

// A backward loop that a user writes: lanes pass an iteration's additions by `continue`, by a branch, or left the loop.
struct Item : IDifferentiable { float3 a; float b; }
[Differentiable]
float part(Item i, float scale, no_diff float p) { return (i.a.x + i.a.y * p) * i.a.z * i.b * scale; }
[Differentiable] Item item_at(DiffTensorView<Item> items, uint k) { return items[k]; }
[Differentiable] float scale_at(DiffTensorView<float> scales, uint k) { return scales[k]; }
bool passes(uint i, uint k, uint j) { return (i * 5 + k * 3 + j) % 7 < 3; }
uint length(uint i, uint n) { return i % 11 == 4 ? 0 : min(n, 5 + i / 32 % 5 + i % 3); }

float walk(DiffTensorView<Item> items, DiffTensorView<float> scales, TensorView<int> at, uint i, uint how)
{
    float sum = 0;
    for (uint j = 0; j < length(i, 12); ++j)
    {
        uint k = (uint(at[i]) + j) % uint(items.size(0));
        if (passes(i, k, j) != (how % 2 == 0)) sum += part(items[k], how > 1 ? scales[k] : 1.0f, float(i % 3));
    }
    return sum;
}
void walk_back(DiffTensorView<Item> items, DiffTensorView<float> scales, TensorView<int> at, uint i, uint how,
               float grad)
{
    for (uint j = 0; j < 12; ++j)
    {
        if (j >= length(i, 12)) break;
        uint k = (uint(at[i]) + j) % uint(items.size(0));
        if (how % 2 == 0)
        {
            if (passes(i, k, j)) continue;
        }
        else if (!passes(i, k, j)) continue;
        var item = diffPair(items[k]);
        var scale = diffPair(how > 1 ? scales[k] : 1.0f);
        bwd_diff(part)(item, scale, float(i % 3), grad);
        bwd_diff(item_at)(items, k, item.d);
        if (how > 1) bwd_diff(scale_at)(scales, k, scale.d);
    }
}
// The same, with the additions in a branch.
void walk_in_branches(DiffTensorView<Item> items, DiffTensorView<float> scales, TensorView<int> at, uint i, uint how,
                      float grad)
{
    for (uint j = 0; j < length(i, 12); ++j)
    {
        uint k = (uint(at[i]) + j) % uint(items.size(0));
        if (passes(i, k, j) != (how % 2 == 0))
        {
            var item = diffPair(items[k]);
            var scale = diffPair(how > 1 ? scales[k] : 1.0f);
            bwd_diff(part)(item, scale, float(i % 3), grad);
            if (scale.p > -100.0f)
            {
                bwd_diff(scale_at)(scales, k, how > 1 ? scale.d : 0.0f);
                bwd_diff(item_at)(items, k, item.d);
            }
        }
    }
}
// After the additions a function is called that has additions of its own, not in each iteration.
[Differentiable] float some_scale(DiffTensorView<float> scales, uint k)
{
    if (k % 3 == 0) return 0;
    float scale = scales[k];
    return scale * scale;
}
float walk_and_call(DiffTensorView<Item> items, DiffTensorView<float> scales, TensorView<int> at, uint i, uint how)
{
    float sum = 0;
    for (uint j = 0; j < length(i, 12); ++j)
    {
        uint k = (uint(at[i]) + j) % uint(items.size(0));
        if (passes(i, k, j)) sum += part(items[k], 1.0f, float(i % 3));
        sum += some_scale(scales, k);
    }
    return sum;
}
void walk_and_call_back(DiffTensorView<Item> items, DiffTensorView<float> scales, TensorView<int> at, uint i, uint how,
                        float grad)
{
    for (uint j = 0; j < length(i, 12); ++j)
    {
        uint k = (uint(at[i]) + j) % uint(items.size(0));
        if (passes(i, k, j))
        {
            var item = diffPair(items[k]);
            var scale = diffPair(1.0f);
            bwd_diff(part)(item, scale, float(i % 3), grad);
            bwd_diff(item_at)(items, k, item.d);
        }
        bwd_diff(some_scale)(scales, k, grad);
    }
}
#define ARGUMENTS DiffTensorView<Item> items, DiffTensorView<float> scales, TensorView<int> at
#define WALKED(NAME, WALK, BACK)                                                                            \\
    [BackwardDerivative(BACK)] float NAME##_walk(ARGUMENTS, uint i, uint how)                           \\
    { return WALK(items, scales, at, i, how); }                                                         \\
    KERNEL void NAME([Shape("M")] DiffTensorView<Item> items, [Shape("M")] DiffTensorView<float> scales, \\
                     [Shape("N")] TensorView<int> at, int how, [Out("N")] DiffTensorView<float> y)      \\
    { THREAD y[i] = NAME##_walk(items, scales, at, i, uint(how)); }
WALKED(walked, walk, walk_back)
WALKED(walked_in_branches, walk, walk_in_branches)
WALKED(walked_and_called, walk_and_call, walk_and_call_back)

// Several threads of the launch in one of the GPU, elements that are a thread's own, and a row that threads share.
KERNEL [LaunchTotal("N, M")] void mixed([Shape("M, N")] DiffTensorView<float> x, [Shape("N")] DiffTensorView<float> b,
                                        [Shape("K")] DiffTensorView<float> t, [Shape("M, N")] TensorView<int> at,
                                        [Out("M, N")] DiffTensorView<float> y)
{
    uint3 id = cudaGlobalIdx();
    if (id.x >= x.size(1) || id.y >= x.size(0)) return;
    y[id.y, id.x] = x[id.y, id.x] * b[id.x] * t[uint(at[uint2(id.y, id.x)])] + t[0];
}

// A plain function, which sees tensors whole: several additions in one statement, elements of odd and even sizes, some
// left out.
[Differentiable]
T bent<T : __BuiltinFloatingPointType>(DiffTensorView<vector<T, 3>> v, DiffTensorView<T> w,
                                       DiffTensorView<vector<T, 2>> p, no_diff int at, no_diff int i)
{
    vector<T, 3> a = v[uint(at)], b = v[uint(at) + 1];
    T sum = dot(a, b) * w[uint(at)];
    if (i % 5 == 2) return sum;
    vector<T, 2> q = p[uint(at)];
    if (i % 3 > 0) sum += q.x * q.y * w[uint(i % 7)];
    return sum * q.x;
}
"""
KINDS = ["one", "waves", "runs of 5", "pairs", "random", "mostly one"]


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="wave_sums", namespace="wave_sums")


def indices(kind: str, n: int, m: int, device: torch.device) -> Tensor:
    """By thread, the element that it reads."""
    generator = torch.Generator().manual_seed(3)
    at = {
        "one": torch.zeros(n),
        "waves": torch.arange(n) // 32 % m,
        "runs of 5": torch.arange(n) // 5 % m,
        "pairs": torch.arange(n) // 2 % m,
        "random": torch.randint(m, (n,), generator=generator),
        "mostly one": torch.where(torch.arange(n) % 11 == 0, torch.arange(n) % m, 0),
    }[kind]
    return at.to(device, torch.int32)


def random(*shape: int, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device, dtype).requires_grad_()


def doubled(*tensors: Tensor) -> list[Tensor]:
    return [t.detach().double().requires_grad_() for t in tensors]


def check(ours: list[Tensor], reference: list[Tensor], tolerance: float) -> None:
    for one, other in zip(ours, reference, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        difference = (one.grad.double() - other.grad).norm() / other.grad.norm().clamp_min(1e-30)
        assert difference < tolerance, (one.grad, other.grad)


def backward_kernels(module: torch_slang.Module, name: str, device: torch.device) -> list[bool]:
    """Of each of the device, whether its lanes sum."""
    kernels = module.explain(name)
    return [k.wave_sums for k in kernels if k.kind == "backward" and k.device.startswith(device.type)]


@some_cases(13)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["gathered", "gathered_aa", "gathered_r", "gathered_asr"])
def test_gathered_elements(
    module: torch_slang.Module, device: torch.device, sums: bool, name: str, kind: str, dtype: torch.dtype
) -> None:
    n, m = 1003, 40
    if device.type == "cpu" and kind != "waves":
        pytest.skip("on the CPU all kinds are alike")
    if dtype in (torch.float16, torch.bfloat16) and "one" in kind:
        pytest.skip("a thousand additions, each of which rounds")
    x, s = random(m, 3, device=device, dtype=dtype), random(m, device=device, dtype=dtype)
    at = indices(kind, n, m, device)
    getattr(module, name)(x, s, at).backward(torch.ones(n, device=device, dtype=dtype) / 64)
    xd, sd = doubled(x, s)
    k, factor = at.long(), 1 + torch.arange(n, device=device) % 3
    ((xd[k, 0] * xd[k, 1] + xd[k, 2] * sd[k] * factor) / 64).sum().backward()
    tolerance = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 0.1}[dtype]
    check([x, s], [xd, sd], tolerance)
    assert any(backward_kernels(module, name, device)) == (device.type == "cuda") or not sums


def test_halves_of_one_wave_are_rounded_once(module: torch_slang.Module, device: torch.device) -> None:
    if device.type == "cpu":
        pytest.skip("the CPU has no waves")
    n = 32 * 200
    before = _C.set_wave_sums(True)
    s = torch.ones(1, device=device, dtype=torch.bfloat16, requires_grad=True)
    x = torch.ones(1, 3, device=device, dtype=torch.bfloat16)
    module.gathered(x, s, torch.zeros(n, dtype=torch.int32, device=device)).sum().backward()
    _C.set_wave_sums(before)
    # Each wave adds some 64 at once; one by one they would stop to count at 256.
    assert s.grad is not None
    assert s.grad.item() > n


def divergent(x: Tensor, at: Tensor) -> Tensor:
    """One thread after the other."""
    results = []
    for i, k in enumerate(at.tolist()):
        if i % 7 == 3:
            results.append(x[0])
            continue
        total = x.new_zeros(())
        for j in range(i % 6):
            if (i + j) % 4 == 1:
                continue
            total = total + x[j] * x[k]
            if total > 3:
                break
        results.append(total * x[k] if i % 2 == 0 else total)
    return torch.stack(results)


@pytest.mark.parametrize("kind", KINDS)
def test_lanes_that_are_not_there(module: torch_slang.Module, device: torch.device, sums: bool, kind: str) -> None:
    n, m = 200, 9
    x = torch.rand(m, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()
    at = indices(kind, n, m, device)
    module.divergent(x, at).sum().backward()
    (reference,) = doubled(x.cpu())
    divergent(reference, at.cpu()).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu().double(), reference.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_many_numbers_of_one_element(module: torch_slang.Module, device: torch.device, sums: bool, kind: str) -> None:
    n, m = 700, 21
    shapes = ((m, 3), (m, 9), (m,), (m, 2), (m, 18), (1, 4))
    tensors = [random(*shape, device=device) for shape in shapes]
    at = indices(kind, n, m, device)
    v, w, r, p, f, a = tensors
    module.many(v, w, r, p, f, a, at).sum().backward()
    vd, wd, rd, pd, fd, ad = reference = doubled(*tensors)
    k = at.long()
    ones = torch.ones(n, 1, device=device, dtype=torch.float64)
    total = (vd[k] * vd[k]).sum(1) * rd[k] + pd[k].prod(1) + fd[k].reshape(n, 3, 2, 3).prod(2).sum((1, 2))
    total = total + (ad[0] * torch.cat([vd[k], ones], 1)).sum(1)
    total = total + (wd[k] * wd[k].roll(-1, 1)).sum(1) * vd[k, 0]
    (total * ((63 - torch.arange(n, device=device) % 64) % 5)).sum().backward()
    check(tensors, reference, 1e-5)


def iterations(at: Tensor, m: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Of all threads at once: the elements that they look at, whether they are still in the loop, and pass."""
    i = torch.arange(len(at), device=at.device)
    length = torch.where(i % 11 == 4, 0, (5 + i // 32 % 5 + i % 3).clamp_max(12))
    for j in range(12):
        k = (at.long() + j) % m
        yield k, j < length, (i * 5 + k * 3 + j) % 7 < 3


def walked(items: Tensor, scales: Tensor, at: Tensor, how: int) -> Tensor:
    i = torch.arange(len(at), device=at.device)
    total = items.new_zeros(len(at))
    for k, is_here, passes in iterations(at, len(items)):
        a, b = items[k, :3], items[k, 3]
        part = (a[:, 0] + a[:, 1] * (i % 3)) * a[:, 2] * b * (scales[k] if how > 1 else 1)
        total = total + torch.where(is_here & (passes != (how % 2 == 0)), part, 0)
    return total


@some_cases(16)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", range(4))
@pytest.mark.parametrize("name", ["walked", "walked_in_branches"])
def test_lanes_that_pass_an_iterations_additions_join_its_sums(
    module: torch_slang.Module, device: torch.device, sums: bool, name: str, how: int, kind: str
) -> None:
    n, m = 1003, 17
    items, scales = random(m, 4, device=device), random(m, device=device)
    at = indices(kind, n, m, device)
    weight = torch.arange(n, device=device) % 5 / 64
    (getattr(module, name)(items, scales, at, how) * weight).sum().backward()
    reference = doubled(items, scales)
    (walked(*reference, at, how) * weight).sum().backward()
    if how <= 1:
        assert scales.grad is None or not scales.grad.any()
        items_reference = reference[0].grad
        assert items.grad is not None
        assert items_reference is not None
        assert (items.grad.double() - items_reference).norm() < 1e-5 * items_reference.norm()
    else:
        check([items, scales], reference, 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_no_sum_is_lost_in_a_function_with_sums_of_its_own(
    module: torch_slang.Module, device: torch.device, sums: bool, kind: str
) -> None:
    n, m = 1003, 17
    items, scales = random(m, 4, device=device), random(m, device=device)
    at = indices(kind, n, m, device)
    weight = torch.arange(n, device=device) % 5 / 64
    (module.walked_and_called(items, scales, at, 0) * weight).sum().backward()
    reference = doubled(items, scales)
    total = walked(*reference, at, 1)
    for k, is_here, _ in iterations(at, m):
        total = total + torch.where(is_here & (k % 3 > 0), reference[1][k] ** 2, 0)
    (total * weight).sum().backward()
    check([items, scales], reference, 1e-5)


def test_such_additions_wait_until_the_iteration_ends(module: torch_slang.Module) -> None:
    for name, run in (("walked", "_BESIDE(4, 1)"), ("walked_in_branches", "(5, 3)")):
        text = text_of(module, name, [], wave_sums=True)
        assert f"TSL_SUMS_BEGIN{run}" in text, text
        assert f"TSL_SUMS_JOIN(tsl_sums_0, {run[-5:-1]});" in text, text


@some_cases(19)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_tensors_that_functions_see_whole(
    module: torch_slang.Module, device: torch.device, sums: bool, kind: str, dtype: torch.dtype
) -> None:
    if dtype == torch.float16 and "one" in kind:
        pytest.skip("a thousand additions, each of which rounds")
    n, m = 1003, 40
    v, w, p = tensors = [random(*shape, device=device, dtype=dtype) for shape in ((m + 1, 3), (m,), (m, 2))]
    at, i = indices(kind, n, m, device), torch.arange(n, device=device, dtype=torch.int32)
    (module.bent(v, w, p, at, i) / 64).sum().backward()
    vd, wd, pd = reference = doubled(*tensors)
    k = at.long()
    total = (vd[k] * vd[k + 1]).sum(1) * wd[k]
    more = torch.where(i % 3 > 0, pd[k].prod(1) * wd[i.long() % 7], 0)
    (torch.where(i % 5 == 2, total, (total + more) * pd[k, 0]) / 64).sum().backward()
    check(tensors, reference, {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 2e-2}[dtype])
    assert any(backward_kernels(module, "bent", device)) == (device.type == "cuda") or not sums


def test_functions_add_apart_in_deterministic_mode(module: torch_slang.Module, device: torch.device) -> None:
    v, w, p = (random(*shape, device=device) for shape in ((4, 3), (3,), (3, 2)))
    at, i = torch.zeros(2, 640, device=device, dtype=torch.int32)
    fresh = torch_slang.load(source=SOURCE, name="wave_sums", namespace="wave_sums_deterministic")
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with pytest.warns(UserWarning, match="added up atomically"):
            fresh.bent(v, w, p, at, i).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert not any(backward_kernels(fresh, "bent", device))


@pytest.mark.parametrize("virtual_threads", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_beside_own_and_shared_elements(
    module: torch_slang.Module, device: torch.device, sums: bool, kind: str, virtual_threads: bool
) -> None:
    rows, columns, m = 96, 1024, 50
    tensors = [random(*shape, device=device) for shape in ((rows, columns), (columns,), (m,))]
    at = indices(kind, rows * columns, m, device).reshape(rows, columns)
    before = _C.set_virtual_threads_for_all(virtual_threads)
    module.mixed(*tensors, at).sum().backward()
    _C.set_virtual_threads_for_all(before)
    x, b, t = reference = doubled(*tensors)
    (x * b * t[at.long()] + t[0]).sum().backward()
    check(tensors, reference, 1e-4)


def test_explain_says_so(module: torch_slang.Module, device: torch.device, sums: bool) -> None:
    x, s = random(4, 3, device=device), random(4, device=device)
    module.gathered(x, s, torch.zeros(100, dtype=torch.int32, device=device)).sum().backward()
    summing = backward_kernels(module, "gathered", device)
    assert any(summing) == (device.type == "cuda") or not sums
    assert ("sum first" in str(module.explain("gathered"))) == any(k.wave_sums for k in module.explain("gathered"))


def test_own_elements_have_nothing_to_sum(device: torch.device) -> None:
    source = (
        SOURCE
        + """
    KERNEL void squares([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
    { THREAD y[i] = x[i] * x[i] * x[i]; }"""
    )
    module = torch_slang.load(source=source, name="wave_sums_own", namespace="wave_sums_own")
    x = random(1000, device=device)
    module.squares(x).sum().backward()
    torch.testing.assert_close(x.grad, 3 * x.detach() ** 2)
    assert backward_kernels(module, "squares", device) == [False]


def test_deterministic_calls_add_apart(device: torch.device) -> None:
    module = torch_slang.load(source=SOURCE, name="wave_sums_apart", namespace="wave_sums_apart")
    x, s = random(4, 3, device=device), random(4, device=device)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        module.gathered(x, s, torch.zeros(100, dtype=torch.int32, device=device)).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert not any(backward_kernels(module, "gathered", device))


@some_cases(1)
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", ["gathered", "gathered_r", "gathered_asr", "divergent", "many", "mixed"])
def test_what_sums_compiles_for_a_gpu(module: torch_slang.Module, name: str, architecture: str) -> None:
    if not nvrtc_is_here():
        pytest.skip("NVRTC is not installed")
    typed = [["float32"], ["float16"], ["float64"]] if name.startswith("gathered") else [[]]
    for types in typed:
        image = module._handle.cubin(name, "backward", types, architecture=architecture, wave_sums=True)
        assert image.startswith(b"\x7fELF")


def text_of(module: torch_slang.Module, name: str, types: list[str], wave_sums: bool) -> str:
    text = module._handle.cuda_text(name, "backward", types, wave_sums=wave_sums)
    return text[text.rindex("struct Kernel :") :]


def test_additions_of_one_statement_are_one_run(module: torch_slang.Module) -> None:
    count: Callable[[str, str], int] = str.count
    for name, numbers in (("gathered", 4), ("gathered_r", 4)):
        text = text_of(module, name, ["float32"], wave_sums=True)
        assert count(text, f"TSL_SUMS_BEGIN({numbers}, 15);") == count(text, f"TSL_SUMS_END({numbers}, 15);") == 1, text
    assert "TSL_SUMS" not in text_of(module, "gathered", ["float64"], wave_sums=True)  # a run has floats
