// policy_policy_test.cpp: which rule decides about an allocation; what complete() adds.
#include "policy/policy.h"

#include <gtest/gtest.h>

namespace graphpool {
namespace {

class FakeSite final : public CallSite {
 public:
  /// Frames from the innermost to the outermost.
  explicit FakeSite(std::vector<std::string> frames, std::uint64_t order = 0) : frames_(frames), order_(order) {}
  std::size_t depth() noexcept override {
    ++asked;
    return frames_.size();
  }
  std::string_view frame(std::size_t index) noexcept override { return frames_.at(index); }
  std::uint64_t order() noexcept override {
    ++asked;
    return order_;
  }
  int asked = 0;

 private:
  std::vector<std::string> frames_;
  std::uint64_t order_;
};

AllocationQuery query(std::uint64_t size_bytes = 4096) {
  AllocationQuery q;
  q.size_bytes = size_bytes;
  q.function = "hipMalloc";
  q.module = "train";
  return q;
}

const BufferRule& decide(const Policy& policy, const AllocationQuery& q) {
  const BufferRule* rule = policy.match(q);
  EXPECT_NE(rule, nullptr);
  return *rule;
}

TEST(Match, DefaultPolicyPoolsAnOrdinaryAllocation) {
  Policy policy;
  complete(policy);
  const BufferRule& rule = decide(policy, query());
  EXPECT_EQ(rule.action, Action::kPool);
  EXPECT_EQ(rule.stage, Stage::kNever);
  EXPECT_EQ(rule.backing, Backing::kAuto);
  EXPECT_EQ(rule.name, "default");
  EXPECT_FALSE(policy.needs_callsite());
}

TEST(Match, IncompletePolicyMayMatchNothing) { EXPECT_EQ(Policy{}.match(query()), nullptr); }

TEST(Match, CommunicationLibrariesPass) {
  Policy policy;
  policy.graph.stage = Stage::kAlways;
  policy.buffers.emplace_back();
  complete(policy);
  for (const char* module :
       {"librccl.so.1",     "librccl-net.so",    "libnccl.so.2",      "libmpi.so.40",         "libmpich.so.12",
        "libmpi_cxx.so.40", "libopen-pal.so.40", "libopen-rte.so.40", "libucp.so.0",          "libuct.so.0",
        "libuct_rocm.so.0", "libucm.so.0",       "libucs.so.0",       "libfabric.so.1",       "libpsm2.so.2",
        "libpmix.so.2",     "libshmem.so",       "librocshmem.so",    "libnvshmem_host.so.3", "libmori_shmem.so",
        "libibverbs.so.1",  "librdmacm.so.1",    "libhcoll.so.1",     "libsharp_coll.so",     "libucc.so.1"}) {
    AllocationQuery q = query();
    q.module = module;
    EXPECT_EQ(decide(policy, q).action, Action::kPass) << module;
    EXPECT_EQ(decide(policy, q).stage, Stage::kNever) << module;
    EXPECT_TRUE(is_communication_library(module)) << module;
  }
  EXPECT_FALSE(is_communication_library("libtorch_hip.so"));
  EXPECT_EQ(decide(policy, query()).stage, Stage::kAlways);
}

TEST(Match, ARuleThatNamesTheModuleGetsCommunicationLibrariesToo) {
  Policy policy;
  policy.buffers.emplace_back().module = Glob("librccl*");
  complete(policy);
  AllocationQuery q = query();
  q.module = "librccl.so.1";
  EXPECT_EQ(decide(policy, q).action, Action::kPool);
}

TEST(Match, StreamOrderedAllocationsPassUnlessARuleNamesTheFunction) {
  Policy policy;
  policy.buffers.emplace_back();
  complete(policy);
  for (const char* function : {"hipMallocAsync", "hipMallocAsync_spt", "hipMallocFromPoolAsync"}) {
    AllocationQuery q = query();
    q.function = function;
    EXPECT_EQ(decide(policy, q).action, Action::kPass) << function;
  }
  Policy named;
  named.buffers.emplace_back().function = Glob("hipMallocAsync*");
  complete(named);
  AllocationQuery q = query();
  q.function = "hipMallocAsync";
  EXPECT_EQ(decide(named, q).action, Action::kPool);
  EXPECT_EQ(decide(named, query()).name, "default");
}

TEST(Match, FirstRuleWins) {
  Policy policy;
  policy.buffers.resize(3);
  policy.buffers[0].size = {100, 200};
  policy.buffers[1].size = {150, 300};
  complete(policy);
  EXPECT_EQ(decide(policy, query(150)).name, "buffer 1");
  EXPECT_EQ(decide(policy, query(201)).name, "buffer 2");
  EXPECT_EQ(decide(policy, query(301)).name, "buffer 3");
}

TEST(Match, BySizeDeviceModuleFunction) {
  BufferRule rule;
  rule.size = {4096, 4096};
  rule.device = {1, 3};
  rule.module = Glob("tr*");
  rule.function = Glob("hipMalloc");
  AllocationQuery q = query(4096);
  q.device = 3;
  EXPECT_TRUE(rule.matches(q));
  q.device = 2;
  EXPECT_FALSE(rule.matches(q));
  q.device = 1;
  q.module = "libx.so";
  EXPECT_FALSE(rule.matches(q));
  q.module = "train";
  q.function = "hipMallocPitch";
  EXPECT_FALSE(rule.matches(q));
  q.function = "hipMalloc";
  q.size_bytes = 4097;
  EXPECT_FALSE(rule.matches(q));
}

TEST(Match, ByAnyFrame) {
  BufferRule rule;
  rule.callsite = Glob("libtorch*!*empty*");
  EXPECT_TRUE(rule.needs_callsite());
  FakeSite with({"libc10.so!malloc", "libtorch.so!at::empty(long)", "python!main"});
  FakeSite without({"libc10.so!malloc", "python!main"});
  AllocationQuery q = query();
  q.callsite = &with;
  EXPECT_TRUE(rule.matches(q));
  q.callsite = &without;
  EXPECT_FALSE(rule.matches(q));
  q.callsite = nullptr;
  EXPECT_FALSE(rule.matches(q));
}

TEST(Match, ByPrefixFromTheOutermostFrame) {
  BufferRule rule;
  rule.callsite_prefix = {Glob("*!_start"), Glob("train!main"), Glob("train!step*")};
  EXPECT_TRUE(rule.needs_callsite());
  AllocationQuery q = query();
  auto matches = [&](std::vector<std::string> frames) {
    FakeSite site(frames);
    q.callsite = &site;
    return rule.matches(q);
  };
  EXPECT_TRUE(matches({"train!step(int)", "train!main", "train!_start"}));
  EXPECT_TRUE(matches({"train!alloc", "train!step(int)", "train!main", "train!_start"}));
  EXPECT_FALSE(matches({"train!main", "train!_start"}));
  EXPECT_FALSE(matches({"train!_start", "train!main", "train!step(int)"}));
  EXPECT_FALSE(matches({"train!step(int)", "train!main", "train!_start", "libc.so.6!clone"}));
}

TEST(Match, ByOrder) {
  BufferRule rule;
  rule.order = {2, 3};
  EXPECT_TRUE(rule.needs_callsite());
  AllocationQuery q = query();
  for (std::uint64_t order = 0; order < 6; ++order) {
    FakeSite site({}, order);
    q.callsite = &site;
    EXPECT_EQ(rule.matches(q), order == 2 || order == 3);
  }
}

TEST(Match, CallSiteIsAskedLast) {
  Policy policy;
  policy.buffers.resize(2);
  policy.buffers[0].size = {1, 10};
  policy.buffers[0].callsite = Glob("*");
  policy.buffers[1].size = {20, 30};
  complete(policy);
  EXPECT_TRUE(policy.needs_callsite());
  FakeSite site({"a!b"});
  AllocationQuery q = query(25);
  q.callsite = &site;
  EXPECT_EQ(decide(policy, q).name, "buffer 2");
  EXPECT_EQ(site.asked, 0);
  q.size_bytes = 5;
  EXPECT_EQ(decide(policy, q).name, "buffer 1");
  EXPECT_GT(site.asked, 0);
}

TEST(Complete, RulesTakeWhatTheyDoNotSayFromTheSections) {
  Policy policy;
  policy.pool.backing = Backing::kVmm;
  policy.graph.stage = Stage::kAlways;
  policy.graph.slots = 3;
  policy.graph.overlap = true;
  policy.buffers.resize(2);
  BufferRule& second = policy.buffers[1];
  second.name = "mine";
  for (auto key :
       {BufferRule::Key::backing, BufferRule::Key::stage, BufferRule::Key::slots, BufferRule::Key::overlap}) {
    second.said |= 1u << static_cast<unsigned>(key);
  }
  complete(policy);
  EXPECT_EQ(policy.buffers[0].backing, Backing::kVmm);
  EXPECT_EQ(policy.buffers[0].stage, Stage::kAlways);
  EXPECT_EQ(policy.buffers[0].slots, 3u);
  EXPECT_TRUE(policy.buffers[0].overlap);
  EXPECT_EQ(policy.buffers[0].name, "buffer 1");
  EXPECT_EQ(policy.buffers[1].backing, Backing::kAuto);
  EXPECT_EQ(policy.buffers[1].stage, Stage::kNever);
  EXPECT_EQ(policy.buffers[1].slots, 1u);
  EXPECT_FALSE(policy.buffers[1].overlap);
  EXPECT_EQ(policy.buffers[1].name, "mine");
  ASSERT_EQ(policy.buffers.size(), 4u);
  EXPECT_EQ(policy.buffers[2].backing, Backing::kVmm);
}

TEST(Complete, BuiltInRulesNeverStage) {
  Policy policy;
  policy.graph.stage = Stage::kAlways;
  complete(policy);
  for (const BufferRule& rule : policy.buffers) EXPECT_EQ(rule.stage, Stage::kNever) << rule.name;
}

TEST(Complete, PoolSwitchedOffPassesEverything) {
  Policy policy;
  policy.pool.enabled = false;
  policy.buffers.emplace_back();
  complete(policy);
  for (const BufferRule& rule : policy.buffers) EXPECT_EQ(rule.action, Action::kPass) << rule.name;
}

}  // namespace
}  // namespace graphpool
