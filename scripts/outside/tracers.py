"""The backwards of the ray tracers of half-potato/radiance_meshes. Their forwards are OptiX programs, which nothing but
OptiX runs; what these record is made here, in float64.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from .cases import GRADIENTS, Random, Table, Tensor, float64, grad

ELLIPSOIDS = "tracers/ever"
TETRAHEDRA = "tracers/splinetracers"
ZEROTH = 0.28209479177387814  # of the spherical harmonics


def load(checkout: Path, folder: str, tracer: str) -> Any:
    import slangtorch

    path = checkout / folder / tracer / "slang" / "backwards_kernel.slang"
    return slangtorch.loadModule(str(path), includePaths=[str(checkout / folder / "slang")])


def rotations(quaternions: Tensor) -> Tensor:
    w, x, y, z = torch.nn.functional.normalize(quaternions, dim=1).unbind(1)
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]
    rows += [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]
    rows += [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    return torch.stack(rows, 1).unflatten(1, (3, 3))


def rays_that_begin_inside(table: Table, checkout: Path) -> None:
    """Gradients of the ellipsoids that a ray's origin lies in."""
    module = load(checkout, ELLIPSOIDS, "fast_ellipsoid_splinetracer")
    random, count, rays = Random(16, table.device), 20, 40
    means, scales = 0.5 * random.normal(count, 3), random.uniform(count, 3, low=0.4, high=1.5)
    quaternions, densities = random.normal(count, 4), random.uniform(count)
    features, weights = random.normal(count, 1, 3), random.normal(rays, 4)
    origins = torch.zeros(rays, 3, device=table.device)
    directions = torch.nn.functional.normalize(random.normal(rays, 3), dim=1)
    chosen = torch.arange(0, count, 2, dtype=torch.int32, device=table.device)

    model = [means, scales, quaternions, densities, features]
    gradients = [torch.zeros_like(x) for x in model]
    others = [torch.zeros(rays, 3, device=table.device) for _ in range(2)]
    tmin = 0.125
    module.backwards_initial_drgb_kernel(
        ray_origins=origins,
        ray_directions=directions,
        model=(*model, *gradients, *others, torch.zeros(count, 2, device=table.device)),
        initial_drgb=torch.zeros(rays, 4, device=table.device),
        initial_inds=chosen,
        dL_dinital_drgb=weights,
        touch_count=torch.zeros(count, dtype=torch.int32, device=table.device),
        tmin=tmin,
    ).launchRaw(blockSize=(64, 16, 1), gridSize=(1, 1, 1))

    m, s, q, d, f, v = float64(*model, weights)
    d, f = d.requires_grad_(), f.requires_grad_()
    starts = origins.cpu().double() + tmin * directions.cpu().double()
    local = torch.einsum("rpi,pij->rpj", starts[:, None] - m, rotations(q)) / s
    inside = (local.norm(dim=2) <= 1) & (torch.arange(count) % 2 == 0)
    drgb = torch.cat([d[:, None], d[:, None] * (ZEROTH * f[:, 0] + 0.5)], 1)
    expected = grad([inside.double() @ drgb], [d, f], [v])
    file = f"{ELLIPSOIDS}/fast_ellipsoid_splinetracer/slang/backwards_kernel.slang"
    pairs = {"densities": (gradients[3], expected[0]), "features": (gradients[4], expected[1])}
    table.values(file, "backwards_initial_drgb_kernel", "gradients, float64 torch", GRADIENTS, **pairs)


def turned(v: Tensor, q: Tensor) -> Tensor:
    """By the inverse of a quaternion of length 1; for others it is what their kernel makes of them."""
    axis = -q[..., 1:].expand_as(v)
    t = 2 * axis.cross(v, dim=-1)
    return v + q[..., :1] * t + axis.cross(t, dim=-1)


