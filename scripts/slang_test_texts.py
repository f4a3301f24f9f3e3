"""Slang's own tests of derivatives (slang_tests.py) as texts: what one says of itself, its entry as a kernel."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

TYPES = {"float": "float32", "int": "int32", "uint": "uint32"}
_KINDS = "|".join(TYPES)
# Elements behind those of each buffer: some tests read or write there, and expect that they are there.
SPARE = 256


class NotApplicableError(Exception):
    """What the test is about is not what torch_slang does; the reason is for the table."""


class Claim(Enum):
    """What a test says: of the numbers that it writes or prints, of what compiles, or of an error."""

    NUMBERS = "the numbers that the test expects"
    COMPILES = "compiles, and the test is of the text that Slang emits"
    FAILS = "an error, and the test expects one"
    DERIVATIVE = "the derivative, where the test expects Slang's zero"


@dataclass(frozen=True)
class Buffer:
    name: str
    type: str
    width: int  # components of an element
    element: str  # its type: of a struct its name
    words: list[int]
    is_out: bool

    @property
    def is_number(self) -> bool:
        return self.element in TYPES


# --- What a test says about itself


# What an operator has no use for, or Slang has only on request.
_ELSEWHERE = [
    (r"TEST_IGNORE_FILE", "part of another test"),
    (r"-experimental-feature", "wants Slang's -experimental-feature"),
    (r"-capability abort", "of SPIR-V's abort()"),
    (r"^[^/\n]*\b(RW)?Texture[123]D", "of textures"),
    (r"^(uniform )?\w+ ?\*|^(RW)?StructuredBuffer<I[A-Z]", "of pointers, or of interfaces in buffers"),
]


def claim_of(text: str) -> Claim:
    for pattern, reason in _ELSEWHERE:
        if re.search(pattern, text, re.MULTILINE):
            raise NotApplicableError(reason)
    if re.search(r"^\s*//\s*\w*TEST\w*(\([^)]*\))?:(COMPARE_COMPUTE|INTERPRET)", text, re.MULTILINE):
        return Claim.NUMBERS
    return Claim.FAILS if messages_of(text) else Claim.COMPILES


def messages_of(text: str) -> list[str]:
    """What Slang says where a test expects an error: a number, or words of the message."""
    lines = [line for line in text.splitlines() if "-NOT:" not in line and "warning" not in line]
    told = [number for line in lines if "CHECK" in line for number in re.findall(r"\bE\d{5}\b", line)]
    if "//DIAGNOSTIC_TEST" in text:
        told += [words for line in lines for words in re.findall(r"(?:\^ |CHECK: *)(\w[^^]*?)\s*$", line)]
    return told


# Whose struct has derivatives here though it is not IDifferentiable: what it computes, and Slang's zeros in its place.
DERIVATIVES = {"reverse-while-loop-3": ["1"]}


def is_switched_off(text: str) -> bool:
    return not re.search(r"^\s*//TEST(\([^)]*\))?:", text, re.MULTILINE)


def is_interpreted(text: str) -> bool:
    return re.search(r"^\s*//TEST(\([^)]*\))?:INTERPRET", text, re.MULTILINE) is not None


def words_of(text: str) -> list[int]:
    """As Slang's tests have them: a number without a point is a whole one, in a buffer of floats too."""
    found = []
    for number in re.findall(r"[^\s,]+", text):
        is_whole = re.fullmatch(r"-?\d+|0[xX][0-9a-fA-F]+", number) is not None
        packed = (
            (int(number, 0) & 0xFFFFFFFF).to_bytes(4, "little")
            if is_whole
            else struct.pack("<f", float(number.rstrip("f")))
        )
        found.append(int.from_bytes(packed, "little", signed=True))
    return found


def _widths(text: str) -> dict[str, tuple[str, int, str]]:
    """Of each declared buffer its numbers' type, how many an element has, and the element's type."""
    structs = {}
    for name, body in re.findall(r"struct\s+(\w+)[^{;]*\{([^{}()]*)\}", text):
        fields = re.findall(rf"\b({_KINDS})([234]?)\s+\w+\s*;", body)
        if len({kind for kind, _ in fields}) == 1 and len(fields) == body.count(";"):
            structs[name] = (fields[0][0], sum(int(width or 1) for _, width in fields))
    found = {}
    for element, name in re.findall(r"StructuredBuffer<\s*([^>;]+?)\s*>(?:\.Handle)?\s*(\w+)\s*[;,)]", text):
        number = re.fullmatch(rf"({_KINDS})([234]?)", element)
        if number is not None:
            found[name] = (number[1], int(number[2] or 1), element)
        elif element in structs:
            found[name] = (*structs[element], element)
    return found


