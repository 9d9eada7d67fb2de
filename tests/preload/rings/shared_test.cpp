// Memory that other processes can reach is worked on as it is: a graph that names it is not staged, whenever its handle
// left the process; nor is one with kernels of a communication library. The graphs write down where they have run
// (rings.h). With a rule that leaves staging open, each test first brings its graph to be staged.
#include <dlfcn.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "rings.h"

namespace captures {
namespace {

/// Whether launches over buffers of a rule show that they ran in slots.
bool shows() { return under_library() && !verified(); }
bool open() { return std::string(said("GRAPHPOOL_BUFFERS")).find("auto") != std::string::npos; }

/// One graph over a buffer that may be another one at each launch, with what a test adds to it.
class Steps {
 public:
  using More = std::function<void(hipStream_t, const Memory&)>;
  explicit Steps(More more = [](hipStream_t, const Memory&) {}) : more_(std::move(more)) {}

  hipStream_t stream() const { return stream_; }

  void bind(const Memory& memory) {
    const hipGraph_t graph = capture(stream_, [&] {
      for (int i = 0; i < kernels_; ++i) OK(kernels().mix(stream_, memory.get() + kNote, kInOut - kNote, 3));
      more_(stream_, memory);
      if (!verified()) {
        OK(write_note(stream_, memory.get()));
      }
    });
    if (exec_ == nullptr)
      exec_ = std::make_unique<Exec>(graph);
    else
      exec_->update(graph);
  }
  void launch() {
    OK(hipGraphLaunch(*exec_, stream_));
    ++launches_;
  }
  /// Launches, waits, and says whether that ran in slots.
  bool staged(const Memory& memory) {
    launch();
    EXPECT_EQ(hipSuccess, hipStreamSynchronize(stream_));
    return shows() && copied(memory);
  }
  /// Until it is staged where it may be: a rule that leaves it open decides by cost.
  void bring_to_slots() {
    for (int i = 0; open() && shows() && i < kMost; ++i) {
      Memory& other = *others_.emplace_back(std::make_unique<Memory>(kInOut));
      bind(other);
      if (staged(other)) break;
    }
    launches_ = 0;
  }
  /// What so many launches make of a value.
  int expected(int value) const {
    for (int i = 0; i < kernels_ * launches_; ++i) value = mixed(value, 3);
    return value;
  }

 private:
  static constexpr int kMost = 400;
  static inline int made_ = 0;

  /// So many that copies cost less than setting them. No two objects have the same graph where staging is chosen.
  const int kernels_ = open() ? 40 + made_++ : 1;
  const More more_;
  const FreeStream stream_;
  std::unique_ptr<Exec> exec_;
  std::vector<std::unique_ptr<Memory>> others_;
  int launches_ = 0;
};

/// The value of all but where a launch notes.
int value_of(const Memory& memory) {
  const std::vector<int> ints = memory.ints();
  for (std::size_t i = kNote; i < kInOut; ++i) EXPECT_EQ(ints[kNote], ints[i]) << i;
  return ints[kNote];
}

/// A way out of the process for memory.
using Export = std::function<void(const Memory&)>;
void by_ipc(const Memory& memory) {
  hipIpcMemHandle_t handle;
  OK(hipIpcGetMemHandle(&handle, memory.get()));
}
void by_ipc_of_its_middle(const Memory& memory) {
  hipIpcMemHandle_t handle;
  OK(hipIpcGetMemHandle(&handle, memory.get() + 50));
}
void by_dma_buf(const Memory& memory) {
  using Function = hipError_t(void*, hipDeviceptr_t, std::size_t, int, unsigned long long);
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, "hipMemGetHandleForAddressRange"));
  ASSERT_NE(nullptr, function);
  int descriptor = -1;
  constexpr int kDmaBuf = 1;
  OK(function(&descriptor, memory.get(), 64, kDmaBuf, 0));
  OK(close(descriptor) == 0 ? hipSuccess : hipErrorUnknown);
}

