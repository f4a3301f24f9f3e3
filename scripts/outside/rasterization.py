"""triangle_rasterization of danielxu9393/triangle-rasterization: triangles to tiles to pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from .cases import GRADIENTS, Random, Table, Tensor, float64, grad

FOLDER = "triangle_rasterization/slang"
SHELLS = 3


class Scene:
    """Triangles in three shells, one behind the other, before a camera that looks along z."""

    def __init__(self, device: torch.device) -> None:
        from triangle_rasterization.types import TileGrid

        random, count = Random(7, device), 12
        self.grid = TileGrid.create((40, 28), (16, 16))
        middles = random.uniform(SHELLS * count, 3, low=-0.7, high=0.7)  # all in the picture, as their PyTorch wants
        depth = torch.arange(SHELLS, device=device).repeat_interleave(count)
        middles[:, 2] = 4.0 + depth + 0.3 * middles[:, 2]
        corners = middles[:, None] + random.uniform(SHELLS * count, 3, 3, low=-0.7, high=0.7)
        self.vertices = corners.flatten(0, 1)
        self.faces = torch.arange(len(self.vertices), dtype=torch.int32, device=device).reshape(-1, 3)
        self.shells = depth.int()
        self.distances = 0.6 - 0.6 * depth.repeat_interleave(3) + 0.1 * random.normal(len(self.vertices))
        self.harmonics = 0.3 * random.normal(16, len(self.vertices), 3)
        turn = torch.linalg.matrix_exp(torch.tensor([[0, 0.1, -0.04], [-0.1, 0, 0.03], [0.04, -0.03, 0]]))
        self.extrinsics = torch.eye(4)
        self.extrinsics[:3, :3] = turn
        self.extrinsics[:3, 3] = torch.tensor([0.1, -0.05, 0.2])
        self.extrinsics = self.extrinsics.to(device)
        self.intrinsics = torch.tensor([[45.0, 0, 14], [0, 47, 20], [0, 0, 1]], device=device)


def project(table: Table, _: Path) -> None:
    """Positions, depths and colours of vertices, and their gradients."""
    from triangle_rasterization.pytorch.project_vertices import project_vertices as reference
    from triangle_rasterization.slang.project_vertices import project_vertices

    scene = Scene(table.device)
    camera = (scene.extrinsics, scene.intrinsics)
    inputs = [x.clone().requires_grad_() for x in (scene.vertices, scene.harmonics)]
    inputs64 = [x.requires_grad_() for x in float64(*inputs)]
    got, expected = project_vertices(*inputs, *camera, 3), reference(*inputs64, *float64(*camera), 3)
    names = ("positions", "depths", "colors")
    results, references = ([getattr(one, name) for name in names] for one in (got, expected))
    file, text = f"{FOLDER}/project_vertices.slang", "their PyTorch in float64"
    pairs = dict(zip(names, zip(results, references, strict=True), strict=True))
    table.values(file, "project_vertices", text, **pairs)
    weights = Random(8, table.device).like(*results)
    gradients = zip(grad(results, inputs, weights), grad(references, inputs64, weights), strict=True)
    table.gradients(file, "project_vertices", text, **dict(zip(("vertices", "harmonics"), gradients, strict=True)))


def seen(scene: Scene) -> tuple[Any, Any, Any]:
    """Their PyTorch's projection, bounds and sorted keys. Their Slang path makes and sorts keys in CUDA C++."""
    from triangle_rasterization.pytorch.bound_triangles import bound_triangles
    from triangle_rasterization.pytorch.generate_keys import generate_keys
    from triangle_rasterization.pytorch.project_vertices import project_vertices
    from triangle_rasterization.pytorch.sort_keys import sort_keys

    places = project_vertices(scene.vertices, scene.harmonics, scene.extrinsics, scene.intrinsics, 3)
    bounds = bound_triangles(places.positions, places.depths, scene.faces, scene.grid)
    keys = generate_keys(
        places.depths,
        scene.faces,
        bounds.tile_minima,
        bounds.tile_maxima,
        bounds.num_tiles_overlapped,
        scene.grid,
    )
    return places, bounds, sort_keys(keys, scene.grid)


def tiles(table: Table, _: Path) -> None:
    from triangle_rasterization.pytorch.delineate_tiles import delineate_tiles as expected_tiles
    from triangle_rasterization.slang.bound_triangles import bound_triangles
    from triangle_rasterization.slang.delineate_tiles import delineate_tiles

    scene = Scene(table.device)
    places, expected, keys = seen(scene)
    bounds = bound_triangles(places.positions, places.depths, scene.faces, scene.grid, backface_culling=0)
    names = ("tile_minima", "tile_maxima", "num_tiles_overlapped")
    table.values(
        f"{FOLDER}/bound_triangles.slang",
        "bound_triangles",
        "their PyTorch",
        **{name: (getattr(bounds, name), getattr(expected, name)) for name in names},
    )
    keys.keys, keys.triangle_indices = (x[: keys.num_keys].contiguous() for x in (keys.keys, keys.triangle_indices))
    table.values(
        f"{FOLDER}/delineate_tiles.slang",
        "delineate_tiles",
        "their PyTorch",
        boundaries=(delineate_tiles(keys, scene.grid), expected_tiles(keys, scene.grid)),
    )


