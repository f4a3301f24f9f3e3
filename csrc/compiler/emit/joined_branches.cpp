#include "compiler/emit/joined_branches.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace torch_slang {
namespace {

constexpr size_t kMostBetween = 200;  // tokens that are put into both ways, spaces among them

using Kind = EmittedStatement::Kind;

class Joiner {
 public:
  explicit Joiner(EmittedCode& code) : code_(code) {}

  int all() {
    for (const EmittedFunction& function : code_.functions()) {
      if (!function.unknown) change(function.body);
    }
    return count_;
  }

 private:
  // A statement where it will stand.
  struct Item {
    std::string before;  // spaces and directives in front of it
    const EmittedStatement* statement;
  };
  // What stands between two braces, of one block or of several.
  struct List {
    std::vector<Item> items;
    std::string behind;  // in front of the closing brace
  };
  // A branch with those that it takes in, and the first item behind them.
  struct Joined {
    std::string text;
    size_t end;
  };
  // The statements between two branches.
  struct Between {
    std::string declarations;
    List statements;
    size_t tokens = 0;  // of the statements
    size_t next = 0;  // the second branch
  };

  List list_of(const EmittedStatement& block) const {
    List list;
    for (const EmittedStatement& part : block.parts) {
      list.items.push_back({code_.text_in_front(part.span.begin), &part});
    }
    list.behind = code_.text_in_front(block.span.end - 1);
    return list;
  }

  static void append(List& list, List other) {
    std::string& joint = other.items.empty() ? other.behind : other.items[0].before;
    joint.insert(0, list.behind);
    list.items.insert(list.items.end(), other.items.begin(), other.items.end());
    list.behind = std::move(other.behind);
  }

  // One with braces.
  static bool is_branch(const EmittedStatement& statement) {
    return statement.kind == Kind::If &&
           std::ranges::all_of(statement.parts, [](const EmittedStatement& arm) { return arm.kind == Kind::Block; });
  }
  static const EmittedStatement* otherwise_of(const EmittedStatement& branch) {
    return branch.parts.size() > 1 ? &branch.parts[1] : nullptr;
  }
  // The variable that is the condition of the branch; nothing of other conditions and statements.
  std::string_view condition(const EmittedStatement& statement) const {
    const bool is_variable = is_branch(statement) && statement.head.size() == 1 && code_.is_name(statement.head.begin);
    return is_variable ? code_[statement.head.begin] : std::string_view();
  }

