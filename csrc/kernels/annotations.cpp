#include "kernels/annotations.h"

#include <c10/util/Exception.h>

#include <boost/json.hpp>

#include <algorithm>
#include <cstdlib>

#include "kernels/shape_expression.h"

namespace torch_slang {

namespace {

namespace json = boost::json;

constexpr const char* kPrefix = "torch_slang.load: annotations of ";

template <class Items, class Name>
std::string joined(const Items& items, Name name) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + name(item);
  return text.empty() ? "none" : text;
}

struct Attribute {
  std::string name;
  std::string argument;
};

// "Out(N, max(F, 1)), Fill(0)" -> {Out, "N, max(F, 1)"}, {Fill, "0"}.
std::vector<Attribute> parse_attributes(const std::string& text, const std::string& where) {
  std::vector<Attribute> attributes;
  for (const std::string& item : split_list(text)) {
    const size_t open = item.find('(');
    const bool bare = open == std::string::npos;
    TORCH_CHECK(is_name(item.substr(0, open)) && (bare || item.back() == ')'), kPrefix, where,
                ": expected attributes such as \"Shape(N, 3)\" or \"Out(N), Fill(0)\", but got \"", text, "\"");
    attributes.push_back({item.substr(0, open), bare ? "" : item.substr(open + 1, item.size() - open - 2)});
  }
  return attributes;
}

void apply(Leaf& leaf, const Attribute& attribute, const std::string& where) {
  TORCH_CHECK(leaf.is_view(), kPrefix, where, ": only views take attributes, but ", leaf.path, " is a ",
              leaf.slang_type);
  if (attribute.name == "Shape" || attribute.name == "Out") {
    leaf.view().shape = attribute.argument;
    leaf.is_output = attribute.name == "Out";
  } else if (attribute.name == "Fill") {
    char* end = nullptr;
    leaf.view().fill = std::strtod(attribute.argument.c_str(), &end);
    TORCH_CHECK(!attribute.argument.empty() && *end == '\0', kPrefix, where, ": Fill takes a number, but got \"",
                attribute.argument, "\"");
  } else if (attribute.name == "In") {
    leaf.view().is_in = true;
  } else {
    TORCH_CHECK(false, kPrefix, where, ": unknown attribute ", attribute.name, " (known: Shape, Out, Fill, In)");
  }
}

// One number or expression, or a list of them, as the text of the attribute.
std::string list_text(const json::value& value, const std::string& where) {
  const auto item = [&](const json::value& one) {
    if (one.is_string()) return std::string(one.as_string());
    TORCH_CHECK(one.is_int64(), kPrefix, where, ": expected numbers or expressions, but got ", json::serialize(one));
    return std::to_string(one.as_int64());
  };
  return value.is_array() ? joined(value.as_array(), item) : item(value);
}

using Constants = std::vector<std::pair<std::string, int64_t>>;

std::vector<int64_t> block_size(const json::value& value, const std::string& where, const Constants& constants) {
  const auto lookup = [&](const std::string& name) {
    const auto found =
        std::find_if(constants.begin(), constants.end(), [&](const auto& constant) { return constant.first == name; });
    TORCH_CHECK(found != constants.end(), kPrefix, where, ": '", name, "' is no integer define");
    return Expression::of_constant(found->second);
  };
  std::vector<int64_t> sizes;
  for (const std::string& item : split_list(list_text(value, where))) {
    sizes.push_back(evaluate<int64_t>(parse_expression(item, kPrefix + where, lookup), {}));
    TORCH_CHECK(sizes.back() > 0, kPrefix, where, ": expected positive numbers of threads, but got ", item);
  }
  TORCH_CHECK(!sizes.empty() && sizes.size() <= 3, kPrefix, where,
              ": expected one to three numbers of threads, but got ", sizes.size());
  return sizes;
}

void apply(Function& function, const std::string& key, const json::value& value, const Constants& constants) {
  const std::string where = function.name + "." + key;
  const auto leaf = std::find_if(function.leaves.begin(), function.leaves.end(),
                                 [&](const Leaf& l) { return l.name == key || l.path == key; });
  if (leaf != function.leaves.end()) {
    TORCH_CHECK(value.is_string(), kPrefix, where, ": expected a string, but got ", json::serialize(value));
    for (const Attribute& one : parse_attributes(std::string(value.as_string()), where)) apply(*leaf, one, where);
  } else if (key == "launch_total") {
    function.kernel().launch_total = list_text(value, where);
  } else if (key == "block_size") {
    function.kernel().block_size = block_size(value, where, constants);
  } else {
    TORCH_CHECK(false, kPrefix, function.name, ": no parameter named ", key,
                " (there are: ", joined(function.leaves, [](const Leaf& l) { return l.path; }),
                "; and launch_total, block_size)");
  }
}

}  // namespace

std::vector<Function> annotate(std::vector<Function> functions, const std::string& annotations,
                               const Constants& constants) {
  if (annotations.empty()) return functions;
  boost::system::error_code error;
  const json::value all = json::parse(annotations, error);
  TORCH_CHECK(!error && all.is_object(),
              "torch_slang.load: expected annotations to map names of kernels to attributes");
  for (const auto& [name, attributes] : all.as_object()) {
    const auto function =
        std::find_if(functions.begin(), functions.end(),
                     [&, n = std::string(name)](const Function& f) { return f.name == n || f.qualified_name == n; });
    TORCH_CHECK(function != functions.end() && function->is_kernel(), kPrefix, std::string(name),
                ": no kernel of that name (there are: ", joined(functions, [](const Function& f) { return f.name; }),
                ")");
    TORCH_CHECK(attributes.is_object(), kPrefix, function->name,
                ": expected names of parameters with attributes, but got ", json::serialize(attributes));
    for (const auto& [key, value] : attributes.as_object()) apply(*function, std::string(key), value, constants);
  }
  return functions;
}

}  // namespace torch_slang
