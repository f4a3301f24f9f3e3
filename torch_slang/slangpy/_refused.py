"""What SlangPy has and this has not, with one sentence for each."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["reason_for", "refuse"]

_GRAPHICS = "belongs to graphics, which stays SlangPy's: tensors and functions of them are all there is here"

_NAMES = {
    **dict.fromkeys(
        (
            *("Window", "Surface", "Texture", "TextureLoader", "TextureView", "Sampler", "Bitmap", "Format", "Fence"),
            *("CommandEncoder", "CommandBuffer", "ComputePassEncoder", "RenderPassEncoder", "RayTracingPassEncoder"),
            *(
                "ComputePipeline",
                "RenderPipeline",
                "RayTracingPipeline",
                "ComputeKernel",
                "ShaderProgram",
                "ShaderTable",
            ),
            *("ShaderCursor", "ShaderObject", "BufferCursor", "InputLayout", "AccelerationStructure", "QueryPool"),
            *("HitGroupDesc", "ui", "tev", "renderdoc", "Blitter"),
        ),
        _GRAPHICS,
    ),
    **dict.fromkeys(
        ("Buffer", "BufferUsage", "NDBuffer", "copy_torch_tensor_to_buffer", "copy_buffer_to_torch_tensor"),
        "is memory of a graphics device: torch tensors are the buffers here",
    ),
    **dict.fromkeys(
        ("TypeConformance", "CoopVec", "CoopVecMatrixDesc"), "is for compilers of graphics, and no operator can have it"
    ),
}


def refuse(name: str, why: str) -> NoReturn:
    """Raises NotImplementedError."""
    raise NotImplementedError(f"slangpy: {name} {why}")


def reason_for(name: str) -> str | None:
    """Why a name of SlangPy's is not here, as a sentence, or None for other names."""
    return None if name not in _NAMES else f"slangpy: {name} {_NAMES[name]}"
