// Programs and requests as JSON. Each struct lists its fields once, in `fields`; a Writer and a Reader walk that list.
// Empty strings, lists and options are left out of the text; a field that is missing from it keeps its default.
#include <c10/util/Exception.h>

#include <boost/json.hpp>

#include <type_traits>
#include <variant>

#include "program/enumerations.h"
#include "program/program.h"

namespace torch_slang {
namespace {

namespace json = boost::json;

// The struct's fields, in order, with the names that they have in the text.
template <class V>
void fields(V& v, Element& e) {
  v("type", e.type);
  v("type_parameter", e.type_parameter);
  v("shape", e.shape);
}

template <class V>
void fields(V& v, BlockPlace& p) {
  v("primal_view", p.primal_view);
  v("diff_view", p.diff_view);
  v("slot", p.slot);
}

template <class V>
void fields(V& v, ViewLeaf& w) {
  fields(v, static_cast<BlockPlace&>(w));
  v("is_in", w.is_in);
  v("is_whole", w.is_whole);
  v("is_written", w.is_written);
  v("rank", w.rank);
  v("shape", w.shape);
  v("fill", w.fill);
  v("accumulation", w.accumulation);
  v("copies", w.copies);
  v("gradient_slots", w.gradient_slots);
}

template <class V>
void fields(V& v, ValueLeaf& w) {
  v("slot", w.slot);
  v("pointer_slot", w.pointer_slot);
  v("gradient_slot", w.gradient_slot);
  v("multiple_of", w.multiple_of);
}

template <class V>
void fields(V& v, Leaf& l) {
  v("name", l.name);
  v("path", l.path);
  v("slang_type", l.slang_type);
  v.one_of(l.kind);
  v("element", l.element);
  v("is_output", l.is_output);
  v("differentiable", l.differentiable);
  v("no_gradient", l.no_gradient);
  v("default_float", l.default_float);
  v("default_int", l.default_int);
}

template <class V>
void fields(V& v, Parameter& p) {
  v("name", p.name);
  v("slang_type", p.slang_type);
  v("leaf", p.leaf);
  v("fields", p.fields);
}

template <class V>
void fields(V& v, TypeParameter& t) {
  v("name", t.name);
  v("allowed", t.allowed);
}

template <class V>
void fields(V& v, KernelFunction& k) {
  v("launch_total", k.launch_total);
  v("block_size", k.block_size);
  v("tune", k.tune);
  v("parallel", k.parallel);
}

template <class V>
void fields(V& v, PlainFunction& p) {
  v("overloaded", p.overloaded);
  v("size_parameters", p.size_parameters);
  v("results", p.results);
  v("order", p.order);
}

template <class V>
void fields(V& v, Function& f) {
  v("name", f.name);
  v("qualified_name", f.qualified_name);
  v("file", f.file);
  v("line", f.line);
  v.one_of(f.kind);
  v("torch_op", f.torch_op);
  v("has_backward", f.has_backward);
  v("has_forward_derivative", f.has_forward_derivative);
  v("type_parameters", f.type_parameters);
  v("wants_generic_arguments", f.wants_generic_arguments);
  v("parameters", f.parameters);
  v("leaves", f.leaves);
  v("view_count", f.view_count);
  v("slot_count", f.slot_count);
  v("refusal", f.refusal);
}

template <class V>
void fields(V& v, HostFunction& h) {
  v("function", h.function);
  v("result", h.result);
  v("result_leaves", h.result_leaves);
}

template <class V>
void fields(V& v, HostText& t) {
  v("body", t.body);
  v("error", t.error);
}

template <class V>
void fields(V& v, DeviceText& t) {
  v("function", t.function);
  v("direction", t.direction);
  v("types", t.types);
  v("sizes", t.sizes);
  v("entry", t.entry);
  v("file_scope", t.file_scope);
  v("body", t.body);
  v("barriers", t.barriers);
  v("waves", t.waves);
  v("scattered_waves", t.scattered_waves);
  v("rereads", t.rereads);
  v("own_derivative", t.own_derivative);
  v("constants", t.constants);
  v("uses", t.uses);
  v("loaded", t.loaded);
  v("stored", t.stored);
  v("files", t.files);
  v("sites", t.sites);
  v("error", t.error);
  v("died", t.died);
  v("refused", t.refused);
}

template <class V>
void fields(V& v, SourceFile& s) {
  v("path", s.path);
  v("digest", s.digest);
}

template <class V>
void fields(V& v, Program& p) {
  v("module_name", p.module_name);
  v("slang_version", p.slang_version);
  v("functions", p.functions);
  v("tuned", p.tuned);
  v("used_defines", p.used_defines);
  v("texts", p.texts);
  v("host_functions", p.host_functions);
  v("host_text", p.host_text);
  v("files", p.files);
  v("warnings", p.warnings);
  v("cautions", p.cautions);
}

template <class V>
void fields(V& v, Instantiation& i) {
  v("function", i.function);
  v("direction", i.direction);
  v("types", i.types);
  v("sizes", i.sizes);
}

template <class V>
void fields(V& v, CompileRequest& r) {
  v("path", r.path);
  v("source", r.source);
  v("defines", r.defines);
  v("include_dirs", r.include_dirs);
  v("instantiations", r.instantiations);
  v("description_alone", r.description_alone);
  v("host_text_alone", r.host_text_alone);
}

template <class T>
concept Scalar = std::is_arithmetic_v<T>;
template <class T>
concept Enumeration = std::is_enum_v<T>;

class Writer {
 public:
  template <class T>
  static json::value of(T& item) {
    Writer writer;
    fields(writer, item);
    return std::move(writer.object_);
  }

