"""Renders 3-D Gaussians by plain PyTorch: every Gaussian at every pixel, matrices as the papers write them.

Independent of examples/splatting but for the numbers that define what is drawn.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from numpy.polynomial import Legendre, Polynomial
from torch import Tensor

NEAR, LOW_PASS, BEYOND = 0.01, 0.3, 0.15
LEAST_OPACITY, MOST_OPACITY, LEAST_LIGHT = 1 / 255, 0.99, 1e-4


def rotations(quaternions: Tensor) -> Tensor:
    """[G, 3, 3], by turning the axes: v + 2 w (q x v) + 2 q x (q x v)."""
    q = quaternions / quaternions.norm(dim=1, keepdim=True)
    axis = q[:, None, 1:].expand(-1, 3, 3)
    axes = torch.eye(3, dtype=q.dtype, device=q.device).expand(len(q), 3, 3)
    once = torch.linalg.cross(axis, axes)
    return (axes + 2 * q[:, :1, None] * once + 2 * torch.linalg.cross(axis, once)).mT


def harmonic(degree: int, order: int, direction: Tensor) -> Tensor:
    """The real spherical harmonic, by derivatives of Legendre's polynomials, with the Condon-Shortley phase."""
    x, y, z = direction.unbind(-1)
    m = abs(order)
    along = Legendre.basis(degree).deriv(m).convert(kind=Polynomial).coef if m else None
    along = Legendre.basis(degree).convert(kind=Polynomial).coef if along is None else along
    around_real, around_imaginary = torch.ones_like(x), torch.zeros_like(x)
    for _ in range(m):
        around_real, around_imaginary = x * around_real - y * around_imaginary, x * around_imaginary + y * around_real
    around = around_real if order >= 0 else around_imaginary
    norm = math.sqrt((2 * degree + 1) / (4 * math.pi) * math.factorial(degree - m) / math.factorial(degree + m))
    scale = (-1) ** m * norm * (math.sqrt(2) if m else 1)
    return scale * around * sum(float(c) * z**i for i, c in enumerate(along))


def project(gaussians: tuple[Tensor, ...], camera: Any, width: int, height: int) -> tuple[Tensor, ...]:
    """Centres [G, 2], covariances [G, 2, 2], opacities [G], colours [G, 3] and depths [G]."""
    means, quaternions, log_scales, logits, harmonics = gaussians
    place = means @ camera.turn.mT + camera.shift
    depth = place[:, 2].clamp(min=NEAR)
    size = torch.tensor([width, height], dtype=means.dtype, device=means.device)
    least = (-BEYOND * size - camera.center) / camera.focal
    most = ((1 + BEYOND) * size - camera.center) / camera.focal
    slope = (place[:, :2] / depth[:, None]).clamp(least, most)
    zero = torch.zeros_like(depth)
    fx, fy = camera.focal
    perspective = torch.stack(
        [
            torch.stack([fx / depth, zero, -fx * slope[:, 0] / depth], -1),
            torch.stack([zero, fy / depth, -fy * slope[:, 1] / depth], -1),
        ],
        1,
    )
    axes = rotations(quaternions) @ torch.diag_embed(log_scales.exp())
    to_image = perspective @ camera.turn
    identity = torch.eye(2, dtype=means.dtype, device=means.device)
    covariance = to_image @ axes @ axes.mT @ to_image.mT + LOW_PASS * identity
    direction = torch.nn.functional.normalize(means + camera.shift @ camera.turn, dim=1)
    orders = [(degree, order) for degree in range(4) for order in range(-degree, degree + 1)]
    basis = torch.stack([harmonic(*one, direction) for one in orders[: harmonics.shape[1]]], 1)
    color = ((basis[..., None] * harmonics).sum(1) + 0.5).clamp(min=0)
    center = camera.focal * place[:, :2] / depth[:, None] + camera.center
    return center, covariance, logits.sigmoid(), color, place[:, 2]


def render(
    gaussians: tuple[Tensor, ...], camera: Any, width: int, height: int, background: list[float]
) -> tuple[Tensor, Tensor]:
    """An image [height, width, 3] and the part of the background that comes through, [height, width]."""
    center, covariance, opacity, color, depth = project(gaussians, camera, width, height)
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    points = torch.stack([columns, rows], -1).to(depth) + 0.5
    inverse = torch.linalg.inv(covariance)
    image = torch.zeros(height, width, 3, dtype=depth.dtype, device=depth.device)
    through = torch.ones(height, width, dtype=depth.dtype, device=depth.device)
    ended = torch.zeros_like(through, dtype=torch.bool)
    for g in depth.argsort().tolist():
        if depth[g] <= NEAR:
            continue
        offset = points - center[g]
        squared = torch.einsum("hwi,ij,hwj->hw", offset, inverse[g], offset)
        alpha = (opacity[g] * torch.exp(-squared / 2)).clamp(max=MOST_OPACITY)
        alpha = torch.where(alpha >= LEAST_OPACITY, alpha, 0)
        ended = ended | (through * (1 - alpha) < LEAST_LIGHT)
        alpha = torch.where(ended, 0, alpha)
        image = image + (through * alpha)[..., None] * color[g]
        through = through * (1 - alpha)
    return image + through[..., None] * torch.tensor(background, dtype=depth.dtype, device=depth.device), through
