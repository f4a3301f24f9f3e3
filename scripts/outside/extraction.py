"""triangle_extraction of danielxu9393/triangle-rasterization: sparse voxel grids and marching cubes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from .cases import Random, Table, Tensor, float64, grad

FOLDER = "triangle_extraction/slang"
CORNERS = list(itertools.product((0, 1), repeat=3))  # steps along i, j, k
LOWER = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]
UPPER = [(1, 1, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1)]
NEIGHBOURS = [(0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 1, 1), (1, 1, 0), (1, 0, 1), (1, 1, 1)]
CUBE = [(0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 1), (1, 1, 0)]  # bits of a cell's code


def package() -> Any:
    """Their package. Sums of offsets are CUDA C++ there, so PyTorch's stand in."""
    import triangle_extraction
    from triangle_extraction import registry
    from triangle_extraction.pytorch.compute_exclusive_cumsum import compute_exclusive_cumsum
    from triangle_extraction.slang import get_occupancy_mesh, upscale_parameters

    registry.COMPUTE_EXCLUSIVE_CUMSUM["slang"] = compute_exclusive_cumsum
    get_occupancy_mesh.compute_exclusive_cumsum = compute_exclusive_cumsum
    upscale_parameters.compute_exclusive_cumsum = compute_exclusive_cumsum
    return triangle_extraction


def at(grid: Tensor, cells: Tensor, step: tuple[int, int, int]) -> Tensor:
    i, j, k = (cells + torch.tensor(step)).unbind(1)
    return grid[i, j, k]


class Grid:
    """A dense grid of voxels on the CPU, some of them occupied, and the corners that these have."""

    def __init__(self, occupied: Tensor) -> None:
        self.occupied = occupied
        self.shape = occupied.shape
        around = F.pad(occupied, (1, 32, 1, 1, 1, 1))
        i, j, k = (n + 1 for n in occupied.shape)
        self.corners = torch.zeros(i, j, k + 31, dtype=torch.bool)
        for a, b, c in CORNERS:
            self.corners |= around[a : a + i, b : b + j, c : c + k + 31]
        self.places = self.corners.nonzero()
        self.ids = torch.full((i + 1, j + 1, k + 32), -1)
        self.ids[:i, :j, : k + 31][self.corners] = torch.arange(len(self.places))
        self.voxels = occupied.nonzero()


def words(bits: Tensor) -> Tensor:
    """How many bits are set in each 32."""
    return bits.reshape(*bits.shape[:-1], -1, 32).sum(-1)


def occupancy(table: Table, _: Path) -> None:
    """Grids of bits: corners, counts, dilation, scaling, marks."""
    te = package()
    from triangle_extraction.pytorch.upscale_occupancy import upscale_occupancy
    from triangle_extraction.pytorch.write_occupancy import write_occupancy
    from triangle_extraction.slang.compute_vertex_occupancy import compute_vertex_occupancy
    from triangle_extraction.slang.count_occupancy import count_occupancy

    random = Random(1, table.device)
    occupied = random.uniform(37, 9, 96) < 0.4
    grid, packed = Grid(occupied.cpu()), te.pack_occupancy(occupied)

    corners, counts = compute_vertex_occupancy(packed)
    table.values(
        f"{FOLDER}/compute_vertex_occupancy.slang",
        "compute_vertex_occupancy",
        "dense torch",
        corners=(te.unpack_occupancy(corners), grid.corners),
        counts=(counts[:-1], words(grid.corners).flatten()),
    )
    expected = F.pad(words(grid.occupied), (0, 1, 0, 1, 0, 1)).flatten()
    table.values(
        f"{FOLDER}/count_occupancy.slang",
        "count_occupancy",
        "dense torch",
        counts=(count_occupancy(packed)[:-1], expected),
    )
    sparse = random.uniform(37, 9, 96) < 0.004
    dilated = F.max_pool3d(sparse.cpu()[None].float(), 7, 1, 3)[0].bool()
    table.values(
        f"{FOLDER}/dilate_occupancy.slang",
        "dilate_occupancy",
        "max_pool3d",
        bits=(te.unpack_occupancy(te.dilate_occupancy(te.pack_occupancy(sparse), 3)), dilated),
    )
    target = (74, 20, 192)
    table.values(
        f"{FOLDER}/upscale_occupancy.slang",
        "upscale_occupancy",
        "their PyTorch",
        words=(te.upscale_occupancy(packed, target), upscale_occupancy(packed.cpu(), target)),
    )
    shells, voxels = random.below(5, 3000), random.below(32 * 16 * 32, 3000)
    table.values(
        f"{FOLDER}/write_occupancy.slang",
        "write_occupancy",
        "their PyTorch",
        words=(
            te.write_occupancy(shells, voxels, (32, 16, 1), 1, 3),
            write_occupancy(shells.cpu(), voxels.cpu(), (32, 16, 32), 1, 3),
        ),
    )