  template <class T>
  void operator()(const char* name, T& field) {
    object_[name] = value(field);
  }
  template <class T>
    requires requires(T& field) { field.empty(); }
  void operator()(const char* name, T& field) {
    if (!field.empty()) object_[name] = value(field);
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& field) {
    if (field) object_[name] = value(*field);
  }
  // Under the name of the alternative that it is.
  template <class... Of>
  void one_of(std::variant<Of...>& item) {
    std::visit([&](auto& one) { (*this)(one.kName, one); }, item);
  }

 private:
  static json::value value(std::string& text) { return json::string(text); }
  template <Scalar T>
  static json::value value(T number) {
    return json::value(number);
  }
  template <Enumeration T>
  static json::value value(T item) {
    return json::string(name_of(item));
  }
  static json::value value(std::pair<std::string, std::string>& pair) {
    return json::array{json::string(pair.first), json::string(pair.second)};
  }
  template <class T>
    requires requires(Writer& v, T& item) { fields(v, item); }
  static json::value value(T& item) {
    return of(item);
  }
  template <class... Of>
  static json::value value(std::set<std::string, Of...>& items) {
    json::array array;
    for (const std::string& item : items) array.push_back(json::string(item));
    return array;
  }
  template <class T>
  static json::value value(std::vector<T>& items) {
    json::array array;
    for (auto& item : items) array.push_back(value(item));
    return array;
  }

  json::object object_;
};

// Reads fields in place; a value of the wrong form is an error that names its path, "functions[0].leaves[2].kind".
class Reader {
 public:
  template <class T>
  static T read(const json::value& value, const std::string& path) {
    T item;
    into(value, path, item);
    return item;
  }

  template <class T>
  void operator()(const char* name, T& field) {
    if (const json::value* value = object_.if_contains(name)) into(*value, path_ + "." + name, field);
  }
  template <class... Of>
  void one_of(std::variant<Of...>& item) {
    const bool is_known =
        ((object_.contains(Of::kName) && ((*this)(Of::kName, item.template emplace<Of>()), true)) || ...);
    expect(is_known, path_, "of a kind that this version knows");
  }

 private:
  Reader(const json::object& object, const std::string& path) : object_(object), path_(path) {}

  static void expect(bool holds, const std::string& path, const char* what) {
    TORCH_CHECK(holds, "torch_slang: damaged program text: ", path, " should be ", what);
  }

