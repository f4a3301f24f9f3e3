#include "source/source_text.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <set>

#include "common/files.h"
#include "prelude/abi.h"
#include "prelude/text.h"
#include "program/intrinsics.h"
#include "source/map_text.h"
#include "source/thread_text.h"

namespace torch_slang {
namespace {

constexpr const char* kLinePrefix = "torch_slang/";

std::string line_directive(size_t line, std::string_view name) {
  return "#line " + std::to_string(line) + " \"" + kLinePrefix + std::string(name) + "\"\n";
}

std::string_view embedded_text(std::string_view name) {
  const EmbeddedText* end = kPreludeText + kPreludeTextCount;
  const EmbeddedText* found =
      std::find_if(kPreludeText, end, [&](const EmbeddedText& entry) { return name == entry.name; });
  TORCH_INTERNAL_ASSERT(found != end, "the prelude has no file ", std::string(name));
  return found->text;
}

// The file's name if the line is `#include "folder/name.h"`; includes in angle brackets are the device compiler's.
std::string_view included_name(std::string_view line) {
  constexpr std::string_view kStart = "#include \"";
  if (line.substr(0, kStart.size()) != kStart) return {};
  const std::string_view path = line.substr(kStart.size(), line.rfind('"') - kStart.size());
  return path.substr(path.rfind('/') + 1);
}

// Puts a file and, where they are first met, those that it includes at the end of `text`.
void append_file(std::string_view name, std::set<std::string, std::less<>>& seen, std::string& text) {
  if (!seen.emplace(name).second) return;
  text += line_directive(1, name);
  const std::string_view content = embedded_text(name);
  size_t number = 1;
  for (size_t start = 0; start < content.size(); ++number) {
    const size_t end = std::min(content.find('\n', start), content.size());
    const std::string_view line = content.substr(start, end - start);
    start = end + 1;
    if (const std::string_view other = included_name(line); !other.empty()) {
      append_file(other, seen, text);
      text += line_directive(number + 1, name);
    } else {
      if (line != "#pragma once") text += line;  // warned about, since the text is no header any more
      text += '\n';
    }
  }
}

std::string file_with_includes(std::string_view name, std::set<std::string, std::less<>> seen) {
  std::string text;
  append_file(name, seen, text);
  return text;
}

const std::string& abi_text() {
  static const std::string text = file_with_includes("abi.h", {});
  return text;
}

// A file of the prelude that prelude.h does not include, with those that it includes and prelude.h does not.
std::string further_text(std::string_view name) {
  std::set<std::string, std::less<>> seen{"abi.h"};
  std::string before;
  append_file("prelude.h", seen, before);
  return file_with_includes(name, seen);
}

const std::string& matrix_text() {
  static const std::string text = further_text("mma.h");
  return text;
}

const std::string& wave_sums_text() {
  static const std::string text = further_text("wave_sums.h");
  return text;
}

const std::string& map_text() {
  static const std::string text = further_text("map_loop.h");
  return text;
}

const std::string& prelude_text() {
  static const std::string text = file_with_includes("prelude.h", {"abi.h"});
  return text;
}

std::string define(const char* name, int value) {
  return std::string("#define ") + name + " " + std::to_string(value) + "\n";
}

// Of runs of additions: Note [wave sums] in prelude/wave_sums.h. Where lanes do not sum, a thread joins neighbouring numbers:
// Note [neighbours] in prelude/neighbours.h.
std::string run_definitions(const KernelSource& source) {
  if (source.has_wave_sums) return define("TSL_SINGLE_SUMS", !uses(source.text, {intrinsics::kSumsBegin}));
  if (!has_runs(source.text)) return "";
  std::string text;
  const auto define_word = [&](const std::string& word, const std::string& meaning) {
    text += "#define TSL_SUMS_" + word + " " + meaning + "\n";
  };
  for (const char* word : {"BEGIN", "BEGIN_BESIDE"})
    define_word(std::string(word) + "(count, starts)", "neighbours.template begin<count>()");
  for (const char* word : {"END(count, starts)", "END_SEEN(count, starts)", "WAIT()"})
    define_word(word, "neighbours.end()");
  define_word("NEXT(label)", "continue");
  define_word("JOIN(label, count, starts)", "");
  return text + define("TSL_NEIGHBOURS", source.joins_neighbours);
}

std::string block_definition(const uint32_t (&block)[3]) {
  if (block[0] == 0) return "";
  return "#define TSL_BLOCK " + std::to_string(block[0]) + "u, " + std::to_string(block[1]) + "u, " +
         std::to_string(block[2]) + "u\n";
}

// TSL_SITES(X): X(file, line) of each TSL_AT(file, line) in the text.
std::string site_definitions(const KernelSource& source) {
  if (!source.locate) return "";
  std::string text = "#define TSL_LOCATE 1\n#define TSL_SITES(X)";
  for (const std::string& site : source.text.sites) text += " X(" + site + ")";
  return text + "\n";
}

// Whether tiles of 16-bit numbers may be multiplied, which Hopper does in a way of its own.
bool names_half(const DeviceText& text) { return uses(text, {intrinsics::kHalf, intrinsics::kBFloat16}); }

std::string map_definitions(const KernelSource& source) {
  if (!source.map) return "";
  return define("TSL_SEES_TENSORS", source.map->sees_tensors ? int{kMapThreads} : 0) +
         define("TSL_OWN_PLACES", static_cast<int>(source.map->places.size())) +
         define("TSL_MAP_SUMS", static_cast<int>(has_few_elements(source.thread_views)));
}

std::string definitions(const KernelSource& source) {
  return site_definitions(source) + run_definitions(source) + block_definition(source.block) +
         define("TSL_VIEW_COUNT", source.view_count) + define("TSL_SLOT_COUNT", source.slot_count) +
         define("TSL_DIM_COUNT", source.dim_count) +
         define("TSL_GRADIENT_SCALARS", static_cast<int>(source.gradient_scalars)) +
         define("TSL_GRADIENT_COMPONENTS", static_cast<int>(source.gradient_components)) +
         define("TSL_INDEPENDENT", source.independent_views) + define("TSL_CHECKS", static_cast<int>(source.checks)) +
         define("TSL_POLLS", source.polls) + (source.wraps ? define("TSL_WRAPS", 1) : "") +
         (source.at_once ? define("TSL_AT_ONCE", 1) : "") + define("TSL_BARRIERS", source.text.barriers) +
         define("TSL_FAST_MATH", source.fast_math) + define("TSL_LANES", source.threads.lanes) +
         define("TSL_TILED_WAVES", source.threads.tiles_waves) +
         define("TSL_HELD_SUMS", source.holds_sums || (source.has_wave_sums && !source.map)) +
         define("TSL_SHARED_SUMS", source.threads.shares) + define("TSL_FLAT_GRID", source.threads.is_flat) +
         define("TSL_SAMPLE_DIMS", source.sample_dims) + define("TSL_WAVES", source.text.waves) +
         define("TSL_SCATTERED_WAVES", source.text.scattered_waves) +
         (source.text.direction == Direction::TangentsBackward ? define("TSL_SPECULATES", 1) : "") +
         define("TSL_TANGENTS", source.text.direction == Direction::Jvp) + define("TSL_MMA", multiplies(source)) +
         define("TSL_MMA_HALF", static_cast<int>(names_half(source.text))) +
         define("TSL_VALUE_SUMS", uses(source.text, {intrinsics::kValueGradient})) + map_definitions(source);
}

// The pointers that samples move: Note [samples] in backend/samples.h.
std::string sample_definitions(const KernelSource& source) {
  if (source.sample_dims == 0) return "";
  const size_t slots = source.pointer_slots.size();
  return define("TSL_SAMPLE_POINTERS", source.view_count + static_cast<int>(slots)) +
         define("TSL_POINTER_SLOT_COUNT", static_cast<int>(slots)) + "#define TSL_POINTER_SLOTS " +
         (slots > 0 ? c10::Join(", ", source.pointer_slots) : "0") + "\n";
}

constexpr const char* kArgs = R"(struct TslArgs {
  TslHeader header;
  TslView views[TSL_VIEW_COUNT > 0 ? TSL_VIEW_COUNT : 1];
  unsigned long long slots[TSL_SLOT_COUNT > 0 ? TSL_SLOT_COUNT : 1];
  unsigned dims[TSL_DIM_COUNT > 0 ? TSL_DIM_COUNT : 1];
#if TSL_SAMPLE_DIMS
  long long sample_steps[TSL_SAMPLE_POINTERS][TSL_SAMPLE_DIMS];
  unsigned sample_sizes[TSL_SAMPLE_DIMS], first_sample;
#endif
#if TSL_MMA && defined(__CUDACC__)
  unsigned maps_hold;
  TslMatrixLayout layouts[TSL_VIEW_COUNT];
  TslMatrixMap maps[TSL_VIEW_COUNT];
#endif
};
)";

}  // namespace