def voxels(table: Table, _: Path) -> None:
    te = package()
    occupied = Random(2, table.device).uniform(7, 6, 64) < 0.4
    grid = Grid(occupied.cpu())
    found = te.extract_voxels(te.pack_occupancy(occupied), "slang")

    count, origins = len(grid.voxels), found.lower_corners[0].cpu().long()
    i, j, k = grid.shape
    extent = torch.tensor([k, j, i], dtype=torch.float64)
    outer = [at(grid.ids, grid.places[origins[count:]], step) for step in LOWER]
    table.values(
        f"{FOLDER}/create_voxels.slang",
        "create_voxels",
        "dense torch",
        vertices=(found.vertices, grid.places.flip(1).double() / extent),
        indices=(found.indices, grid.occupied.flatten().nonzero()[:, 0]),
        origins=(origins.sort().values, torch.arange(len(grid.places))),
        lower=(found.lower_corners[:, :count], torch.stack([at(grid.ids, grid.voxels, step) for step in LOWER])),
        lower_of_others=(found.lower_corners[:, count:].clamp(min=-1), torch.stack(outer)),
        upper=(found.upper_corners, torch.stack([at(grid.ids, grid.voxels, step) for step in UPPER])),
        neighbours=(
            origins[found.neighbors.cpu().long()],
            torch.stack([at(grid.ids, grid.voxels, step) for step in NEIGHBOURS]),
        ),
    )


