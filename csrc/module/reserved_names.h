// Names that no operator may have. Any thread may call these.
#pragma once

#include <string>

namespace torch_slang {

bool is_special_in_python(const std::string& name);  // "__init__"

// From now on no operator may have this name, since it is something else to whoever would call it: "an attribute of ...".
void reserve_name(const std::string& name, const std::string& what_it_is);

// Why no operator may have this name; empty: it may.
std::string why_reserved(const std::string& name);

}  // namespace torch_slang
