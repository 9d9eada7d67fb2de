// variants_fixture.h: a recording of four fills and variants of it, on the fake runtime of fake_graphs.h. The runtime
// is known to update fills correctly.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "shim/execs/exec_store.h"
#include "shim/hip/private_handles.h"
#include "shim/memory/freed_memory.h"
#include "tests/unit/fake_graphs.h"
#include "tests/unit/fills.h"

namespace graphpool {

class VariantsTest : public testing::Test {
 protected:
  static constexpr std::size_t kFills = 4;

  VariantsTest() {
    test_set_runtime_version(kPatchesFills);
    recording.operations = fills(kFills);
    recording.node_count = kFills;
    exec.recording = &recording;
  }
  ~VariantsTest() override {
    const LockGuard guard(g_recordings_lock);
    while (!recording.variants.empty()) store.remove(recording, recording.variants.back().get());
  }

  /// A variant with a graph of the library's own.
  Variant& add(const std::vector<std::uint64_t>& baked, const ProgramExec* owner = nullptr) {
    auto variant = std::make_unique<Variant>();
    EXPECT_EQ(hipSuccess, made_private(next().hipGraphCreate(&variant->graph, 0), &variant->graph));
    variant->baked = fill_binding(baked);
    variant->memory_freed = memory_freed();
    return *store.adopt(recording, std::move(variant), owner);
  }
  void serve_by(Variant& variant) { exec.variant = &variant; }

  fake::Install fake;
  fake::InstallGraphs graphs;
  GraphSettings settings;
  ExecStore store{settings};
  Recording recording;
  ProgramExec exec;
};

}  // namespace graphpool