  // Assigned to, or its address taken, for all that can be seen here.
  bool changes(Span span, std::string_view name) const {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code_[at] != name) continue;
      const bool is_equal = code_[at + 1] == "=" && code_[at + 2] == "=" && code_.is_joined(at + 1);
      if ((at > span.begin && code_[at - 1] == "&") || (code_[at + 1] == "=" && !is_equal)) return true;
    }
    return false;
  }

  bool calls(Span span) const {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (!code_.is_name(at) || code_[at + 1] != "(") continue;
      const auto known = {"if", "bool", "int", "uint", "float", "double"};
      if (std::find(known.begin(), known.end(), code_[at]) == known.end()) return true;
    }
    return false;
  }

  static bool declares(const EmittedStatement& statement) {
    return statement.assigned && statement.assigned->declares && statement.assigned->operator_size == 0;
  }

  // One that may run on both ways: no jump, and no declaration with a value.
  bool may_go_both_ways(const EmittedStatement& statement) const {
    if (is_branch(statement)) return true;
    if (!statement.assigned || statement.assigned->declares) return false;
    const EmittedAssignment& assigned = *statement.assigned;
    const size_t begin = statement.span.begin;
    for (size_t at = begin; at < statement.span.end; ++at) {
      if (code_[at] == "{") return false;
    }
    return code_[begin] == "(" || code_[begin + 1] == "[" || (assigned.left.size() == 1 && assigned.operator_size == 1);
  }

  // From the item `begin` to the next branch on `name`.
  std::optional<Between> between(const List& list, size_t begin, std::string_view name) const {
    Between found;
    for (size_t i = begin; i < list.items.size(); ++i) {
      const auto& [before, statement] = list.items[i];
      if (condition(*statement) == name) {
        found.statements.behind += before;  // says which line the branch is from
        found.next = i;
        return found;
      }
      const bool is_declaration = declares(*statement);
      if (!is_declaration && !may_go_both_ways(*statement)) return std::nullopt;
      if (changes(statement->span, name) || calls(statement->span)) return std::nullopt;
      if (is_declaration) {
        found.declarations += before;
        found.declarations += code_.text(statement->span);
      } else {
        found.statements.items.push_back(list.items[i]);
        found.tokens += code_.written_tokens(statement->span);
      }
      if (found.tokens > kMostBetween) return std::nullopt;
    }
    return std::nullopt;
  }

  // The branch at `first` and those that follow it on the same condition. None if no branch on a variable is there.
  std::optional<Joined> joined(const List& list, size_t first) {
    const EmittedStatement* last = list.items[first].statement;
    const std::string_view name = condition(*last);
    if (name.empty()) return std::nullopt;
    std::string declarations;
    List then = list_of(last->parts[0]), otherwise;
    bool has_otherwise = otherwise_of(*last) != nullptr;
    if (has_otherwise) otherwise = list_of(last->parts[1]);
    size_t end = first + 1;
    while (std::ranges::none_of(last->parts, [&](const auto& arm) { return changes(arm.span, name); })) {
      const auto gap = between(list, end, name);
      if (!gap) break;
      last = list.items[gap->next].statement;
      declarations += gap->declarations;
      append(then, gap->statements);
      append(then, list_of(last->parts[0]));
      append(otherwise, gap->statements);
      if (otherwise_of(*last) != nullptr) append(otherwise, list_of(last->parts[1]));
      has_otherwise = has_otherwise || otherwise_of(*last) != nullptr || gap->tokens > 0;
      end = gap->next + 1;
      ++count_;
    }
    std::string text = declarations + "if(" + std::string(name) + ")\n{" + text_of(then) + "}";
    if (has_otherwise) text += "\nelse\n{" + text_of(otherwise) + "}";
    return Joined{std::move(text), end};
  }

  std::string text_of(const List& list) {
    std::string text;
    for (size_t i = 0; i < list.items.size();) {
      text += list.items[i].before;
      if (const auto found = joined(list, i)) {
        text += found->text;
        i = found->end;
      } else {
        text += text_of(*list.items[i++].statement);
      }
    }
    return text + list.behind;
  }

  std::string text_of(const EmittedStatement& statement) {
    if (statement.kind == Kind::Block) return "{" + text_of(list_of(statement)) + "}";
    std::string text;
    size_t at = statement.span.begin;  // what comes before is in the text
    const auto copy_until = [&](size_t end) {
      if (at >= end) return;
      if (at > statement.span.begin) text += code_.text_in_front(at);
      text += code_.text({at, end});
    };
    for (const EmittedStatement& part : statement.parts) {
      copy_until(part.span.begin);
      text += code_.text_in_front(part.span.begin) + text_of(part);
      at = part.span.end;
    }
    copy_until(statement.span.end);
    return text;
  }

  void change(const EmittedStatement& statement) {
    if (statement.kind != Kind::Block) {
      for (const EmittedStatement& part : statement.parts) change(part);
      return;
    }
    const List list = list_of(statement);
    for (size_t i = 0; i < list.items.size();) {
      const auto found = joined(list, i);
      if (!found) {
        change(*list.items[i++].statement);
        continue;
      }
      const Span span{list.items[i].statement->span.begin, list.items[found->end - 1].statement->span.end};
      code_.replace_all(span, found->text);
      i = found->end;
    }
  }

  EmittedCode& code_;
  int count_ = 0;  // branches that others took in
};

}  // namespace

int join_branches(EmittedCode& code) { return Joiner(code).all(); }

}  // namespace torch_slang