class Chains:
    """For each pixel the triangles that it shows: those that it hits, each in a later shell than the one before."""

    def __init__(self, scene: Scene, positions: Tensor, keys: Any, boundaries: Tensor) -> None:
        from triangle_rasterization.pytorch.composite import compute_barycentric_coordinates

        height, width = scene.grid.image_shape
        self.triangles = torch.zeros(height, width, SHELLS, dtype=torch.int64)
        self.weights = torch.zeros(height, width, SHELLS, 3, dtype=torch.float64)
        self.length = torch.zeros(height, width, dtype=torch.int64)
        last = torch.full((height, width), -1)
        pixels = torch.stack(torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy"), -1) + 0.5
        for tile, (start, end) in enumerate(boundaries.tolist()):
            row, column = (16 * n for n in divmod(tile, scene.grid.grid_shape[1]))
            area = (slice(row, row + 16), slice(column, column + 16))
            for triangle in keys.triangle_indices.cpu().long()[start:end]:
                shell = scene.shells[triangle].item()
                corners = positions[scene.faces.cpu().long()[triangle]]
                weights = compute_barycentric_coordinates(pixels[area].double(), corners)
                shows = ((weights >= 0) & (weights <= 1)).all(-1) & (last[area] < shell)
                y, x = shows.nonzero().unbind(1)
                place = (y + row, x + column, self.length[area][shows])
                self.triangles[place], self.weights[place] = triangle, weights[shows]
                last[area][shows] = shell
                self.length[area][shows] += 1

    def image(self, faces: Tensor, colors: Tensor, distances: Tensor, sharpness: Tensor) -> Tensor:
        """Their composite_backward gives a triangle the gradient of what a pixel sees of it by the weights of the next
        triangle of the chain, where there is one: right if the two coincide, as those of their tests do. So does this.
        """
        there = torch.arange(SHELLS) < self.length[..., None]
        following = torch.where(there[..., 1:, None], self.weights[..., 1:, :], self.weights[..., :-1, :])
        theirs = torch.cat([following, self.weights[..., -1:, :]], -2)

        def seen(values: Tensor) -> Tensor:
            corners = values[faces[self.triangles]]
            own, other = (
                (w.unflatten(-1, (3, *(1,) * (corners.dim() - 4))) * corners).sum(3) for w in (self.weights, theirs)
            )
            return own.detach() + other - other.detach()

        color, distance = seen(colors), seen(distances)
        cumulative = (distance * sharpness).sigmoid()
        outer = torch.cat([torch.ones_like(cumulative[..., :1]), cumulative[..., :-1]], -1)
        alpha = ((outer - cumulative + 1e-5) / (outer + 1e-5)).clamp(0, 1) * there
        left = torch.cat([torch.ones_like(alpha[..., :1]), (1 - alpha).cumprod(-1)[..., :-1]], -1)
        rgb = ((alpha * left)[..., None] * color).sum(2)
        return torch.cat([rgb, (alpha * left).sum(-1, keepdim=True)], -1).permute(2, 0, 1)


def composite(table: Table, _: Path) -> None:
    """Pixels, their gradients (a kernel written by hand), and the voxels that they mark."""
    from triangle_rasterization.pytorch.composite import composite as reference
    from triangle_rasterization.pytorch.delineate_tiles import delineate_tiles
    from triangle_rasterization.slang.composite import composite

    scene = Scene(table.device)
    places, _, keys = seen(scene)
    boundaries = delineate_tiles(keys, scene.grid).long()
    sharpness = torch.tensor(3.0, device=table.device)
    inputs = [x.clone().requires_grad_() for x in (places.colors, scene.distances, sharpness)]
    inputs64 = [x.requires_grad_() for x in float64(*inputs)]

    def image(function: Any, positions: Tensor, values: list[Tensor], *marks: Any) -> Tensor:
        moved = [x.to(positions.device) for x in (scene.faces, scene.shells, keys.triangle_indices, boundaries)]
        colors, distances, sharp = values
        return function(positions, colors, distances, *moved[:2], sharp, SHELLS, *moved[2:], scene.grid, *marks)

    voxels = Random(9, table.device).below(2048, len(scene.faces))
    occupancy = torch.zeros(64, dtype=torch.int32, device=table.device)
    image(composite, places.positions, [x.detach() for x in inputs], voxels, occupancy)
    got = image(composite, places.positions, inputs, None, None)
    chains = Chains(scene, *float64(places.positions), keys, boundaries.cpu())
    expected = chains.image(scene.faces.cpu().long(), *inputs64)
    shown = chains.triangles[torch.arange(SHELLS) < chains.length[..., None]]
    marked = torch.zeros(2048, dtype=torch.bool)
    marked[voxels.cpu().long()[shown]] = True
    bits = (occupancy.cpu()[:, None] >> torch.arange(32)) & 1
    file = f"{FOLDER}/composite.slang"
    table.values(
        file,
        "composite_forward",
        "their PyTorch in float64",
        2e-4,  # weights are differences of products of pixels' places
        image=(got, image(reference, *float64(places.positions), inputs64, None, None)),
        chains=(got, expected),
        marks=(bits.flatten(), marked),
    )
    weights = Random(10, table.device).like(got)
    gradients = zip(grad([got], inputs, weights), grad([expected], inputs64, weights), strict=True)
    names = ("colors", "distances", "sharpness")
    table.values(
        file,
        "composite_backward",
        "gradients, their rule in float64",
        GRADIENTS,
        **dict(zip(names, gradients, strict=True)),
    )


CASES = [project, tiles, composite]
