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


def compiled_alone(_: Table, checkout: Path) -> None:
    """The loop of this one is a comment: it reads its last control point, and writes nothing."""
    load(checkout, TETRAHEDRA, "tetra_splinetracer")


CASES = [rays_that_begin_inside, compiled_alone]