void exported_before(const Export& by) {
  const Memory memory(kInOut, 5);
  Steps steps;
  steps.bring_to_slots();
  by(memory);
  steps.bind(memory);
  EXPECT_FALSE(steps.staged(memory));
  steps.bind(memory);
  EXPECT_FALSE(steps.staged(memory));
  EXPECT_EQ(steps.expected(5), value_of(memory));
}

void exported_after(const Export& by) {
  const Memory memory(kInOut, 5), other(kInOut, 6);
  Steps steps;
  steps.bring_to_slots();
  steps.bind(memory);
  EXPECT_EQ(shows(), steps.staged(memory));
  by(memory);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(steps.staged(memory)) << i;
  EXPECT_EQ(steps.expected(5), value_of(memory));
  // Others may be staged as before: with a rule that leaves it open, by cost.
  steps.bind(other);
  const bool staged = steps.staged(other);
  if (!open()) {
    EXPECT_EQ(shows(), staged);
  }
  steps.bind(memory);
  EXPECT_FALSE(steps.staged(memory));
}

TEST(Shared, memory_exported_before_its_graph_was_made) { exported_before(by_ipc); }
TEST(Shared, memory_exported_after_its_graph_was_made) { exported_after(by_ipc); }
TEST(Shared, memory_of_which_a_pointer_inside_was_exported) { exported_after(by_ipc_of_its_middle); }
TEST(Shared, memory_exported_as_a_dma_buf) {
  exported_before(by_dma_buf);
  exported_after(by_dma_buf);
}

/// What is under way ends on its slots, and nobody waits for it: its kernels may wait for whoever gets the handle. The
/// next launch is on the program's memory, behind it.
TEST(Shared, memory_exported_while_launches_are_under_way) {
  if (open() || verified()) GTEST_SKIP();
  const Memory memory(kInOut, 5);
  Steps steps;
  steps.bind(memory);
  EXPECT_EQ(shows(), steps.staged(memory));
  Gate gate;
  gate.close(steps.stream());
  steps.launch();
  by_ipc(memory);
  steps.launch();
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(steps.stream()));
  gate.open();
  OK(hipStreamSynchronize(steps.stream()));
  EXPECT_FALSE(copied(memory));
  EXPECT_EQ(steps.expected(5), value_of(memory));
}

/// Freed and allocated again it is memory like any other. Each has another address: with the same one the binding is
/// the same, and what serves it stays.
TEST(Shared, what_was_exported_is_staged_again_when_it_is_other_memory) {
  if (open()) GTEST_SKIP() << "staged by cost";
  Steps steps;
  std::vector<std::unique_ptr<Memory>> where_others_were;
  for (int i = 0; i < 3; ++i) {
    where_others_were.push_back(std::make_unique<Memory>(kInOut));
    const Memory memory(kInOut, i);
    steps.bind(memory);
    EXPECT_EQ(shows(), steps.staged(memory));
    by_ipc(memory);
    EXPECT_FALSE(steps.staged(memory));
  }
}

// --- memory that came from outside ---