  static void into(const json::value& value, const std::string& path, std::string& text) {
    expect(value.is_string(), path, "a string");
    text = value.as_string().c_str();
  }
  static void into(const json::value& value, const std::string& path, bool& flag) {
    expect(value.is_bool(), path, "true or false");
    flag = value.as_bool();
  }
  template <Scalar T>
  static void into(const json::value& value, const std::string& path, T& number) {
    boost::system::error_code wrong;
    number = value.to_number<T>(wrong);
    expect(!wrong, path, "a number");
  }
  static void into(const json::value& value, const std::string& path, ElementType& item) {
    named(value, path, item, element_type_named);
  }
  static void into(const json::value& value, const std::string& path, Direction& item) {
    named(value, path, item, direction_named);
  }
  static void into(const json::value& value, const std::string& path, Accumulation& item) {
    named(value, path, item, accumulation_named);
  }
  template <class T, class Find>
  static void named(const json::value& value, const std::string& path, T& item, const Find& find) {
    const auto found = find(read<std::string>(value, path));
    expect(found.has_value(), path, "a name that this version knows");
    item = *found;
  }
  template <class T>
  static void into(const json::value& value, const std::string& path, std::optional<T>& item) {
    item = read<T>(value, path);
  }
  static void into(const json::value& value, const std::string& path, std::pair<std::string, std::string>& pair) {
    expect(value.is_array() && value.as_array().size() == 2, path, "a pair of strings");
    into(value.as_array()[0], path, pair.first);
    into(value.as_array()[1], path, pair.second);
  }
  template <class T>
    requires requires(Reader& v, T& item) { fields(v, item); }
  static void into(const json::value& value, const std::string& path, T& item) {
    expect(value.is_object(), path, "an object");
    Reader reader(value.as_object(), path);
    fields(reader, item);
  }
  template <class... Of>
  static void into(const json::value& value, const std::string& path, std::set<std::string, Of...>& items) {
    for (std::string& item : read<std::vector<std::string>>(value, path)) items.insert(std::move(item));
  }
  template <class T>
  static void into(const json::value& value, const std::string& path, std::vector<T>& items) {
    expect(value.is_array(), path, "a list");
    for (const json::value& item : value.as_array()) {
      items.push_back(read<T>(item, path + "[" + std::to_string(items.size()) + "]"));
    }
  }

  const json::object& object_;
  const std::string& path_;
};

json::value parse(const std::string& text, const char* what) {
  boost::system::error_code wrong;
  json::value value = json::parse(text, wrong);
  TORCH_CHECK(!wrong, "torch_slang: damaged ", what, " text: ", wrong.message());
  return value;
}

template <class T>
std::string write(const T& item) {
  return json::serialize(
      Writer::of(const_cast<T&>(item)));  // `fields` serves both ways and so takes T&; nothing is written
}

// Of a Program: no field is there in each, so a text that is none would pass for one of an empty module.
constexpr const char* kProgramMark = "torch_slang_program";
constexpr int kProgramFormat = 6;

Program read_program(const json::value& value) {
  const json::object* object = value.if_object();
  const json::value* format = object != nullptr ? object->if_contains(kProgramMark) : nullptr;
  TORCH_CHECK(format != nullptr, "torch_slang: this is no Program: the field ", kProgramMark, " is missing");
  TORCH_CHECK(*format == kProgramFormat, "torch_slang: this is a Program of another version: expected ", kProgramMark,
              " to be ", kProgramFormat, ", but got ", json::serialize(*format));
  return Reader::read<Program>(value, "program");
}

}  // namespace

std::string to_json(const Program& program) {
  json::value value = Writer::of(const_cast<Program&>(program));
  value.as_object()[kProgramMark] = kProgramFormat;
  return json::serialize(value);
}
std::string to_json(const CompileRequest& request) { return write(request); }
Program program_from_json(const std::string& text) { return read_program(parse(text, "program")); }
CompileRequest request_from_json(const std::string& text) {
  return Reader::read<CompileRequest>(parse(text, "request"), "request");
}

}  // namespace torch_slang
