// How audits go in this process: Note [when audits run] in audits.h.
#pragma once

#include <cstdint>
#include <string>

namespace torch_slang::audit {

enum class Mode : int8_t { Off, Background, First };

Mode mode();  // TORCH_SLANG_AUDIT gives the first. Modules that are loaded with debug=True wait in "background" too
std::string mode_name();
void set_mode(const std::string& name);

// Derivatives of this operator do not raise, whatever was found.
void accept(const std::string& name);
bool is_accepted(const std::string& name);

}  // namespace torch_slang::audit
