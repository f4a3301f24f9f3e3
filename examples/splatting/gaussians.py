"""The Gaussians that are trained, and how their number changes: adaptive density control of Kerbl et al., 2023."""

from __future__ import annotations

import math

import torch
from renderer import Camera, Splats, render
from torch import Tensor, nn

# Adam's learning rates, chosen for 500 steps. That of `means` is multiplied by the Gaussians' first size.
RATES = {"means": 0.1, "quaternions": 4e-2, "log_scales": 8e-2, "logits": 0.1, "harmonics": 3e-2}
LEAST_OPACITY = 0.02  # fainter ones are removed
ZEROTH = 0.28209479177387814  # the spherical harmonic of degree 0


class Gaussians(nn.Module):
    """Gaussians, and the optimizer that trains them in so many steps.

    At first they are balls at `places` [G, 3] with the standard deviation `size`, in `colors` [G, 3] from all sides.
    """

    def __init__(self, places: Tensor, colors: Tensor, degree: int, size: float, steps: int) -> None:
        super().__init__()
        self.size = size
        count = len(places)
        harmonics = torch.zeros(count, (degree + 1) ** 2, 3, device=places.device)
        harmonics[:, 0] = (colors - 0.5) / ZEROTH
        self.means = nn.Parameter(places.clone())
        self.quaternions = nn.Parameter(torch.randn(count, 4, device=places.device))
        self.log_scales = nn.Parameter(torch.full((count, 3), size, device=places.device).log())
        self.logits = nn.Parameter(torch.zeros(count, device=places.device))
        self.harmonics = nn.Parameter(harmonics)
        pace = math.sqrt(500 / steps)
        rates = {name: rate * pace * (size if name == "means" else 1) for name, rate in RATES.items()}
        groups = [{"params": [getattr(self, name)], "lr": rate, "name": name} for name, rate in rates.items()]
        self.optimizer = torch.optim.Adam(groups, betas=(0.9, 0.99), eps=1e-15)
        self.reset_pulls()

    def __len__(self) -> int:
        return len(self.means)

    def forward(self, camera: Camera, width: int, height: int, background: list[float]) -> tuple[Tensor, Splats]:
        parameters = (self.means, self.quaternions, self.log_scales, self.logits, self.harmonics)
        return render(parameters, camera, width, height, background)

    def reset_pulls(self) -> None:
        self.pull = torch.zeros(len(self), device=self.means.device)
        self.seen = torch.zeros(len(self), device=self.means.device)

    @torch.no_grad()
    def note_pulls(self, splats: Splats) -> None:
        """After a backward of an image: how strongly it pulls at each splat's centre."""
        assert splats.numbers.grad is not None
        is_seen = (splats.rectangles[:, 2:] > splats.rectangles[:, :2]).all(1)
        self.pull += splats.numbers.grad[:, :2].norm(dim=1)
        self.seen += is_seen

    @torch.no_grad()
    def densify(self, most: int, share: float) -> None:
        """Removes faint Gaussians; a `share` of them, those that are pulled most, become two, up to `most` in all.

        One that is much larger than at first is split: two, drawn from it and 1.6 times smaller, take its place. Of
        others there is a second at the same place, which goes its own way since its optimizer's state is its own.
        """
        is_kept = self.logits.sigmoid() > LEAST_OPACITY
        pull = torch.where(is_kept, self.pull / self.seen.clamp(min=1), 0.0)
        room = max(0, min(int(share * len(self)), most - int(is_kept.sum())))
        chosen = pull.topk(min(room, len(self))).indices
        chosen = chosen[pull[chosen] > 0]
        is_large = self.log_scales.exp().amax(1) > 1.5 * self.size
        split, cloned = chosen[is_large[chosen]], chosen[~is_large[chosen]]
        is_kept[split] = False
        kept = is_kept.nonzero()[:, 0]
        source = torch.cat([kept, cloned, split, split])
        means = self.means[source]
        log_scales = self.log_scales[source]
        parts = slice(len(kept) + len(cloned), None)
        means[parts] += self.drawn(source[parts])
        log_scales[parts] -= math.log(1.6)
        self.replace(source, len(kept), means=means, log_scales=log_scales)
        self.reset_pulls()

    def drawn(self, which: Tensor) -> Tensor:
        """A random offset from the middle of each of these Gaussians, as it is distributed."""
        q = nn.functional.normalize(self.quaternions[which])
        offset = torch.randn(len(which), 3, device=q.device) * self.log_scales[which].exp()
        axis, w = q[:, 1:], q[:, :1]
        twice = 2 * torch.linalg.cross(axis, offset)
        return offset + w * twice + torch.linalg.cross(axis, twice)

    def replace(self, source: Tensor, kept: int, **changed: Tensor) -> None:
        """Takes the Gaussians at `source`, the first `kept` of them with their optimizer's state."""
        for group in self.optimizer.param_groups:
            name = group["name"]
            old = group["params"][0]
            new = nn.Parameter(changed.get(name, old[source]))
            state = self.optimizer.state.pop(old, None)
            if state:
                for moment in ("exp_avg", "exp_avg_sq"):
                    state[moment] = state[moment][source]
                    state[moment][kept:] = 0
                self.optimizer.state[new] = state
            group["params"][0] = new
            setattr(self, name, new)
