#include "shim/callsite/callsite.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/counting_new.h"

namespace outer {
[[gnu::noinline, gnu::used]] static int first(int value) { return value + 1; }
[[gnu::noinline, gnu::used]] static int second(int value) { return value + 2; }
}  // namespace outer
namespace inner {
[[gnu::noinline, gnu::used]] static int third(int value) { return value + 3; }
[[gnu::noinline, gnu::used]] static int fourth(int value) { return value + 4; }
}  // namespace inner

namespace graphpool {
namespace {

using Index = CallSites::Index;

template <typename Function>
std::uintptr_t inside(Function* function) {
  return reinterpret_cast<std::uintptr_t>(function) + 1;
}

/// Never destroyed, as in the library; the globs' addresses are remembered, so they live as long.
CallSites& make_callsites() {
  static auto& kept = *new std::vector<CallSites*>;  // reachable to the end
  return *kept.emplace_back(new CallSites);
}
const Glob& glob(const char* pattern) {
  static auto& kept = *new std::vector<Glob*>;  // reachable to the end
  return *kept.emplace_back(new Glob(pattern));
}
const std::vector<Glob>& globs(std::vector<Glob> patterns) {
  static auto& kept = *new std::vector<std::vector<Glob>*>;  // reachable to the end
  return *kept.emplace_back(new std::vector<Glob>(std::move(patterns)));
}

/// fourth < third < second < first, by addresses of real functions.
Index sample_stack(CallSites* sites) {
  const std::uintptr_t stack[] = {inside(&inner::fourth), inside(&inner::third), inside(&outer::second),
                                  inside(&outer::first)};
  return sites->tree().intern(stack);
}

TEST(CallSites, ClosedTheyKnowNoStack) {
  CallSites& sites = make_callsites();
  EXPECT_FALSE(sites.ready());
  EXPECT_EQ(sites.here(), FrameTree::kUnknown);
  EXPECT_EQ(sites.next_order(FrameTree::kUnknown), 0u);
  EXPECT_EQ(sites.text(FrameTree::kUnknown), "?");
  EXPECT_FALSE(sites.any_frame_matches(FrameTree::kUnknown, glob("*"), 0));
  EXPECT_FALSE(sites.begins_with(FrameTree::kUnknown, globs({}), 0));
  EXPECT_EQ(sites.caller_module(reinterpret_cast<void*>(inside(&std::getenv))), "libc.so.6");
}

[[gnu::noinline]] Index take(CallSites* sites) {
  const Index here = sites->here();
  asm volatile("");  // not a tail call: this frame stays on the stack
  return here;
}

TEST(CallSites, TheSamePlaceIsTheSameStack) {
  CallSites& sites = make_callsites();
  ASSERT_EQ(sites.open({}), Status::kOk);
  std::vector<Index> seen;
  int times = 3;
  asm volatile("" : "+r"(times));  // an optimizer must not make three calls, at three places, of the loop
  while (times-- > 0) seen.push_back(take(&sites));
  const Index elsewhere = take(&sites);
  ASSERT_NE(seen[0], FrameTree::kUnknown);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
  EXPECT_NE(seen[0], elsewhere);
  EXPECT_TRUE(sites.tree().is_whole(seen[0]));
  EXPECT_TRUE(sites.any_frame_matches(seen[0], glob("callsite_callsite_test!*take(*)"), Symbols::generation()));
  EXPECT_EQ(sites.next_order(seen[0]), 0u);
  EXPECT_EQ(sites.next_order(seen[0]), 1u);
  EXPECT_EQ(sites.next_order(elsewhere), 0u);
}

TEST(CallSites, OpenedForTheLibraryTheyLeaveOutItsObject) {
  CallSites& sites = make_callsites();
  ASSERT_EQ(sites.open(), Status::kOk);
  struct Run {
    CallSites* sites;
    Index stack;
  } run{&sites, FrameTree::kUnknown};
  void* plugin = dlopen(std::getenv("CALLSITE_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(plugin, nullptr);
  auto* through = reinterpret_cast<int (*)(int (*)(void*), void*)>(dlsym(plugin, "plugin_calls"));
  through(
      [](void* data) -> int {
        auto* run = static_cast<Run*>(data);
        run->stack = run->sites->here();
        return 0;
      },
      &run);
  EXPECT_EQ(sites.text(run.stack), "libcallsite_plugin.so!plugin_calls") << "the test's own frames are left out";
  EXPECT_FALSE(sites.any_frame_matches(run.stack, glob("callsite_callsite_test*"), Symbols::generation()));
  dlclose(plugin);
}

TEST(CallSites, AGlobMatchesAnywhereInTheStack) {
  CallSites& sites = make_callsites();
  const Index stack = sample_stack(&sites);
  StackSite site(sites, stack, 5);
  for (int again = 0; again < 3; ++again) {
    EXPECT_TRUE(site.any_frame_matches(glob("*!inner::fourth*")));
    EXPECT_TRUE(site.any_frame_matches(glob("*!outer::first(int)")));
    EXPECT_FALSE(site.any_frame_matches(glob("*!outer::fifth*")));
  }
  const Glob& third = glob("*!inner::third*");
  for (int again = 0; again < 2; ++again) {
    EXPECT_TRUE(site.any_frame_matches(third));
    EXPECT_TRUE(sites.any_frame_matches(sites.tree().parent(stack), third, Symbols::generation()));
    EXPECT_FALSE(sites.any_frame_matches(sites.tree().ancestor(stack, 2), third, Symbols::generation()));
  }
}

TEST(CallSites, APrefixBeginsWithTheOutermostFrame) {
  CallSites& sites = make_callsites();
  StackSite site(sites, sample_stack(&sites), 0);
  const auto& both = globs({Glob("*!outer::first*"), Glob("*!outer::second*")});
  const auto& reversed = globs({Glob("*!outer::second*"), Glob("*!outer::first*")});
  const auto& innermost = globs({Glob("*!inner::fourth*")});
  const auto& all = globs({Glob("*"), Glob("*"), Glob("*"), Glob("*fourth*")});
  const auto& longer = globs({Glob("*"), Glob("*"), Glob("*"), Glob("*"), Glob("*")});
  for (int again = 0; again < 3; ++again) {
    EXPECT_TRUE(site.begins_with(both));
    EXPECT_FALSE(site.begins_with(reversed));
    EXPECT_FALSE(site.begins_with(innermost));
    EXPECT_TRUE(site.begins_with(all));
    EXPECT_FALSE(site.begins_with(longer));
    EXPECT_TRUE(site.begins_with(globs({})));
  }
}

TEST(CallSites, AStackWhoseOuterEndIsCutHasNoPrefix) {
  CallSites& sites = make_callsites();
  const std::uintptr_t frames[] = {inside(&inner::third), inside(&outer::first)};
  StackSite site(sites, sites.tree().intern(frames, false), 0);
  EXPECT_FALSE(site.begins_with(globs({Glob("*!outer::first*")})));
  EXPECT_TRUE(site.any_frame_matches(glob("*!outer::first*")));
}

TEST(CallSites, TheirAnswersAreThoseOfThePolicysOwnWalk) {
  CallSites& sites = make_callsites();
  StackSite site(sites, sample_stack(&sites), 0);
  for (const char* pattern : {"*", "", "*outer*", "*third*", "callsite_callsite_test!*", "*nobody*"}) {
    const Glob& one = glob(pattern);
    const auto& many = globs({one, one});
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(site.any_frame_matches(one), site.CallSite::any_frame_matches(one)) << pattern;
      EXPECT_EQ(site.begins_with(many), site.CallSite::begins_with(many)) << pattern;
    }
  }
}

TEST(CallSites, MoreGlobsThanAreRememberedAreStillAnsweredRight) {
  CallSites& sites = make_callsites();
  StackSite site(sites, sample_stack(&sites), 0);
  for (int i = 0; i < 600; ++i) {
    EXPECT_TRUE(site.any_frame_matches(glob("*!outer::first*"))) << i;
    EXPECT_FALSE(site.any_frame_matches(glob("*!nobody*"))) << i;
    EXPECT_TRUE(site.begins_with(globs({Glob("*!outer::first*")}))) << i;
  }
}

TEST(CallSites, AnotherGenerationIsAskedAnew) {
  CallSites& sites = make_callsites();
  void* plugin = dlopen(std::getenv("CALLSITE_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(plugin, nullptr);
  const std::uintptr_t frames[] = {reinterpret_cast<std::uintptr_t>(dlsym(plugin, "plugin_calls")) + 1};
  const Index stack = sites.tree().intern(frames);
  const Glob& pattern = glob("libcallsite_plugin.so!*");
  EXPECT_TRUE(StackSite(sites, stack, 0).any_frame_matches(pattern));
  dlclose(plugin);
  EXPECT_FALSE(StackSite(sites, stack, 0).any_frame_matches(pattern));
}

TEST(CallSites, AKnownStackAndItsTestsAllocateNothing) {
  CallSites& sites = make_callsites();
  ASSERT_EQ(sites.open({}), Status::kOk);
  const auto& prefix = globs({Glob("*"), Glob("*")});
  const Glob& anywhere = glob("*!nobody*");
  for (int i = 0; i < 3; ++i) {
    const std::size_t before = allocations_of_this_thread();
    const Index stack = sites.here();
    StackSite site(sites, stack, sites.next_order(stack));
    const bool matched = site.begins_with(prefix) && !site.any_frame_matches(anywhere);
    const std::size_t made = allocations_of_this_thread() - before;
    EXPECT_TRUE(matched);
    EXPECT_TRUE(i == 0 || made == 0) << made << " in round " << i;
  }
}

TEST(StackSite, ShowsItsFramesInnermostFirst) {
  CallSites& sites = make_callsites();
  StackSite site(sites, sample_stack(&sites), 7);
  ASSERT_EQ(site.depth(), 4u);
  EXPECT_EQ(site.order(), 7u);
  EXPECT_EQ(site.frame(0), "callsite_callsite_test!inner::fourth(int)");
  EXPECT_EQ(site.frame(3), "callsite_callsite_test!outer::first(int)");
  EXPECT_EQ(site.frame(1), "callsite_callsite_test!inner::third(int)") << "backwards too";
}

TEST(StackSite, DecidesARule) {
  CallSites& sites = make_callsites();
  static Policy policy;
  BufferRule rule;
  rule.callsite = Glob("*!inner::third*");
  rule.callsite_prefix = {Glob("*!outer::first*")};
  policy.buffers.push_back(rule);
  complete(policy);
  StackSite site(sites, sample_stack(&sites), 0);
  AllocationQuery query{.size_bytes = 64, .device = 0, .function = "hipMalloc", .module = "program", .callsite = &site};
  EXPECT_EQ(policy.match(query), &policy.buffers[0]);
  query.callsite = nullptr;
  EXPECT_NE(policy.match(query), &policy.buffers[0]);
}

TEST(AnswerCache, ForgetsButIsNeverWrong) {
  static constinit AnswerCache cache;
  EXPECT_EQ(cache.find(0, 3, 0), std::nullopt);
  for (std::uint32_t frame = 3; frame < 40000; ++frame) cache.keep(frame % 1000, frame, 7, frame % 3 == 0);
  std::size_t found = 0;
  for (std::uint32_t frame = 3; frame < 40000; ++frame) {
    const std::optional<bool> answer = cache.find(frame % 1000, frame, 7);
    if (!answer.has_value()) continue;
    ++found;
    EXPECT_EQ(answer, frame % 3 == 0);
    EXPECT_EQ(cache.find(frame % 1000, frame, 8), std::nullopt) << "another generation";
    EXPECT_EQ(cache.find(frame % 1000 + 1, frame, 7), std::nullopt) << "another question";
  }
  EXPECT_GT(found, 1000u);
}

TEST(CallSitesOfTheProcess, IsOneObject) { EXPECT_EQ(&callsites(), &callsites()); }

}  // namespace
}  // namespace graphpool
