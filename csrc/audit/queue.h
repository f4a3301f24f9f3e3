// The thread that audits, one job after the other: Note [when audits run] in audits.h.
#pragma once

#include <functional>
#include <future>
#include <optional>

namespace torch_slang::audit {

// `work` must not throw, but for an Interrupted: the process ends then, and waits for nothing. The future is ready after it.
std::shared_future<void> enqueue(std::function<void()> work);

void hurry();  // the thread begins at once

// Waits until nothing is left to audit, or for so many seconds; the thread begins at once, unless `seconds` is 0.
// Returns whether nothing is left.
bool wait(std::optional<double> seconds);

}  // namespace torch_slang::audit