/// Memory by the calls about mappings.
class Mapped {
 public:
  explicit Mapped(hipMemGenericAllocationHandle_t handle, std::size_t bytes) : handle_(handle), bytes_(bytes) {
    EXPECT_EQ(hipSuccess, hipMemAddressReserve(&at_, bytes, 0, nullptr, 0));
    EXPECT_EQ(hipSuccess, hipMemMap(at_, bytes, 0, handle, 0));
    hipMemAccessDesc access{};
    access.location = {hipMemLocationTypeDevice, 0};
    access.flags = hipMemAccessFlagsProtReadWrite;
    EXPECT_EQ(hipSuccess, hipMemSetAccess(at_, bytes, &access, 1));
    EXPECT_EQ(hipSuccess, hipMemset(at_, 0, bytes));
  }
  ~Mapped() {
    EXPECT_EQ(hipSuccess, hipMemUnmap(at_, bytes_));
    EXPECT_EQ(hipSuccess, hipMemAddressFree(at_, bytes_));
    EXPECT_EQ(hipSuccess, hipMemRelease(handle_));
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  int* get() const { return static_cast<int*>(at_); }

  static hipMemGenericAllocationHandle_t create(std::size_t bytes) {
    hipMemAllocationProp properties{};
    properties.type = hipMemAllocationTypePinned;
    properties.location = {hipMemLocationTypeDevice, 0};
    properties.requestedHandleType = hipMemHandleTypePosixFileDescriptor;
    hipMemGenericAllocationHandle_t handle{};
    EXPECT_EQ(hipSuccess, hipMemCreate(&handle, bytes, &properties, 0));
    return handle;
  }

 private:
  hipMemGenericAllocationHandle_t handle_;
  std::size_t bytes_;
  void* at_ = nullptr;
};

constexpr std::size_t kMapped = std::size_t{2} << 20;

int descriptor_of(hipMemGenericAllocationHandle_t handle) {
  int descriptor = -1;
  EXPECT_EQ(hipSuccess, hipMemExportToShareableHandle(&descriptor, handle, hipMemHandleTypePosixFileDescriptor, 0));
  return descriptor;
}

/// Up to HIP 7.0 by the descriptor's address.
hipMemGenericAllocationHandle_t imported(int descriptor) {
  hipMemGenericAllocationHandle_t handle{};
  EXPECT_EQ(hipSuccess, hipMemImportFromShareableHandle(&handle, &descriptor, hipMemHandleTypePosixFileDescriptor));
  return handle;
}

TEST(Shared, a_graph_that_works_on_imported_memory_too) {
  const auto exported = Mapped::create(kMapped);
  const int descriptor = descriptor_of(exported);
  const Mapped peer(imported(descriptor), kMapped);
  const Memory memory(kInOut, 5);
  bool with_peer = false;
  const Mapped own(exported, kMapped);
  const Mapped plain(Mapped::create(kMapped), kMapped);
  Steps steps([&](hipStream_t stream, const Memory&) {
    OK(kernels().mix(stream, with_peer ? peer.get() : plain.get(), kInOut, 1));
  });
  steps.bring_to_slots();
  steps.bind(memory);
  EXPECT_EQ(shows(), steps.staged(memory));
  with_peer = true;
  steps.bind(memory);
  EXPECT_FALSE(steps.staged(memory));
  EXPECT_EQ(steps.expected(5), value_of(memory));
  EXPECT_EQ(0, close(descriptor));
}

TEST(Shared, a_graph_that_works_on_mapped_memory_which_is_exported_later) {
  const auto handle = Mapped::create(kMapped);
  const Mapped mapped(handle, kMapped);
  const Memory memory(kInOut, 5);
  Steps steps([&](hipStream_t stream, const Memory&) { OK(kernels().mix(stream, mapped.get() + 100, kInOut, 1)); });
  steps.bring_to_slots();
  steps.bind(memory);
  EXPECT_EQ(shows(), steps.staged(memory));
  EXPECT_EQ(0, close(descriptor_of(handle)));
  EXPECT_FALSE(steps.staged(memory));
  EXPECT_EQ(steps.expected(5), value_of(memory));
}

/// The other process: what it has opened is an operand, or an address inside a structure that is one.
TEST(Shared, DISABLED_the_other_process) {
  hipIpcMemHandle_t handle;
  ASSERT_EQ(static_cast<ssize_t>(sizeof handle), read(std::atoi(said("SHARED_FD")), &handle, sizeof handle));
  int* peer = nullptr;
  OK(hipIpcOpenMemHandle(reinterpret_cast<void**>(&peer), handle, hipIpcMemLazyEnablePeerAccess));
  struct Signals {
    int* peers[8];
  };
  const hipFunction_t meet = compiled(R"(
      struct Signals { int* peers[8]; };
      extern "C" __global__ void meet(Signals signals, int n) { for (int i = 0; i < n; ++i) signals.peers[3][i] += 1; }
    )",
                                      "meet");
  const Memory memory(kInOut, 5), plain(101);  // no rule stages 101 ints
  for (const bool in_structure : {false, true}) {
    int* at = plain.get();
    Steps steps([&](hipStream_t stream, const Memory&) {
      if (!in_structure) {
        OK(kernels().mix(stream, at, kInOut, 1));
      } else {
        Signals signals{};
        signals.peers[3] = at;
        int n = kInOut;
        void* arguments[] = {&signals, &n};
        OK(hipModuleLaunchKernel(meet, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
      }
    });
    steps.bring_to_slots();
    steps.bind(memory);
    // Launches are not independent where a structure names memory that they may write to.
    EXPECT_EQ(shows() && !(in_structure && overlap()), steps.staged(memory)) << in_structure;
    at = peer;
    steps.bind(memory);
    EXPECT_FALSE(steps.staged(memory)) << in_structure;
  }
  OK(hipIpcCloseMemHandle(peer));
}

TEST(Shared, a_graph_that_works_on_memory_of_another_process_too) {
  const Memory memory(kInOut, 1);
  hipIpcMemHandle_t handle;
  OK(hipIpcGetMemHandle(&handle, memory.get()));
  int ends[2];
  ASSERT_EQ(0, pipe(ends));
  ASSERT_EQ(static_cast<ssize_t>(sizeof handle), write(ends[1], &handle, sizeof handle));
  const std::string journal = std::string(said("CPUHIP_JOURNAL")) + "_other", fd = std::to_string(ends[0]);
  const pid_t child = fork();
  if (child == 0) {
    setenv("SHARED_FD", fd.c_str(), 1);
    setenv("CPUHIP_JOURNAL", journal.c_str(), 1);
    execl("/proc/self/exe", "other", "--gtest_filter=*the_other_process", "--gtest_also_run_disabled_tests",
          "--gtest_brief=1", nullptr);
    _exit(127);
  }
  int status = -1;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
  EXPECT_EQ(mixed(1, 1) + 1, memory.value());
  EXPECT_EQ(0, close(ends[0]) + close(ends[1]));
}

// --- kernels of a communication library ---

void with_kernel(hipFunction_t kernel, bool communicates) {
  const Memory memory(kInOut, 5), done(101);
  Steps steps([&](hipStream_t stream, const Memory&) {
    int* at = done.get();
    void* arguments[] = {&at};
    OK(hipModuleLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  });
  if (!communicates) steps.bring_to_slots();
  for (int i = 0; i < (open() ? 100 : 3); ++i) {
    const Memory moved(kInOut, 5);
    steps.bind(communicates ? moved : memory);
    const bool staged = steps.staged(communicates ? moved : memory);
    if (communicates || !open()) {
      EXPECT_EQ(!communicates && shows(), staged);
    }
  }
}

TEST(Shared, kernels_of_a_communication_library_are_known_by_their_names) {
  for (const char* const name : {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", "rcclGenericKernel", "mscclRunInterpreter",
                                 "rocshmem_put", "NvShmem_get"}) {
    const std::string source = "extern \"C\" __global__ void " + std::string(name) + "(int* p) { *p += 1; }";
    with_kernel(compiled(source.c_str(), name), true);
  }
}

TEST(Shared, kernels_of_a_communication_library_are_known_by_their_files) {
  const auto folder = std::filesystem::temp_directory_path() / ("rccl_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  for (const char* const name : {"libmscclpp.co", "kernels.co"}) {
    const std::vector<char> code = compiled_code(R"(extern "C" __global__ void add(int* p) { *p += 1; })");
    const std::string path = folder / name;
    std::ofstream(path, std::ios::binary).write(code.data(), static_cast<std::streamsize>(code.size()));
    hipModule_t module = nullptr;
    hipFunction_t function = nullptr;
    OK(hipModuleLoad(&module, path.c_str()));
    OK(hipModuleGetFunction(&function, module, "add"));
    with_kernel(function, std::string(name) != "kernels.co");  // its folder says nothing
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace captures
