"""A small scene of spheres, a box and a round floor, and what cameras around it see: the truth to train on.

Rays are cast in closed form and shaded by Lambert's and Phong's rules, with shadows.
"""

from __future__ import annotations

import math

import torch
from renderer import Camera
from torch import Tensor

BACKGROUND = [0.55, 0.7, 0.9]
SPHERES = [  # centre, radius, colour; y is down
    ((-0.75, -0.5, 0.1), 0.5, (0.85, 0.2, 0.15)),
    ((0.15, -0.3, -0.8), 0.3, (0.2, 0.65, 0.3)),
    ((0.95, -0.22, -0.35), 0.22, (0.95, 0.8, 0.2)),
]
BOX = ((0.15, -0.8, 0.25), (0.85, 0.0, 0.95), (0.25, 0.35, 0.8))  # two corners, colour
FLOOR = 1.7  # the radius of the floor, at y = 0
LIGHT = (-0.45, -0.8, -0.4)  # the direction towards the light


def camera_at(azimuth: float, elevation: float, distance: float, width: int, height: int) -> Camera:
    """A camera that looks at the scene's middle from two angles (radians), in float32 on the CPU."""
    middle = torch.tensor([0.0, -0.3, 0.0])
    away = torch.tensor(
        [math.cos(elevation) * math.sin(azimuth), -math.sin(elevation), -math.cos(elevation) * math.cos(azimuth)]
    )
    ahead = -away
    right = torch.linalg.cross(torch.tensor([0.0, 1.0, 0.0]), ahead)
    right = right / right.norm()
    turn = torch.stack([right, torch.linalg.cross(ahead, right), ahead])
    focal = 1.2 * min(width, height)
    return Camera(
        turn, -turn @ (middle + distance * away), torch.tensor([focal] * 2), torch.tensor([width / 2, height / 2])
    )


def cameras(count: int, width: int, height: int, device: torch.device) -> list[Camera]:
    """Cameras on three rings around the scene, in an order in which neighbours are far apart."""
    result = []
    for i in range(count):
        azimuth = 2 * math.pi * ((i * 0.618034) % 1)
        elevation = (0.3, 0.6, 0.95)[i % 3]
        camera = camera_at(azimuth, elevation, 3.4, width, height)
        result.append(Camera(*(tensor.to(device) for tensor in camera)))
    return result


def photograph(camera: Camera, width: int, height: int, samples: int = 3) -> Tensor:
    """What a camera sees, [height, width, 3], the mean of `samples` x `samples` rays a pixel."""
    return _trace(camera, width, height, samples)[0]


def points(camera: Camera, width: int, height: int) -> tuple[Tensor, Tensor]:
    """Places [N, 3] that the rays through pixels' middles hit, and their colours [N, 3].

    They stand for the points that structure from motion finds in photographs.
    """
    image, places, hits = _trace(camera, width, height, 1)
    return places[hits], image[hits]


def _trace(camera: Camera, width: int, height: int, samples: int) -> tuple[Tensor, Tensor, Tensor]:
    device = camera.turn.device
    rows = (torch.arange(height * samples, device=device) + 0.5) / samples
    columns = (torch.arange(width * samples, device=device) + 0.5) / samples
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    ahead = torch.stack(
        [(x - camera.center[0]) / camera.focal[0], (y - camera.center[1]) / camera.focal[1], torch.ones_like(x)], -1
    )
    rays = ahead @ camera.turn
    rays = rays / rays.norm(dim=-1, keepdim=True)
    start = (-camera.shift @ camera.turn).expand_as(rays)
    distance, normal, color = _nearest(start, rays)
    hits = distance.isfinite()
    places = start + rays * torch.where(hits, distance, 0.0)[..., None]
    shaded = torch.where(hits[..., None], _shade(places, normal, color, rays), torch.tensor(BACKGROUND, device=device))
    image = shaded.reshape(height, samples, width, samples, 3).mean((1, 3))
    return image, places, hits


def _shade(places: Tensor, normal: Tensor, color: Tensor, rays: Tensor) -> Tensor:
    light = torch.tensor(LIGHT, device=places.device)
    light = light / light.norm()
    distance, _, _ = _nearest(places + 1e-3 * normal, light.expand_as(places))
    lit = (~distance.isfinite()).float()[..., None]
    cosine = (normal @ light)[..., None]
    mirrored = 2 * cosine * normal - light
    glance = (-(mirrored * rays).sum(-1, keepdim=True)).clamp(min=0) ** 12
    return (color * (0.35 + 0.65 * lit * cosine.clamp(min=0)) + 0.25 * lit * glance).clamp(max=1)


def _nearest(start: Tensor, rays: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where rays first meet something: distance (infinite if they do not), normal there, and colour."""
    distance = torch.full(rays.shape[:-1], math.inf, device=rays.device)
    normal, color = torch.zeros_like(rays), torch.zeros_like(rays)
    for found, its_normal, its_color in [
        *(_sphere(start, rays, *s) for s in SPHERES),
        _box(start, rays),
        _floor(start, rays),
    ]:
        nearer = found < distance
        distance = torch.where(nearer, found, distance)
        normal = torch.where(nearer[..., None], its_normal, normal)
        color = torch.where(nearer[..., None], its_color, color)
    return distance, normal, color


def _sphere(
    start: Tensor, rays: Tensor, center: tuple[float, ...], radius: float, color: tuple[float, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    offset = start - torch.tensor(center, device=rays.device)
    half = (offset * rays).sum(-1)
    inside = half.square() - offset.square().sum(-1) + radius**2
    distance = -half - inside.clamp(min=0).sqrt()
    distance = torch.where((inside > 0) & (distance > 0), distance, math.inf)
    normal = (offset + rays * distance.nan_to_num(posinf=0.0)[..., None]) / radius
    return distance, normal, torch.tensor(color, device=rays.device)


def _box(start: Tensor, rays: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    low, high, color = (torch.tensor(numbers, device=rays.device) for numbers in BOX)
    first, second = (low - start) / rays, (high - start) / rays
    enters, axis = torch.minimum(first, second).max(-1)
    leaves = torch.maximum(first, second).amin(-1)
    distance = torch.where((enters < leaves) & (enters > 0), enters, math.inf)
    normal = -torch.nn.functional.one_hot(axis, 3) * rays.sign()
    return distance, normal, color


def _floor(start: Tensor, rays: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    distance = -start[..., 1] / rays[..., 1]
    place = start + rays * distance.nan_to_num(posinf=0.0, neginf=0.0)[..., None]
    is_there = (distance > 0) & (place[..., 0] ** 2 + place[..., 2] ** 2 < FLOOR**2)
    is_dark = ((place[..., 0] / 0.5).floor() + (place[..., 2] / 0.5).floor()) % 2 == 0
    color = torch.where(is_dark[..., None], 0.45, 0.85).expand_as(rays)
    normal = torch.tensor([0.0, -1.0, 0.0], device=rays.device).expand_as(rays)
    return torch.where(is_there, distance, math.inf), normal, color