class Ellipsoids:
    """One that holds many others, rays through them from outside, and what a tracer sees, in float64."""

    NAMES = ("means", "scales", "quaternions", "densities", "features", "origins", "directions")

    def __init__(self, random: Random) -> None:
        count, rays = 8, 50
        means, scales = 0.6 * random.normal(count, 3), random.uniform(count, 3, low=0.3, high=0.9)
        means[0], scales[0] = 0.0, torch.tensor([3.0, 3.5, 4.0])
        quaternions = torch.nn.functional.normalize(random.normal(count, 4), dim=1)
        densities, features = random.uniform(count, low=0.2, high=0.7), random.normal(count, 4, 3)
        origins = 6.0 * torch.nn.functional.normalize(random.normal(rays, 3), dim=1)
        directions = torch.nn.functional.normalize(random.uniform(rays, 3, low=-0.8, high=0.8) - origins, dim=1)
        self.inputs = [means, scales, quaternions, densities, features, origins, directions]
        self.inputs64 = [x.requires_grad_() for x in float64(*self.inputs)]
        self._trace(*self.inputs64)

    def _trace(
        self, means: Tensor, scales: Tensor, quats: Tensor, density: Tensor, features: Tensor, *ray: Tensor
    ) -> None:
        origins, directions = (x[:, None].expand(-1, len(means), -1) for x in ray)
        start = turned(origins - means, quats) / scales
        step = torch.nn.functional.normalize(turned(directions, quats), dim=2) / scales
        a, half, c = (step**2).sum(2), (start * step).sum(2), (start**2).sum(2) - 1
        inside = half**2 - a * c
        hit = inside > 0
        root = torch.where(hit, inside, 1).sqrt()
        times = torch.stack([(-half + root) / a, (-half - root) / a], 2)  # as their faces are numbered: 1 is entered
        times = torch.where(hit[..., None], times, torch.inf).flatten(1)
        self.order = times.argsort(1)
        self.count = 2 * hit.sum(1)
        harmonics = torch.stack([torch.full_like(ray[1][:, 0], ZEROTH), *(FIRST * ray[1][:, [1, 2, 0]].T * SIGNS)], 1)
        colors = (harmonics[:, None, :, None] * features).sum(2) + 0.5
        change = density[:, None] * torch.cat([torch.ones_like(colors[..., :1]), colors], 2)
        change = torch.stack([-change, change], 2).flatten(1, 2)
        self._integrate(times.gather(1, self.order), change.gather(1, self.order[..., None].expand(-1, -1, 4)))

    def _integrate(self, times: Tensor, change: Tensor) -> None:
        """Constant density and colour from one event to the next, which the change gives."""
        there = torch.arange(times.shape[1]) < self.count[:, None]
        times = torch.where(there, times, 0)
        change = change * there[..., None]
        begin, end = times[:, :-1], times[:, 1:]
        drgb = change.cumsum(1)[:, :-1]
        within = there[:, 1:]
        density = torch.where(within, drgb[..., 0], 1)
        area = density * (end - begin) * within
        passed = area.cumsum(1) - area
        weight = -torch.expm1(-area) * (-passed).exp()
        at = (begin + end) / 2 * 1000
        at = 1.1 / -0.1 * ((torch.where(within, at, 1) / 1.1 + 1) ** -0.1 - 1)  # Tukey's ladder of powers
        before = [(x.cumsum(1) - x) for x in (weight, weight * at)]
        parts = [(2 * weight * at * before[0]).sum(1), (2 * weight * before[1]).sum(1)]
        rgb = (weight[..., None] * drgb[..., 1:] / density[..., None]).sum(1)
        depth = -torch.expm1(-area) / density - end * (-area).exp() + begin
        depth = ((-passed).exp() * depth * within).sum(1)
        self.outputs = torch.cat([rgb, depth[:, None], (parts[0] - parts[1])[:, None]], 1)
        last = torch.gather(times, 1, self.count[:, None] - 1)
        total, sums = area.sum(1, keepdim=True), torch.stack([weight.sum(1), (weight * at).sum(1)], 1)
        none = torch.zeros(len(times), 2)
        state = [torch.stack(parts, 1), sums, depth[:, None], none, last, none, none, total, rgb]
        self.state = torch.cat(state, 1).detach().float()


FIRST, SIGNS = 0.4886025119029199, torch.tensor([-1.0, 1.0, -1.0], dtype=torch.float64)[:, None]


def rays_through_ellipsoids(table: Table, checkout: Path) -> None:
    """Gradients of colour, depth and distortion for everything that a ray meets."""
    module = load(checkout, ELLIPSOIDS, "fast_ellipsoid_splinetracer")
    scene = Ellipsoids(random := Random(17, table.device))
    count, rays, limit = len(scene.inputs[0]), len(scene.state), 64
    weights = random.normal(rays, 5)
    weights[:, 4] *= 0.05  # of distortion, whose gradients are larger
    gradients = [torch.zeros_like(x) for x in scene.inputs]
    module.backwards_kernel(
        last_state=scene.state.to(table.device),
        last_dirac=torch.zeros(rays, 4, device=table.device),
        iters=scene.count.int().to(table.device),
        tri_collection=scene.order.T.int().flatten().to(table.device),
        ray_origins=scene.inputs[5],
        ray_directions=scene.inputs[6],
        model=(*scene.inputs[:5], *gradients, torch.zeros(count, 2, device=table.device)),
        initial_drgb=torch.zeros(rays, 4, device=table.device),
        dL_dinital_drgb=torch.zeros(rays, 4, device=table.device),
        touch_count=(touched := torch.zeros(count, dtype=torch.int32, device=table.device)),
        dL_doutputs=weights,
        wcts=torch.eye(4, device=table.device)[None],
        tmin=0.0,
        tmax=100.0,
        max_prim_size=3.0,
        max_iters=limit,
    ).launchRaw(blockSize=(16, 1, 1), gridSize=(rays // 16 + 1, 1, 1))
    expected = grad([scene.outputs], scene.inputs64, [weights])
    met = scene.order[torch.arange(2 * count) < scene.count[:, None]] // 2
    file = f"{ELLIPSOIDS}/fast_ellipsoid_splinetracer/slang/backwards_kernel.slang"
    pairs = dict(zip(scene.NAMES, zip(gradients, expected, strict=True), strict=True))
    table.values(
        file,
        "backwards_kernel",
        "gradients, float64 torch",
        2e-3,  # the state before each event is computed back from the last
        touched=(touched, met.bincount(minlength=count)),
        **pairs,
    )


def compiled_alone(_: Table, checkout: Path) -> None:
    """The loop of this one is a comment: it reads its last control point, and writes nothing."""
    load(checkout, TETRAHEDRA, "tetra_splinetracer")


CASES = [rays_through_ellipsoids, rays_that_begin_inside, compiled_alone]