def buffers_of(text: str, parts: str = "") -> list[Buffer]:
    """`parts`: of files that it imports, which may have the declarations."""
    types = _widths(re.sub(r"//.*", "", parts)) | _widths(re.sub(r"//.*", "", text))
    found = []
    for line in re.findall(r"^\s*//TEST_INPUT:(.*)$", text, re.MULTILINE):
        if "type_conformance" in line:
            continue
        data = re.search(r"ubuffer\(data=\[([^\]]*)\](?:,\s*stride=\d+)?(?:,\s*count=(\d+))?", line)
        name = re.search(r"set\s+(\w+)\s*=", line) or re.search(r"name[ =]\s*(\w+)", line)
        if data is None or name is None or name[1] not in types:
            raise NotApplicableError("buffers of interfaces, textures or pointers")
        is_out = re.search(r"\bout\b", line) is not None
        words = words_of(data[1])
        words += [0] * (int(data[2] or 0) - len(words))
        found.append(Buffer(name[1], *types[name[1]], words, is_out))
    if not found:  # a test of text has none
        found = [Buffer(name, *about, [0] * 16, True) for name, about in types.items()]
    return found


def expected_lines(path: Path, text: str) -> list[str]:
    """Of the values that a test writes: a number, or a pattern that FileCheck knows; in order."""
    beside = path.with_name(path.name + ".expected.txt")
    lines = beside.read_text().splitlines() if beside.exists() else []
    lines = [line.strip() for line in lines if line.strip() and "type:" not in line]
    if lines and re.fullmatch(r"[-+.\w]+", lines[0]):
        return lines
    prefix = re.search(r"^\s*//\w*TEST[^\n]*filecheck-buffer=(\w+)", text, re.MULTILINE)
    prefix = prefix or re.search(r"^\s*//TEST[^\n]*INTERPRET\(filecheck=(\w+)", text, re.MULTILINE)
    if prefix is None:
        raise NotApplicableError("no expected numbers")
    lines = re.findall(rf"//\s*{prefix[1]}(?:-NEXT|-SAME|-DAG)?:\s*(.*?)\s*$", text, re.MULTILINE)
    return [line for line in lines if "type:" not in line]


# --- The text as a kernel of ours


def entry_of(text: str) -> re.Match[str]:
    kind = "INTERPRET" if is_interpreted(text) else ""
    name = re.search(rf"^\s*//\w*TEST[^\n]*{kind}[^\n]*-entry (\w+)", text, re.MULTILINE)
    called = "main" if kind else "computeMain"
    found = re.search(rf"(?:public\s+)?void\s+({name[1] if name else called})\s*\(([^)]*)\)\s*\{{", text)
    if found is None:
        raise NotApplicableError("no entry of a compute shader")
    return found


def has_entry(text: str) -> bool:
    try:
        entry_of(text)
    except NotApplicableError:
        return False
    return True


def _thread_of(parameters: str) -> str:
    """The entry's system values as variables."""
    lines = []
    indices = {"SV_DispatchThreadID": "cudaBlockIdx() * cudaBlockDim() + cudaThreadIdx()"}
    indices |= {"SV_GroupThreadID": "cudaThreadIdx()", "SV_GroupID": "cudaBlockIdx()"}
    for parameter in filter(None, map(str.strip, parameters.split(","))):
        found = re.fullmatch(r"(u?int)([23]?)\s+(\w+)\s*:\s*(\w+)", parameter)
        if found is None and "StructuredBuffer" in parameter:
            continue  # a buffer's declaration
        if found is None or found[4] not in indices:
            raise NotApplicableError("an entry with other parameters than buffers and its thread")
        part = {"": ".x", "2": ".xy", "3": ""}[found[2]]
        lines.append(f"{found[1]}{found[2]} {found[3]} = {found[1]}{found[2]}(({indices[found[4]]}){part});")
    return " ".join(lines)


