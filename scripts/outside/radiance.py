"""half-potato/radiance_meshes: a renderer of tetrahedra, their lookup, and the kernels beside its tracers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from .cases import GRADIENTS, Random, Table, Tensor, float64, grad, module_of

SHADERS = "delaunay_rasterization/internal/slang"
TILE = 4
HEIGHT, WIDTH = 22, 30  # not whole tiles
MIN_T = 0.1


def points_and_tetrahedra(random: Random, count: int) -> tuple[Tensor, Tensor]:
    """A Delaunay triangulation of random points in a cube of side 2."""
    from scipy.spatial import Delaunay

    points = random.uniform(count, 3, low=-1.0, high=1.0)
    return points, torch.tensor(Delaunay(points.cpu().double().numpy()).simplices, dtype=torch.int32).to(points.device)


# --- Kernels that stand alone


def smallest_singular_value(table: Table, _: Path) -> None:
    """The file's formula, in float64: its angle has the sign of the largest eigenvalue's."""
    from submodules.spectral_norm3.sp_norm3 import compute_spectral_norm3

    random = Random(11, table.device)
    matrices = random.normal(300, 3, 3).requires_grad_()
    got = compute_spectral_norm3(matrices)
    (m,) = (x.requires_grad_() for x in float64(matrices))
    b = m.transpose(1, 2) @ m
    p = b.diagonal(dim1=1, dim2=2).sum(1)
    q = (p**2 - (b * b).sum((1, 2))) / 2
    n = (2 * p**3 - 9 * p * q + 27 * torch.linalg.det(b)) / 27
    m3 = q - p**2 / 3
    angle = (-n / (2 * (-(m3**3) / 27).sqrt())).clamp(-1, 1).acos() / 3
    turns = torch.tensor([0.0, 2.094395102, 4.188790205])
    smallest = (p[:, None] / 3 + 2 * (-m3 / 3).sqrt()[:, None] * (angle[:, None] + turns).cos()).amin(1)
    expected = smallest.clamp(min=0).sqrt()
    # Where the smallest is near 0, its root and gradient keep few digits of what float32 has.
    weights = random.like(got)[0] * (expected.to(table.device) > 0.5)
    kept = (expected > 0.5).to(got.device)
    file, reference = "submodules/spectral_norm3/sp_norm3.slang", "its formula in float64"
    table.values(file, "sp_norm3", reference, 1e-4, norm=(got[kept], expected[kept.cpu()]))
    gradients = grad([got], [matrices], [weights]) + grad([expected], [m], [weights])
    table.gradients(file, "sp_norm3", reference, 1e-3, matrices=tuple(gradients))


def lookup(table: Table, _: Path) -> None:
    """Which tetrahedron holds a point, by way of a grid."""
    from dtlookup.dtlookup import TetrahedraLookup

    random = Random(12, table.device)
    points, cells = points_and_tetrahedra(random, 60)
    queries = random.uniform(4000, 3, low=-1.1, high=1.1)
    found = TetrahedraLookup(cells, points, 16)
    got = found.lookup(queries).cpu().long()

    corners, q = points.cpu().double()[cells.cpu().long()], queries.cpu().double()
    edges = (corners[:, 1:] - corners[:, :1]).transpose(1, 2)
    shares = torch.linalg.solve(edges[None], (q[:, None] - corners[:, 0])[..., None])[..., 0]
    inside = (shares.amin(-1) >= 0) & (shares.sum(-1) <= 1)
    expected = torch.where(inside.any(1), inside.long().argmax(1), -1)

    size, low = found.cell_size.cpu().double(), found.world_min.cpu().double()
    first = ((corners.amin(1) - low) / size).floor().long()
    last = ((corners.amax(1) - low) / size).ceil().long()
    pairs = []
    for tet, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        x, y, z = torch.meshgrid(*(torch.arange(s, e) for s, e in zip(a, b, strict=True)), indexing="ij")
        keys = (z * 256 + y * 16 + x).flatten()
        pairs.append(keys * len(corners) + tet)
    pairs_got = found.sorted_keys.cpu().long() * len(corners) + found.sorted_tet_idx.cpu().long()
    wanted = torch.cat(pairs).sort().values
    starts = torch.searchsorted(wanted // len(corners), torch.arange(16**3))
    stops = torch.searchsorted(wanted // len(corners), torch.arange(16**3), right=True)
    ranges = torch.stack([starts, stops], 1) * (stops > starts)[:, None]
    folder, reference = "dtlookup/slang", "float64 torch"
    count = (torch.tensor(len(found.sorted_keys)), torch.tensor(len(wanted)))
    table.values(f"{folder}/tet_splatter.slang", "splat_tetrahedra", reference, cells=count)
    table.values(f"{folder}/key_generator.slang", "generate_keys", reference, pairs=(pairs_got.sort().values, wanted))
    table.values(f"{folder}/key_generator.slang", "compute_tile_ranges", reference, ranges=(found.tile_ranges, ranges))
    table.values(f"{folder}/lookup_kernel.slang", "lookup_points", reference, tetrahedra=(got, expected))


def harmonics(table: Table, checkout: Path) -> None:
    """Colours by direction, and the gradients of features by a kernel written by hand, of two tracers."""
    import slangtorch

    random, count = Random(13, table.device), 200
    means, features = random.normal(count, 3), random.normal(count, 16, 3)
    origin, weights = random.normal(3), random.normal(count, 3)
    m, f, o, w = float64(means, features, origin, weights)
    f.requires_grad_()
    expected = (basis(torch.nn.functional.normalize(m - o, dim=1))[..., None] * f).sum(1) + 0.5
    (expected_gradient,) = grad([expected], [f], [w])
    for folder in ("tracers/ever/slang", "tracers/splinetracers/slang"):
        module = slangtorch.loadModule(str(checkout / folder / "sh_kernel.slang"))
        colors, gradient = torch.zeros_like(means), torch.zeros_like(features)
        launch = {"blockSize": (64, 1, 1), "gridSize": (4, 1, 1)}
        given = {"means": means, "features": features, "ray_origin": origin, "sh_degree": 3}
        module.sh_kernel(**given, colors=colors).launchRaw(**launch)
        module.bw_sh_kernel(**given, dL_dfeatures=gradient, dL_dcolors=weights).launchRaw(**launch)
        file = f"{folder}/sh_kernel.slang"
        table.values(file, "sh_kernel", "float64 torch", colors=(colors, expected))
        table.values(
            file, "bw_sh_kernel", "gradients, float64 torch", GRADIENTS, features=(gradient, expected_gradient)
        )


def basis(direction: Tensor) -> Tensor:
    """Real spherical harmonics up to degree 3, with the signs that splatting programs give them."""
    x, y, z = direction.unbind(1)
    pi = torch.pi
    one, two = (3 / (4 * pi)) ** 0.5, (15 / (4 * pi)) ** 0.5
    degree0 = [torch.full_like(x, (1 / (4 * pi)) ** 0.5)]
    degree1 = [-one * y, one * z, -one * x]
    degree2 = [two * x * y, -two * y * z, (5 / (16 * pi)) ** 0.5 * (2 * z * z - x * x - y * y), -two * x * z]
    degree2 += [two / 2 * (x * x - y * y)]
    a, b, c = (35 / (32 * pi)) ** 0.5, (105 / (4 * pi)) ** 0.5, (21 / (32 * pi)) ** 0.5
    degree3 = [-a * y * (3 * x * x - y * y), b * x * y * z, -c * y * (4 * z * z - x * x - y * y)]
    degree3 += [(7 / (16 * pi)) ** 0.5 * z * (2 * z * z - 3 * x * x - 3 * y * y), -c * x * (4 * z * z - x * x - y * y)]
    degree3 += [b / 2 * z * (x * x - y * y), -a * x * (x * x - 3 * y * y)]
    return torch.stack(degree0 + degree1 + degree2 + degree3, 1)


# --- The renderer


class View:
    """A camera before a triangulated cube, and what its vertex and tile shaders make of that."""

    def __init__(self, table: Table) -> None:
        stand_in_for_sorting()
        from delaunay_rasterization.internal.render_grid import RenderGrid
        from delaunay_rasterization.internal.tile_shader_slang import vertex_and_tile_shader

        device = table.device
        self.random = Random(14, device)
        self.points, self.cells = points_and_tetrahedra(self.random, 24)
        self.grid = RenderGrid(HEIGHT, WIDTH, TILE, TILE)
        turn = torch.tensor([[0, 0.3, -0.2], [-0.3, 0, 0.25], [0.2, -0.25, 0]])
        to_camera = torch.eye(4)
        to_camera[:3, :3] = torch.linalg.matrix_exp(turn)
        to_camera[:3, 3] = torch.tensor([0.1, -0.2, 3.5])
        self.camera = {
            "tile_height": TILE,
            "tile_width": TILE,
            "grid_height": self.grid.grid_height,
            "grid_width": self.grid.grid_width,
            "min_t": MIN_T,
            "world_view_transform": to_camera.to(device),
            "cam_pos": (-to_camera[:3, :3].T @ to_camera[:3, 3]).to(device),
            "K": torch.tensor([[36.0, 0, WIDTH / 2], [0, 35.0, HEIGHT / 2], [0, 0, 1]], device=device),
            "image_height": HEIGHT,
            "image_width": WIDTH,
            "fovy": 0.6,
            "fovx": 0.8,
            "distortion_params": torch.zeros(4, device=device),
            "camera_type": 0,
        }
        self.points.requires_grad_()
        found = vertex_and_tile_shader(self.cells, self.points, self.camera, self.grid)
        self.order, self.ranges, self.depths, self.centers, self.mask, self.rectangles = found

    @property
    def place64(self) -> tuple[Tensor, Tensor, Tensor]:
        matrix, position, intrinsics = float64(
            *(self.camera[name] for name in ("world_view_transform", "cam_pos", "K"))
        )
        return matrix[:3], position, intrinsics

    def rays64(self) -> tuple[Tensor, Tensor]:
        """Origins and directions [pixel, 3], through the pixels' middles."""
        matrix, position, intrinsics = self.place64
        y, x = torch.meshgrid(torch.arange(HEIGHT) + 0.5, torch.arange(WIDTH) + 0.5, indexing="ij")
        pixels = torch.stack([x.flatten(), y.flatten(), torch.ones(HEIGHT * WIDTH)], 1).double()
        directions = torch.nn.functional.normalize(pixels @ torch.linalg.inv(intrinsics).T, dim=1) @ matrix[:, :3]
        return position + MIN_T * directions, directions

    def segments64(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[pixel, tetrahedron from the nearest on]: where rays enter and leave, and whether they do."""
        origins, directions = self.rays64()
        corners = points[self.cells.cpu().long()[self.nearest_first]]
        enter, leave = torch.full((2, len(origins), len(corners)), float("inf"), dtype=torch.float64)
        enter = -enter
        for face in range(4):
            a, b, c, opposite = (corners[:, (face + n) % 4] for n in (1, 2, 3, 0))
            normal = (b - a).cross(c - a, dim=1)
            normal = normal * -((opposite - a) * normal).sum(1, keepdim=True).sign()
            along = directions @ normal.T
            distance = ((a * normal).sum(1) - origins @ normal.T) / along
            enter = torch.where(along < 0, torch.maximum(enter, distance), enter)
            leave = torch.where(along > 0, torch.minimum(leave, distance), leave)
        return enter.clamp(min=0), leave, (enter <= leave) & (leave > 0)

    @property
    def nearest_first(self) -> Tensor:
        return self.depths[:, 2].detach().cpu().argsort()


def stand_in_for_sorting() -> None:
    """Keys are sorted in CUDA C++ there; scenes' Python wants COLMAP and more."""
    name = "delaunay_rasterization.internal.sort_by_keys"
    if name in sys.modules:
        return

    def sort_by_keys(keys: Tensor, values: Tensor, _: int) -> tuple[Tensor, Tensor]:
        found = keys.sort()
        return found.values, values[found.indices]

    sort = SimpleNamespace(sort_by_keys=sort_by_keys)
    module_of(name, sort_by_keys_cub=sort)


def tiles(table: Table, _: Path) -> None:
    """Circumspheres and their gradients, rectangles of tiles, and the lists of tetrahedra of each tile."""
    view = View(table)
    matrix, position, intrinsics = view.place64
    (points,) = (x.requires_grad_() for x in float64(view.points))
    corners = points[view.cells.cpu().long()]
    edges = corners[:, 1:] - corners[:, :1]
    centers = corners[:, 0] + torch.linalg.solve(edges, (edges**2).sum(2) / 2)
    power = ((centers - position) ** 2).sum(1) - ((centers - corners[:, 0]) ** 2).sum(1)

    pixels = (corners.detach() @ matrix[:, :3].T + matrix[:, 3]) @ intrinsics.T
    pixels = pixels[..., :2] / pixels[..., 2:]
    limit = torch.tensor([view.grid.grid_width, view.grid.grid_height])
    low = (pixels.amin(1) / TILE).clamp(min=0).minimum(limit).floor()
    high = (pixels.amax(1) / TILE).clamp(min=0).minimum(limit).ceil()
    got = [view.depths[:, 2], view.centers]
    file, reference = f"{SHADERS}/vertex_shader.slang", "float64 torch"
    table.values(
        file,
        "vertex_shader",
        reference,
        1e-4,  # flat tetrahedra have large spheres
        power=(got[0], power),
        centers=(got[1], centers),
        rectangles=(view.rectangles, torch.cat([low, high], 1).int()),
    )
    weights = view.random.like(*got)
    gradients = grad(got, [view.points], weights) + grad([power, centers], [points], weights)
    table.gradients(file, "vertex_shader", reference, vertices=tuple(gradients))

    lists, ranges = [], []
    for tile in range(view.grid.grid_height * view.grid.grid_width):
        place = torch.tensor([tile % view.grid.grid_width, tile // view.grid.grid_width])
        touches = ((low <= place) & (place < high)).all(1)
        own = view.nearest_first[touches[view.nearest_first]]
        start = sum(len(one) for one in lists)
        ranges.append([start, start + len(own)] if len(own) else [0, 0])
        lists.append(own)
    file = f"{SHADERS}/tile_shader.slang"
    table.values(file, "generate_keys", reference, order=(view.order, torch.cat(lists)))
    table.values(file, "compute_tile_ranges", reference, ranges=(view.ranges, torch.tensor(ranges)))


def before(x: Tensor) -> Tensor:
    """Sums of what stands before each tetrahedron on its ray."""
    return x.cumsum(1) - x


def picture(x: Tensor) -> Tensor:
    return x.reshape(HEIGHT, WIDTH, -1)


def constant_colors(table: Table, _: Path) -> None:
    view = View(table)
    from delaunay_rasterization.internal.alphablend_tiled_slang import AlphaBlendTiledRender

    values = torch.cat(
        [view.random.uniform(len(view.cells), 3), 0.3 + 0.5 * view.random.uniform(len(view.cells), 1)], 1
    )
    inputs = [view.points.detach().clone().requires_grad_(), values.requires_grad_()]

    def render() -> Any:
        return AlphaBlendTiledRender.apply(
            view.order, view.ranges, view.cells, *inputs, view.grid, view.camera, 100, -0.1
        )

    inputs64 = [x.requires_grad_() for x in float64(*inputs)]
    points, colors = inputs64
    enter, leave, hit = view.segments64(points)
    enter, leave = (torch.where(hit, x, 0) for x in (enter, leave))
    colors = colors[view.nearest_first]
    alpha = torch.where(hit, 1 - (-colors[:, 3] * (leave - enter)).exp(), 0)
    transmittance = torch.cat([torch.ones_like(alpha[:, :1]), (1 - alpha).cumprod(1)], 1)
    weight = alpha * transmittance[:, :-1]
    at = ladder(torch.where(hit, enter, 1) * 100, -0.1)
    # Their backward undoes a tetrahedron's weight with the transmittance behind it, where the forward took that before.
    undone = alpha * transmittance[:, 1:]

    def left(x: Tensor, taken: Tensor) -> Tensor:
        """What stands before each tetrahedron, with the values that their backward takes for it."""
        theirs = x.sum(1, keepdim=True) - taken.sum(1, keepdim=True) + before(taken)
        return before(x) + (theirs - before(x)).detach()

    image = picture(torch.cat([weight @ colors[:, :3], transmittance[:, -1:]], 1))
    pairs = (before(weight), before(weight * at)), (left(weight, undone), left(weight * at, undone * at))
    sums = [[2 * weight * at * z, 2 * weight * w, weight, weight * at] for z, w in pairs]
    expected, by_their_rule = ([image, picture(torch.stack([x.sum(1) for x in one], 1))] for one in sums)
    # Their backward leaves out what is thinner than 1/255, and does not undo it: such pixels get no gradient here.
    thin = (hit & (alpha.detach() < 1 / 250)).any(1) | (transmittance.detach().amin(1) < 1 / 250)
    kept = picture(~thin).to(table.device)
    file, reference = f"{SHADERS}/alphablend_shader.slang", "float64 torch; gradients: their rule"
    compare(
        table,
        file,
        render,
        reference=reference,
        expected=(expected, by_their_rule),
        inputs=inputs,
        inputs64=inputs64,
        kept=kept,
    )


def ladder(x: Tensor, p: float) -> Tensor:
    return x.sign() * abs(p - 1) / p * ((x.abs() / abs(p - 1) + 1) ** p - 1)


def linear_colors(table: Table, _: Path) -> None:
    """Colours that change linearly within a tetrahedron, and the errors that are summed up for each."""
    view = View(table)
    from delaunay_rasterization.internal.alphablend_tiled_slang_interp import AlphaBlendTiledRender
    from delaunay_rasterization.internal.slang.slang_modules import alpha_blend_shaders_interp

    count = len(view.cells)
    values = torch.cat([0.2 + 0.6 * view.random.uniform(count, 1), view.random.normal(count, 6) * 0.3], 1)
    inputs = [view.points.detach().clone().requires_grad_(), values.requires_grad_()]
    jitter = torch.full((HEIGHT, WIDTH, 2), 0.5, device=table.device)

    def render() -> Any:
        return AlphaBlendTiledRender.apply(
            view.order, view.ranges, view.cells, *inputs, view.grid, view.camera, jitter
        )[:2]

    inputs64 = [x.requires_grad_() for x in float64(*inputs)]
    points, values64 = inputs64
    enter, leave, hit = view.segments64(points)
    enter, leave = (torch.where(hit, x, 0) for x in (enter, leave))
    hit = hit & (leave > enter)
    values64 = values64[view.nearest_first]
    density, base, slope = values64[:, 0] * hit, values64[:, 1:4], values64[:, 4:]
    origins, directions = view.rays64()
    first = points[view.cells.cpu().long()[view.nearest_first, 0]]

    def color(t: Tensor) -> Tensor:
        places = origins[:, None] + t[..., None] * directions[:, None] - first
        return (places * slope).sum(2, keepdim=True) + base

    depth = density * (leave - enter)
    safe = torch.where(hit, depth, 1)
    phi = -torch.expm1(-safe) / safe
    thin = (-before(depth)).exp() * hit
    inner = (phi - (-safe).exp())[..., None] * color(leave) + (1 - phi)[..., None] * color(enter)
    moment = density * (leave + enter) / 2
    own = density**2 * (leave - enter) / 3
    sums = [2 * moment * before(density), 2 * density * before(moment), density, moment, own]
    image = torch.cat([(thin[..., None] * inner).sum(1), -depth.sum(1, keepdim=True)], 1)
    expected = [picture(image), picture(torch.stack([s.sum(1) for s in sums], 1))]
    kept = torch.ones(HEIGHT, WIDTH, 1, dtype=torch.bool, device=table.device)
    file = f"{SHADERS}/alphablend_shader_interp.slang"
    compare(
        table,
        file,
        render,
        reference="float64 torch",
        expected=(expected, expected),
        inputs=inputs,
        inputs64=inputs64,
        kept=kept,
    )

    errors, similarity = view.random.uniform(2, HEIGHT, WIDTH).unbind(0)
    got = {
        "tet_err": torch.zeros(count, 16, device=table.device),
        "tet_count": torch.zeros(count, 2, dtype=torch.int32, device=table.device),
    }
    alpha_blend_shaders_interp[TILE, TILE].calc_tet_err(
        sorted_gauss_idx=view.order,
        tile_ranges=view.ranges,
        indices=view.cells,
        vertices=inputs[0].detach(),
        tet_density=inputs[1].detach(),
        output_img=render()[0].detach(),
        gt=torch.zeros(HEIGHT, WIDTH, 3, device=table.device),
        pixel_err=errors.contiguous(),
        ssim_err=similarity.contiguous(),
        n_contributors=torch.zeros(HEIGHT, WIDTH, 1, dtype=torch.int32, device=table.device),
        tcam=view.camera,
        **got,
    ).launchRaw(blockSize=(TILE, TILE, 1), gridSize=(view.grid.grid_width, view.grid.grid_height, 1))
    weight = (thin * depth).detach() * math.e  # the logarithm of the transmittance begins as 1 in this kernel
    e, s = (x.cpu().double().flatten()[:, None] for x in (errors, similarity))
    ends = [origins[:, None] + t.detach()[..., None] * directions[:, None] for t in (enter, leave, (enter + leave) / 2)]
    one = [weight, weight * e, weight * e**2, 0 * weight, 0 * weight, weight * s]
    columns = [x.sum(0)[:, None] for x in one] + [(weight[..., None] * end).sum(0) for end in ends[:2]]
    columns += [weight.sum(0)[:, None], (weight[..., None] * ends[2]).sum(0)]
    there = torch.empty(count, dtype=torch.int64).index_copy(0, view.nearest_first, torch.arange(count))
    largest = got["tet_count"][:, 1].double() / 65535
    table.values(
        file,
        "calc_tet_err",
        "float64 torch",
        1e-4,
        sums=(got["tet_err"], torch.cat(columns, 1)[there]),
        count=(got["tet_count"][:, 0], hit.sum(0)[there]),
        largest=(largest, weight.amax(0)[there]),
    )


def compare(
    table: Table,
    file: str,
    render: Callable[[], Any],
    *,
    reference: str,
    expected: tuple[list[Tensor], list[Tensor]],  # of which the second has the right gradients
    inputs: list[Tensor],
    inputs64: list[Tensor],
    kept: Tensor,
) -> None:
    names, got = ("image", "distortion"), render()
    pairs = {n: (g, e) for n, g, e in zip(names, got, expected[0], strict=True)}
    table.values(file, "splat_tiled", reference, 1e-4, **pairs)
    weights = [w * kept for w in Random(15, table.device).like(*got)]
    for name, one in zip(names, range(2), strict=True):  # by turns: those of distortion are large
        alone = [w * (n == one) for n, w in enumerate(weights)]
        found = grad(list(render()), inputs, alone)  # anew: their backward runs once
        wanted = grad(expected[1], inputs64, alone)
        table.gradients(
            file,
            "splat_tiled",
            reference,
            1e-3,  # the state before each tetrahedron is computed back from that behind the last
            **{f"{what}_of_{name}": pair for what, *pair in zip(("vertices", "values"), found, wanted, strict=True)},
        )


CASES = [smallest_singular_value, lookup, harmonics, tiles, constant_colors, linear_colors]
