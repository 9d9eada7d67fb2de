// callsite_bench.cpp: what a call site costs: finding a known stack, and asking whether a stack begins with given
// frames, by parent indices and by comparing materialised stacks. Allocations per test are counted; by parent indices
// there must be none.
#include <algorithm>
#include <string>
#include <vector>

#include "figures.h"
#include "shim/callsite/callsite.h"
#include "tests/support/counting_new.h"

namespace graphpool {
namespace {

using Index = CallSites::Index;
constexpr std::size_t kStacks = 64, kPrefixFrames = 4;

/// Stacks of a program: the outer half is shared, the inner half differs. Addresses in this program's code, so that
/// they have names.
std::vector<std::uintptr_t> stack_of(std::size_t number, std::size_t depth) {
  const auto code = reinterpret_cast<std::uintptr_t>(&stack_of) + 1;
  std::vector<std::uintptr_t> stack(depth);
  for (std::size_t i = 0; i < depth; ++i) stack[i] = code + (depth - i) % 16 + (i < depth / 2 ? 16 * number : 0);
  return stack;
}

struct Known {
  explicit Known(std::size_t depth) {
    for (std::size_t i = 0; i < kStacks; ++i) {
      stacks.push_back(stack_of(i, depth));
      indices.push_back(callsites().tree().intern(stacks.back()));
    }
    const std::vector<std::uintptr_t>& first = stacks[0];
    prefix.assign(first.end() - static_cast<std::ptrdiff_t>(kPrefixFrames), first.end());
    prefix_index = callsites().tree().intern(prefix);
  }
  std::vector<std::vector<std::uintptr_t>> stacks;
  std::vector<Index> indices;
  std::vector<std::uintptr_t> prefix;
  Index prefix_index;
};

/// Runs `test` on each stack in turn; all must answer true. Counts allocations, once everything has been seen.
template <typename Test>
void measure(benchmark::State& state, bool may_allocate, Test&& test) {
  for (std::size_t i = 0; i < kStacks; ++i) benchmark::DoNotOptimize(test(i));
  const std::size_t before = allocations_of_this_thread();
  std::size_t rounds = 0;
  bool all = true;
  for (auto _ : state) {
    all &= test(rounds % kStacks);
    ++rounds;
  }
  const std::size_t allocations = allocations_of_this_thread() - before;
  state.counters["allocations"] = static_cast<double>(allocations) / static_cast<double>(rounds);
  if (!all) state.SkipWithError("a wrong answer");
  if (!may_allocate && allocations != 0) state.SkipWithError("it allocated");
}

void lookup(benchmark::State& state) {
  const Known known(static_cast<std::size_t>(state.range(0)));
  measure(state, false, [&](std::size_t i) { return callsites().tree().intern(known.stacks[i]) == known.indices[i]; });
}

[[gnu::noinline]] Index recurse(std::size_t depth) {
  const Index stack = depth == 0 ? callsites().here() : recurse(depth - 1);
  asm volatile("");  // keeps compilers from making a loop of it
  return stack;
}

/// Unwinding and lookup, some ten frames of the benchmark itself below the depth named.
void unwind_and_lookup(benchmark::State& state) {
  // The whole program is this one object, so nothing is left out as the library's own.
  if (!callsites().ready() && callsites().open(AddressRange{}) != Status::kOk) {
    state.SkipWithError("no libunwind");
    return;
  }
  const auto depth = static_cast<std::size_t>(state.range(0));
  measure(state, false, [&](std::size_t) { return recurse(depth) != FrameTree::kUnknown; });
}

void prefix_by_parent_indices(benchmark::State& state) {
  const Known known(static_cast<std::size_t>(state.range(0)));
  measure(state, false,
          [&](std::size_t i) { return callsites().tree().is_prefix(known.prefix_index, known.indices[i]); });
}

void prefix_of_globs(benchmark::State& state) {
  const Known known(static_cast<std::size_t>(state.range(0)));
  static const std::vector<Glob> globs(kPrefixFrames, Glob("*callsite_bench*"));
  measure(state, false, [&](std::size_t i) { return StackSite(callsites(), known.indices[i], 0).begins_with(globs); });
}

/// What the walk over parent indices replaces: both stacks copied out, then compared.
void prefix_of_materialised_addresses(benchmark::State& state) {
  const Known known(static_cast<std::size_t>(state.range(0)));
  const auto materialise = [](Index frame) {
    std::vector<std::uintptr_t> stack;
    for (; callsites().tree().depth(frame) > 0; frame = callsites().tree().parent(frame)) {
      stack.push_back(callsites().tree().address(frame));
    }
    return stack;
  };
  measure(state, true, [&](std::size_t i) {
    const std::vector<std::uintptr_t> stack = materialise(known.indices[i]), prefix = materialise(known.prefix_index);
    return std::equal(prefix.rbegin(), prefix.rend(), stack.rbegin());
  });
}

/// The same with names, as a rule gives them.
void prefix_of_materialised_names(benchmark::State& state) {
  const Known known(static_cast<std::size_t>(state.range(0)));
  static const Glob glob("*callsite_bench*");
  const std::uint64_t generation = Symbols::generation();
  measure(state, true, [&](std::size_t i) {
    std::vector<std::string> names;
    for (Index frame = known.indices[i]; callsites().tree().depth(frame) > 0;
         frame = callsites().tree().parent(frame)) {
      names.emplace_back(callsites().symbols().text(callsites().tree().address(frame), generation));
    }
    return std::all_of(names.rbegin(), names.rbegin() + kPrefixFrames,
                       [](const std::string& name) { return glob.matches(name); });
  });
}

BENCHMARK(lookup)->Arg(8)->Arg(32);
BENCHMARK(unwind_and_lookup)->Arg(8)->Arg(32);
BENCHMARK(prefix_by_parent_indices)->Arg(8)->Arg(32);
BENCHMARK(prefix_of_globs)->Arg(8)->Arg(32);
BENCHMARK(prefix_of_materialised_addresses)->Arg(8)->Arg(32);
BENCHMARK(prefix_of_materialised_names)->Arg(8)->Arg(32);

}  // namespace
}  // namespace graphpool

int main(int argc, char** argv) { return bench::run_all(argc, argv); }