def _types_in_use(text: str, view: str, element: str) -> tuple[str, str]:
    """Functions and calls, never made, that use each type of a `type_conformance`: so Slang's linker knows of it."""
    pairs = re.findall(r"^\s*//TEST_INPUT:\s*type_conformance\s+(\S+?)\s*:\s*(\S+)\s*=", text, re.MULTILINE)
    functions, calls = [], []
    for number, (kind, interface) in enumerate(pairs):
        used = f"if (kept is {kind}) view[0] = {element}(0);"
        functions.append(
            f"[noinline] void tsl_keep_{number}({interface} kept, TensorView<{element}> view) {{ {used} }}"
        )
        calls.append(f"{{ {kind} tsl_type; tsl_keep_{number}(tsl_type, {view}); }}")
    return " ".join(functions), f"if ({view}.size(0) == 0) {{ {' '.join(calls)} }}" if calls else ""


def _declaration(names: str) -> str:
    return rf"^[ \t]*(?:public |uniform )*(?:RW)?StructuredBuffer<[^;\n]*>(?:\.Handle)?\s*(?:{names})\s*;"


def views_for_buffers(text: str) -> str:
    text = re.sub(r"\b(?:RW)?StructuredBuffer<\s*(\w+)\s*>\.Handle\b", r"TensorView<\1>", text)
    return re.sub(r"\b(?:RW)?StructuredBuffer<\s*(\w+)\s*>(?!\.)", r"TensorView<\1>", text)


def part_text(text: str, buffers: list[Buffer]) -> str:
    """A file that the test imports, and that may declare a buffer."""
    for one in buffers:
        text = re.sub(
            _declaration(one.name), f"public static TensorView<{one.element}> {one.name};", text, flags=re.MULTILINE
        )
    return views_for_buffers(text)


def kernel_text(text: str, buffers: list[Buffer]) -> str:
    """Buffers that functions use beside the entry are static, and set by the entry."""
    entry = entry_of(text)
    element = {b.name: b.element for b in buffers} or {"tsl_nothing": "float"}
    declaration = _declaration("|".join(element))
    is_declared = {name: re.search(_declaration(name), text, re.MULTILINE) is not None for name in element}
    before, after = (
        re.sub(declaration, "", part, flags=re.MULTILINE) for part in (text[: entry.start()], text[entry.end() :])
    )
    elsewhere = re.sub(r"//.*", "", before)
    in_part = {name for name in element if not is_declared[name] and name not in entry[2] and buffers}
    shared = [name for name in element if re.search(rf"\b{name}\b", elsewhere) or name in in_part]
    parameters = ", ".join(f"TensorView<{kind}> {name}{'_given' * (name in shared)}" for name, kind in element.items())
    sets = " ".join(f"{name} = {name}_given;" for name in shared)
    head = f"[PyBindCUDA(Auto)] [CudaKernel] void {entry[1]}({parameters}) {{ {_thread_of(entry[2])} {sets} "
    conformances = _types_in_use(text, *next(iter(element.items()))) if buffers else ("", "")
    result = f"{before}{conformances[0]} {head}{conformances[1]}{after}"
    attribute = r'(?:[sS]hader\("\w+"\)|[nN]um[tT]hreads\([^)]*\))'
    result = re.sub(rf"\[\s*{attribute}(?:\s*,\s*{attribute})*\s*\]", "", result)
    statics = "".join(f"static TensorView<{element[name]}> {name}; " for name in shared if name not in in_part)
    return statics + views_for_buffers(result)


def block_of(text: str) -> list[int]:
    found = re.search(r"umthreads\(\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)", text[: entry_of(text).start() + 1], re.I)
    return [int(size) for size in found.groups()] if found else [1, 1, 1]


def with_own_derivatives(text: str) -> set[str]:
    """Functions whose derivative may be another than that of their value: written by the source, or a call's is."""
    text = re.sub(r"//.*", "", text)
    parts = re.split(r"\b(\w+)\s*\([^(){};]*\)\s*(?=\{)", text)  # names, between texts
    bodies = list(zip(parts[1::2], parts[0::2], parts[2::2], strict=False))
    written = r"(?:Backward|Forward|Primal)\w*(?:Derivative|Substitute)"
    own = {name for name, before, _ in bodies if re.search(rf"\[{written}\([^;}}]*$", before)} | {"detach"}
    own |= set(re.findall(rf"\[{written}Of\((?:[\w.]*\.)?(\w+)", text))
    while more := {n for n, _, body in bodies if n not in own and re.search(rf"\b(?:{'|'.join(own)})\s*\(", body)}:
        own |= more
    return own


def in_double(text: str) -> str:
    text = re.sub(r"(?<![\w.])(\d+\.\d*|\.\d+|\d+)f\b", r"\1", text)
    return re.sub(r"\bfloat([234](?:x[234])?)?\b", r"double\1", text)
