"""What SlangPy has and this has not, with one sentence for each."""

from __future__ import annotations

import re
from typing import NoReturn

__all__ = ["math_reason_for", "reason_for", "refuse"]

# By the names' beginnings, or whole where they end in `$`.
_REASONS = (
    (
        "belongs to graphics, which stays SlangPy's: tensors and functions of them are all there is here",
        """AccelerationStructure LinearSweptSpheres App$ AppDesc AppWindow Window Surface Texture RWTexture Sampler
        Bitmap Blitter Format$ Format[A-Z] Fence Command Compute[KP] Render RayTracing Pipeline PassEncoder
        Kernel$ Shader[CMOPST] ShaderHotReload Blend Aspect ColorTarget Cull Comparison Depth Stencil Draw Fill
        Front HitGroup Index[A-Z] Input[A-Z] LoadOp StoreOp LogicOp Multisample Primitive Query Raster Scissor
        Viewport VertexStream Subresource BufferCursor BufferElementCursor get_format_info ALL_LAYERS ALL_MIPS
        ui$ tev$ renderdoc$""",
    ),
    (
        "is input of a window, which belongs to graphics and stays SlangPy's",
        "Mouse Key Gamepad Cursor(Mode|Shape)",
    ),
    (
        "is memory of a graphics device: torch tensors are the buffers here",
        """Buffer NDBuffer (RW)?StructuredBuffer (RW)?ByteAddressBuffer AppendStructuredBuffer ConsumeStructuredBuffer
        StridedBuffer MemoryType Heap Resource Descriptor Bindless copy_torch_tensor_to_buffer
        copy_buffer_to_torch_tensor""",
    ),
    (
        "describes a graphics device, which there is none of: tensors say where functions run",
        "Adapter Device[A-Z] Feature NativeHandle WindowHandle get_cuda_current_context",
    ),
    (
        "is for compilers of graphics, and no operator can have it",
        "TypeConformance CoopVec",
    ),
    (
        "is SlangPy's own inside, of which there is nothing here: inspect.signature(function) says what one takes",
        r"""\w*Reflection ProgramLayout EntryPoint ModifierID DeclReflection VariableLayout TypeLayout Attribute$ Native
        bindings$ builtin$ reflection$ internal_marshalls$ experimental$ slangpy$ Shape$ set_(dump|print|allow)_ Object$
        build_dir$ package_dir$ (CallId|RandFloat|ThreadId|WangHash|Grid)Arg$ PackedArg$""",
    ),
    (
        "is an option of SlangPy's compiler: include_paths and defines are the options here",
        "Slang[A-Z] SLANG_ SGL_ SHADER_PATH",
    ),
    (
        "is the type of single numbers: Python's own do",
        "float16_t$",
    ),
    (
        "has nothing to do with tensors: Python's own libraries have the like",
        """(Console|File|DebugConsole)?Logger Log[A-Z] log$ log_ Timer SHA1 DataStruct DataType platform$ thread$
        testing$""",
    ),
)
_PATTERNS = [(re.compile("|".join(names.split())), reason) for reason, names in _REASONS]


def refuse(name: str, why: str) -> NoReturn:
    """Raises NotImplementedError."""
    raise NotImplementedError(f"slangpy: {name} {why}")


def reason_for(name: str) -> str | None:
    """Why a name of SlangPy's is not here, as a sentence, or None for other names."""
    return next((f"slangpy: {name} {reason}" for pattern, reason in _PATTERNS if pattern.match(name)), None)


def math_reason_for(name: str) -> str:
    """Why a name of SlangPy's math is not here."""
    return f"slangpy.math: there is no {name}: only types are here, and torch or Python's math compute"