bool multiplies(const DeviceText& text) {
  return uses(text, {intrinsics::kMultiply, intrinsics::kMultiplyPart, intrinsics::kMultiplyBlocks,
                     intrinsics::kMultiplyLines, intrinsics::kMultiplyGathered});
}

bool multiplies(const KernelSource& source) { return multiplies(source.text); }

namespace {

const char* base_of(const KernelSource& source) {
  if (source.map) {
    return source.has_wave_sums ? "MapKernel<tsl::SummingOwn<Own>, TslInputs, TslOutputs>"
                                : "MapKernel<Own, TslInputs, TslOutputs>";
  }
  if (multiplies(source)) return "MatrixKernel<Own>";
  return source.has_wave_sums ? "KernelBase<tsl::SummingOwn<Own>>" : "KernelBase<Own>";
}

}  // namespace

std::string assemble_source(const KernelSource& source, std::string_view launcher) {
  std::string text = abi_text();
  text += line_directive(1, "arguments");
  text += definitions(source) + sample_definitions(source);
  text += kArgs;
  text += prelude_text();
  if (multiplies(source)) text += matrix_text();
  if (source.has_wave_sums) text += wave_sums_text();
  if (source.map) text += map_text();
  text += line_directive(1, "file_scope");
  text += source.text.file_scope;
  text += "\n" + line_directive(1, "views");
  text += "TSL_INLINE tsl::View tsl_make_view(const TslArgs& args, int k) {\n" + source.make_view + "\n}\n";
  text += thread_text(source.thread_views, source.threads);
  if (source.map) text += map_types(*source.map);
  text += "#undef __device__\n#define __device__ TSL_EMITTED\nstruct Kernel : tsl::";
  text += base_of(source);
  text += " {\n";
  text += source.text.body;
  text += "\n" + line_directive(1, "launcher");
  text += "};\n";
  text += launcher;
  return text;
}