def crossings(distances: Tensor, corners: Tensor, levels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[cell, level, axis]: where the level lies between a cell's origin and its neighbour; and the two distances."""
    corners = corners.cpu().long()
    near = distances[corners[0]]
    far = torch.where(corners[1:] >= 0, distances[corners[1:]], near).T
    inside, beyond = near[:, None, None] < levels[:, None], far[:, None, :] < levels[:, None]
    return inside != beyond, near, far


def marching_cubes_vertices(table: Table, _: Path) -> None:
    """Vertices and their gradients, on a grid with holes."""
    te = package()
    from triangle_extraction.slang.count_triangle_vertices import count_triangle_vertices
    from triangle_extraction.slang.create_triangle_vertices import create_triangle_vertices

    random = Random(3, table.device)
    found = te.extract_voxels(te.pack_occupancy(random.uniform(7, 6, 64) < 0.6), "slang")
    places = found.vertices + 0.01 * random.normal(*found.vertices.shape)
    distances = (places - 0.5).norm(dim=1) - 0.35 + 0.02 * random.normal(len(places))
    harmonics = random.normal(4, len(places), 3)
    levels = torch.tensor([-0.1, 0.0, 0.1], device=table.device)

    crossed, _, _ = crossings(distances.cpu(), found.lower_corners, levels.cpu())
    counts, by_level = count_triangle_vertices(distances, found.lower_corners, levels)
    table.values(
        f"{FOLDER}/count_triangle_vertices.slang",
        "countTriangleVertices",
        "dense torch",
        counts=(counts[:-1], crossed.sum((1, 2))),
        by_level=(by_level, crossed.sum(2).T),
    )
    offsets = F.pad(counts[:-1].cumsum(0, dtype=torch.int32), (1, 0))
    inputs = [x.clone().requires_grad_() for x in (places, distances, harmonics)]
    got = create_triangle_vertices(*inputs, found.lower_corners, offsets, levels)

    p, d, h = (x.requires_grad_() for x in float64(*inputs))
    levels64 = levels.cpu().double()
    _, near, far = crossings(d, found.lower_corners, levels64)
    cell, level, axis = crossed.nonzero().unbind(1)
    corners = found.lower_corners.cpu().long()
    origin, end = corners[0, cell], corners[axis + 1, cell]
    t = ((levels64[level] - near[cell]) / (far[cell, axis] - near[cell])).clamp(0, 1).detach()
    expected = [start + (stop - start) * t for start, stop in ((d[origin], d[end]),)]
    expected = [
        p[origin] + t[:, None] * (p[end] - p[origin]),
        expected[0],
        h[:, origin] + t[:, None] * (h[:, end] - h[:, origin]),
    ]
    names = ("places", "distances", "harmonics")
    results = [got.vertices, got.signed_distances, got.spherical_harmonics]
    file, reference = f"{FOLDER}/create_triangle_vertices.slang", "float64 torch"
    table.values(
        file,
        "createTriangleVertices",
        reference,
        axes=(got.vertex_types, axis),
        **dict(zip(names, zip(results, expected, strict=True), strict=True)),
    )
    weights = random.like(*results)
    gradients = zip(grad(results, inputs, weights), grad(expected, [p, d, h], weights), strict=True)
    table.gradients(file, "createTriangleVertices", reference, **dict(zip(names, gradients, strict=True)))


def marching_cubes_faces(table: Table, _: Path) -> None:
    """A sphere's level sets in a full grid: closed surfaces of the right kind, place and volume."""
    te = package()
    from triangle_extraction.slang.count_triangle_faces import count_triangle_faces

    shape, levels = (20, 18, 32), torch.tensor([-0.04, 0.0, 0.05], device=table.device)
    grid = Grid(torch.ones(shape, dtype=torch.bool))
    packed = te.pack_occupancy(grid.occupied.to(table.device))
    found = te.extract_voxels(packed, "slang")
    distances = (found.vertices - torch.tensor([0.51, 0.48, 0.505], device=table.device)).norm(dim=1) - 0.35
    harmonics = torch.zeros(4, len(distances), 3, device=table.device)

    counts, codes = count_triangle_faces(distances, found.lower_corners, found.upper_corners, levels)
    d = distances.cpu()
    above = torch.stack([d[at(grid.ids, grid.voxels, step)] >= levels.cpu()[:, None] for step in CUBE])
    code = (above.long() << torch.arange(8)[:, None, None]).sum(0)
    table.values(
        f"{FOLDER}/count_triangle_faces.slang",
        "countTriangleFaces",
        "dense torch",
        codes=(codes, code),
        empty=(counts[:-1] == 0, ((code == 0) | (code == 255)).all(0)),
        threes=(counts % 3, torch.zeros(len(counts), dtype=torch.int32)),
    )
    mesh = te.tessellate_voxels(
        distances,
        found.vertices,
        harmonics,
        found.neighbors,
        found.lower_corners,
        found.upper_corners,
        found.indices,
        levels,
        "slang",
    )
    table.values(
        f"{FOLDER}/create_triangle_faces.slang",
        "createTriangleFaces",
        "closed, oriented spheres",
        1e-2,  # a volume of flat triangles is smaller than the sphere's
        **sphere_checks(mesh, levels.cpu(), shape),
    )


def sphere_checks(mesh: Any, levels: Tensor, shape: tuple[int, int, int]) -> dict[str, tuple[Tensor, Tensor]]:
    places, faces, shells = mesh.vertices.cpu().double(), mesh.faces.cpu().long(), mesh.shell_indices.cpu().long()
    extent = torch.tensor(shape[::-1])
    a, b, c = places[faces].unbind(1)
    volume = torch.zeros(len(levels), dtype=torch.float64).index_add(0, shells, (a * b.cross(c, dim=1)).sum(1) / 6)
    euler = []
    for level in range(len(levels)):
        own = faces[shells == level]
        euler.append(len(own.unique()) - len(own) * 3 // 2 + len(own))
    edges = torch.cat([faces[:, [x, y]] for x, y in ((0, 1), (1, 2), (2, 0))])
    there, back = (e[:, 0] * len(places) + e[:, 1] for e in (edges, edges.flip(1)))
    voxel = mesh.voxel_indices.cpu().long()
    i, j, k = voxel // (shape[1] * shape[2]), voxel // shape[2] % shape[1], voxel % shape[2]
    corner = torch.stack([k, j, i], 1)[:, None]
    outside = ((places[faces] * extent - corner - 0.5).abs() > 0.5 + 1e-4).any(2).any(1)
    return {
        "edges_meet": (there.sort().values, back.sort().values),
        "edges_once": (torch.tensor(len(there.unique())), torch.tensor(len(there))),
        "euler": (torch.tensor(euler), torch.full((len(levels),), 2)),
        "in_their_voxels": (outside, torch.zeros_like(outside)),
        "distances": (mesh.signed_distances.cpu()[faces], levels[shells][:, None].expand(-1, 3)),
        "volume": (volume.abs(), 4 / 3 * torch.pi * (levels.double() + 0.35) ** 3),
    }


def regularizers(table: Table, _: Path) -> None:
    te = package()
    from triangle_extraction.pytorch.compute_sdf_regularizers import compute_sdf_regularizers

    random, shape = Random(4, table.device), (7, 6, 64)
    found = te.extract_voxels(te.pack_occupancy(random.uniform(*shape) < 0.6), "slang")
    distances = random.normal(len(found.vertices)).requires_grad_()
    cells = (found.neighbors, found.lower_corners, found.upper_corners)
    got = te.compute_sdf_regularizers(distances, *cells, shape)
    (d,) = (x.requires_grad_() for x in float64(distances))
    torch.set_default_dtype(torch.float64)  # their reference makes points of its own
    try:
        expected = compute_sdf_regularizers(d, *(x.cpu() for x in cells), shape)
    finally:
        torch.set_default_dtype(torch.float32)
    names = ("eikonal_loss_pos", "eikonal_loss_neg", "curvature_loss")
    results = [[getattr(losses, name) for name in names] for losses in (got, expected)]
    file, reference = f"{FOLDER}/compute_sdf_regularizers.slang", "their PyTorch in float64"
    table.values(file, "computeSDFRegularizers", reference, **dict(zip(names, zip(*results, strict=True), strict=True)))
    weights = random.like(*results[0])
    gradients = grad(results[0], [distances], weights) + grad(results[1], [d], weights)
    table.gradients(file, "computeSDFRegularizers", reference, distances=tuple(gradients))


def scaled_parameters(table: Table, _: Path) -> None:
    te = package()
    random = Random(5, table.device)
    old_shape, new_shape = (5, 6, 32), (10, 12, 64)
    old, chosen = random.uniform(*old_shape) < 0.5, random.uniform(*old_shape) < 0.5
    grid = Grid(old.cpu())
    distances, harmonics = random.normal(len(grid.places)), random.normal(4, len(grid.places), 3)
    got = te.upscale_parameters(distances, harmonics, te.pack_occupancy(old), te.pack_occupancy(chosen), new_shape)

    fine = Grid(te.unpack_occupancy(got.occupancy).cpu())
    where = fine.places.double() * torch.tensor(old_shape) / torch.tensor(new_shape)
    base = where.floor().long()
    t = where - base
    known = torch.cat([distances.cpu()[None], harmonics.cpu().permute(0, 2, 1).flatten(0, 1)]).double()
    total, weights = torch.zeros(len(known), len(where), dtype=torch.float64), torch.zeros(len(where)).double()
    for step in CORNERS:
        ids = at(grid.ids, base, step)
        weight = torch.where(torch.tensor(step) == 1, t, 1 - t).prod(1) * (ids >= 0)
        total, weights = total + weight * known[:, ids.clamp(min=0)], weights + weight
    expected = total / weights
    table.values(
        f"{FOLDER}/upscale_parameters.slang",
        "upscale_parameters",
        "float64 torch",
        distances=(got.signed_distances, expected[0]),
        harmonics=(got.spherical_harmonics, expected[1:].unflatten(0, (4, 3)).permute(0, 2, 1)),
    )


def occupancy_mesh(table: Table, _: Path) -> None:
    """Two triangles for each side between an occupied voxel and an empty one."""
    te = package()
    random = Random(6, table.device)
    occupied, colors = random.uniform(6, 7, 64) < 0.3, random.uniform(3, 2, 3)
    mesh = te.get_occupancy_mesh(te.pack_occupancy(occupied), colors)

    around = F.pad(occupied.cpu(), (1, 1, 1, 1, 1, 1))
    sides, is_lower = [], []
    for axis in range(3):
        here = around[tuple(slice(1, None) if n == axis else slice(1, -1) for n in range(3))]
        before = around[tuple(slice(None, -1) if n == axis else slice(1, -1) for n in range(3))]
        places = (here != before).nonzero()
        sides.append(torch.cat([torch.full((len(places), 1), axis), places], 1))
        is_lower.append(here[here != before])  # the voxel behind the plane is the occupied one
    expected, lower = torch.cat(sides), torch.cat(is_lower).long()

    corners = mesh.vertices.cpu().double().flip(-1) * torch.tensor(occupied.shape)
    low, high = corners.amin(1), corners.amax(1)
    axes = (high - low).argmin(1)
    normals = (corners[:, 1] - corners[:, 0]).cross(corners[:, 2] - corners[:, 0], dim=1)
    rows = torch.cat([axes[:, None], low.round().long()], 1)
    order, expected_order = (sum(r[:, n] * 100 ** (3 - n) for n in range(4)).argsort() for r in (rows, expected))
    expected, lower = (x[expected_order].repeat_interleave(2, 0) for x in (expected, lower))
    towards = normals.gather(1, axes[:, None])[order, 0]
    files = f"{FOLDER}/get_occupancy_mesh.slang"
    pairs = corners[order].mean(1).reshape(-1, 2, 3).mean(1)
    inward = torch.full((len(expected), 3), 0.5).scatter(1, expected[:, :1], 0.0)
    table.values(
        files,
        "countTriangles",
        "dense torch",
        count=(torch.tensor(len(rows)), torch.tensor(len(expected))),
    )
    table.values(
        files,
        "createTriangles",
        "dense torch",
        sides=(rows[order], expected),
        facing=(towards, towards[0].sign() * (lower * 2 - 1) * (lower[0] * 2 - 1).double()),
        middles=(pairs, (expected[:, 1:] + inward)[::2]),
        colors=(mesh.colors[order.to(table.device)], colors.cpu()[expected[:, 0], lower]),
    )


CASES = [
    occupancy,
    voxels,
    marching_cubes_vertices,
    marching_cubes_faces,
    regularizers,
    scaled_parameters,
    occupancy_mesh,
]
