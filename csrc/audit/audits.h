// The audits of one operator's derivatives, of all the types that it is called with, and what follows from them.
//
// Note [when audits run]
//   The first backward of an operator in a process, of its types and sizes, keeps a few of its arguments and asks for an audit. What
//   earlier processes found is in the disk cache by the backward's text. In the mode "background" a thread of low priority
//   begins some time after the last such call, so that it is not in the way of a program that starts; in "first" the call waits. A
//   derivative that was found wrong raises from then on.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "audit/examination.h"
#include "audit/finding.h"
#include "audit/problem.h"
#include "operators/audited.h"
#include "operators/operator.h"

namespace torch_slang::audit {

class Audits final : public Audited, public std::enable_shared_from_this<Audits> {
 public:
  // Of `f`, which owns it. `make`: an operator of another function with the same options, and with its operator of tangents.
  Audits(std::weak_ptr<const Operator> f, MakeOperator make) : f_(std::move(f)), make_(std::move(make)) {}

  void after(const Operator& called, OpKind kind, Operator::Stack arguments, bool keeps_samples) override;
  std::vector<Finding> findings() const;

  struct Key {
    Order order;
    std::vector<ElementType> types;
    std::vector<int64_t> sizes;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    Finding finding;
    bool is_settled = false;  // nothing more is to be done for it
    bool takes_parts = true;  // of tensors that are too large: none has failed
    std::string cache_key;  // empty: nobody has asked for it
  };
  // An audit with the arguments that were kept.
  struct Job {
    std::shared_ptr<const Operator> f;
    Key key;
    Problem problem;
    Entry entry;
  };
  void run(const Job& job);

 private:
  void ask(const Operator& called, Operator::Stack arguments, const Key& key);
  void put(const Key& key, Entry entry);
  bool begin(const Key& key, const Entry& entry);  // false: another thread was here before
  Entry entry_of(const Key& key) const;  // as it is now

  const std::weak_ptr<const Operator> f_;
  const MakeOperator make_;
  std::array<std::atomic<uint64_t>, 8> settled_{};  // class_of() calls whose audit is over and found nothing
  std::atomic<bool> has_wrong_tangents_{false};
  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

// Of `f`, listed in report() as long as it lives.
std::shared_ptr<Audits> make_audits(const std::shared_ptr<const Operator>& f, MakeOperator make);

// Of all operators of this process, by name.
std::vector<Finding> report();

}  // namespace torch_slang::audit