UsersFiles users_files(const KernelSource& source) {
  const std::string& file = source.text.files.empty() ? source.text.entry : source.text.files.front();
  return UsersFiles({parent_path(file)}, source.text.files);
}

std::string prelude_file(std::string_view name) { return file_with_includes(name, {}); }

namespace {

size_t end_of_dims(const KernelSource& source) {
  const auto length = [](int count) { return static_cast<size_t>(std::max(count, 1)); };
  return sizeof(TslHeader) + length(source.view_count) * sizeof(TslView) +
         length(source.slot_count) * sizeof(uint64_t) + length(source.dim_count) * sizeof(uint32_t);
}

size_t rounded_up(size_t size, size_t multiple) { return (size + multiple - 1) / multiple * multiple; }

}  // namespace

size_t argument_block_size(const KernelSource& source) { return rounded_up(end_of_dims(source), alignof(TslView)); }

size_t sample_steps_offset(const KernelSource& source) { return rounded_up(end_of_dims(source), sizeof(int64_t)); }

size_t matrix_layouts_offset(const KernelSource& source) { return rounded_up(end_of_dims(source), alignof(uint32_t)); }

size_t matrix_maps_offset(const KernelSource& source) {
  const size_t layouts = sizeof(TslMatrixLayout) * static_cast<size_t>(source.view_count);
  return rounded_up(matrix_layouts_offset(source) + sizeof(uint32_t) + layouts, alignof(TslMatrixMap));
}

}  // namespace torch_slang
