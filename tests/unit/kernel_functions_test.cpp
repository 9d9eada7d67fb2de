#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shim/hip/next.h"
#include "shim/kernel/functions.h"
#include "tests/support/code_images.h"

namespace graphpool {
namespace {

/// As clang emits it for a compiled program.
struct Wrapper {
  std::uint32_t magic = 0x48495046, version = 1;
  const void* binary;
  const void* unused = nullptr;
};

std::string sample_bundle() {
  return images::bundle({{"host-x86_64-unknown-linux", ""},
                         {"hipv4-amdgcn-amd-amdhsa--gfx90a", images::code_object(images::sample_kernels())}});
}

/// A compiled program's binary with the handle the runtime gave for it.
struct Program {
  explicit Program(std::string image = sample_bundle()) : image(std::move(image)) {}
  std::string image;
  Wrapper wrapper{.binary = image.data()};
  void* slot = nullptr;
  void** handle = &slot;
};

const void* address(std::uintptr_t value) { return reinterpret_cast<const void*>(value); }

/// The registry is never destroyed, so each test leaves one behind, reachable.
class FunctionsTest : public testing::Test {
 protected:
  FunctionsTest() : all_(*new Functions) { kept_.push_back(&all_); }

  void register_all(Program* program) {
    all_.registrations.add_fat_binary(program->handle, &program->wrapper);
    all_.registrations.add_stub(program->handle, address(0x1000), "mixed");
    all_.registrations.add_stub(program->handle, address(0x2000), "empty");
    all_.registrations.add_stub(program->handle, address(0x3000), "not in the binary");
  }

  Functions& all_;

 private:
  static inline auto& kept_ = *new std::vector<Functions*>;  // reachable to the end
};

TEST_F(FunctionsTest, AStubHasTheLayoutOfItsKernel) {
  Program program;
  register_all(&program);
  const KernelInfo mixed = all_.find(address(0x1000));
  ASSERT_TRUE(mixed.registered());
  ASSERT_NE(mixed.layout, nullptr);
  EXPECT_EQ(mixed.layout->bytes(), 42u);
  EXPECT_STREQ(mixed.name, "mixed");
  ASSERT_NE(all_.find(address(0x2000)).layout, nullptr);
  EXPECT_EQ(all_.find(address(0x2000)).layout->bytes(), 0u);
}

TEST_F(FunctionsTest, WhatIsNotKnownIsSaidToBe) {
  EXPECT_FALSE(all_.find(address(0x1000)).registered());
  EXPECT_FALSE(all_.find(nullptr).registered());
  Program program;
  register_all(&program);
  EXPECT_TRUE(all_.find(address(0x3000)).registered());
  EXPECT_EQ(all_.find(address(0x3000)).layout, nullptr);
  EXPECT_FALSE(all_.find(address(0x4000)).registered());
}

TEST_F(FunctionsTest, ABinaryIsReadAtItsFirstUseAndNamesAreCopied) {
  const std::string image = sample_bundle();
  std::string memory(image.size(), 'x');  // nothing readable until later
  auto wrapper = std::make_unique<Wrapper>(Wrapper{.binary = memory.data()});
  void* slot = nullptr;
  all_.registrations.add_fat_binary(&slot, wrapper.get());
  auto name = std::make_unique<std::string>("mixed");
  all_.registrations.add_stub(&slot, address(0x1000), name->c_str());
  wrapper.reset();
  name.reset();
  image.copy(memory.data(), image.size());
  const KernelInfo info = all_.find(address(0x1000));
  EXPECT_NE(info.layout, nullptr);
  EXPECT_STREQ(info.name, "mixed");
}

TEST_F(FunctionsTest, TheFirstRegistrationOfAStubWins) {
  Program first, second(images::bundle(
                     {{"hipv4-amdgcn-amd-amdhsa--gfx90a", images::code_object({{"mixed", 8, {{0, 8, "by_value"}}}})}}));
  register_all(&first);
  register_all(&second);
  const KernelInfo info = all_.find(address(0x1000));
  ASSERT_NE(info.layout, nullptr);
  EXPECT_EQ(info.layout->bytes(), 42u);
  all_.on_fat_binary_unregistered(second.handle);
  EXPECT_EQ(all_.find(address(0x1000)).generation, info.generation) << "the second one never had it";
  all_.on_fat_binary_unregistered(first.handle);
  EXPECT_FALSE(all_.find(address(0x1000)).registered()) << "and does not get it";
}

TEST_F(FunctionsTest, AKernelIsStillThereUntilItGoesWhateverIsSetOfIt) {
  Program program;
  register_all(&program);
  const std::uint64_t before = all_.find(address(0x1000)).generation;
  EXPECT_TRUE(all_.still_there(address(0x1000), before));
  ASSERT_TRUE(all_.set(address(0x1000), {.which = 8}, 1024, true));
  EXPECT_NE(all_.find(address(0x1000)).generation, before);
  EXPECT_TRUE(all_.still_there(address(0x1000), before));
  all_.on_fat_binary_unregistered(program.handle);
  EXPECT_FALSE(all_.still_there(address(0x1000), before));
  register_all(&program);
  EXPECT_FALSE(all_.still_there(address(0x1000), before)) << "another";
}

TEST_F(FunctionsTest, UnregisteringForgetsAndAStubThatComesBackIsNew) {
  Program program;
  register_all(&program);
  const KernelInfo before = all_.find(address(0x1000));
  all_.on_fat_binary_unregistered(program.handle);
  EXPECT_FALSE(all_.find(address(0x1000)).registered());
  EXPECT_FALSE(all_.find(address(0x2000)).registered());
  register_all(&program);
  const KernelInfo after = all_.find(address(0x1000));
  EXPECT_GT(after.generation, before.generation);
  EXPECT_EQ(after.layout, before.layout);
  EXPECT_EQ(after.name, before.name);
}

TEST_F(FunctionsTest, ABinaryUnregisteredUnreadIsNeverRead) {
  Program program;
  register_all(&program);
  all_.on_fat_binary_unregistered(program.handle);
  program.image = std::string();
  program.image.shrink_to_fit();
  EXPECT_FALSE(all_.find(address(0x1000)).registered());
}

TEST_F(FunctionsTest, AHandleUsedAgainWithoutUnregisteringReplacesTheBinary) {
  Program program;
  register_all(&program);
  const KernelInfo before = all_.find(address(0x1000));
  const std::string other =
      images::bundle({{"hipv4-amdgcn-amd-amdhsa--gfx90a", images::code_object({{"mixed", 8, {{0, 8, "by_value"}}}})}});
  const Wrapper wrapper{.binary = other.data()};
  all_.registrations.add_fat_binary(program.handle, &wrapper);
  all_.registrations.add_stub(program.handle, address(0x1000), "mixed");
  const KernelInfo after = all_.find(address(0x1000));
  EXPECT_GT(after.generation, before.generation);
  EXPECT_EQ(after.layout->bytes(), 8u);
}

TEST_F(FunctionsTest, InWrappersOfAnotherKindNoBinaryIsLookedFor) {
  const Wrapper kinds[] = {
      {.magic = 0x4b504948, .binary = address(0x10)}, {.version = 2, .binary = address(0x10)}, {.binary = nullptr}};
  for (const Wrapper& kind : kinds) {
    Program program;
    program.wrapper = kind;
    register_all(&program);
    const KernelInfo info = all_.find(address(0x1000));
    EXPECT_TRUE(info.registered());
    EXPECT_STREQ(info.name, "mixed");
    EXPECT_EQ(info.layout, nullptr);
    EXPECT_TRUE(info.may_be_asked);
    all_.on_fat_binary_unregistered(program.handle);
    EXPECT_FALSE(all_.find(address(0x1000)).registered());
  }
}

TEST_F(FunctionsTest, ARegistrationOfNothingIsNone) {
  Program program;
  all_.registrations.add_fat_binary(nullptr, &program.wrapper);
  all_.registrations.add_fat_binary(program.handle, nullptr);
  all_.registrations.add_stub(nullptr, address(0x1000), "mixed");
  all_.registrations.add_stub(program.handle, nullptr, "mixed");
  all_.registrations.add_stub(program.handle, address(0x1000), nullptr);
  all_.on_fat_binary_unregistered(nullptr);
  EXPECT_FALSE(all_.find(address(0x1000)).registered());
}

TEST_F(FunctionsTest, ABinaryThatCannotBeReadLeavesItsStubsUnknown) {
  Program program("not a bundle");
  register_all(&program);
  const KernelInfo info = all_.find(address(0x1000));
  EXPECT_TRUE(info.registered());
  EXPECT_EQ(info.layout, nullptr);
  EXPECT_TRUE(info.may_be_asked);
}

const std::vector<Argument> kAnswered = {{0, 4, ArgumentKind::kUnknown}, {8, 8, ArgumentKind::kUnknown}};

TEST_F(FunctionsTest, WhatTheRuntimeAnsweredOfAStubIsKnown) {
  Program program("not a bundle");
  register_all(&program);
  const KernelInfo unknown = all_.find(address(0x1000));
  EXPECT_TRUE(all_.is_stub(address(0x1000)));
  const KernelInfo known = all_.learn(address(0x1000), unknown, &kAnswered);
  ASSERT_NE(known.layout, nullptr);
  EXPECT_EQ(known.layout->bytes(), 16u);
  EXPECT_FALSE(known.layout->self_contained());
  EXPECT_EQ(known.generation, unknown.generation);
  EXPECT_FALSE(known.may_be_asked);
  EXPECT_EQ(all_.find(address(0x1000)).layout, known.layout);
  EXPECT_TRUE(all_.find(address(0x2000)).may_be_asked) << "others are as they were";
}

TEST_F(FunctionsTest, WhoseArgumentsTheRuntimeDoesNotTellIsNotAskedAgain) {
  Program program("not a bundle");
  register_all(&program);
  const KernelInfo unknown = all_.find(address(0x1000));
  EXPECT_EQ(all_.learn(address(0x1000), unknown, nullptr).layout, nullptr);
  EXPECT_FALSE(all_.find(address(0x1000)).may_be_asked);
  const std::vector<Argument> overlapping = {{0, 8, ArgumentKind::kUnknown}, {4, 8, ArgumentKind::kUnknown}};
  EXPECT_EQ(all_.learn(address(0x2000), all_.find(address(0x2000)), &overlapping).layout, nullptr);
  EXPECT_FALSE(all_.find(address(0x2000)).may_be_asked);
}

TEST_F(FunctionsTest, AnAnswerThatComesLateIsOfAnotherRegistration) {
  Program program("not a bundle");
  register_all(&program);
  const KernelInfo unknown = all_.find(address(0x1000));
  all_.on_fat_binary_unregistered(program.handle);
  EXPECT_FALSE(all_.learn(address(0x1000), unknown, &kAnswered).registered());
  register_all(&program);
  EXPECT_EQ(all_.learn(address(0x1000), unknown, &kAnswered).layout, nullptr);
  EXPECT_TRUE(all_.find(address(0x1000)).may_be_asked);
}

TEST_F(FunctionsTest, WhatIsKnownOrDisagreesIsNotAskedFor) {
  Program program(images::bundle(
      {{"hipv4-amdgcn-amd-amdhsa--gfx906", images::code_object({{"mixed", 8, {{0, 8, "global_buffer"}}}})},
       {"hipv4-amdgcn-amd-amdhsa--gfx90a", images::code_object(images::sample_kernels())}}));
  register_all(&program);
  EXPECT_EQ(all_.find(address(0x1000)).layout, nullptr);
  EXPECT_FALSE(all_.find(address(0x1000)).may_be_asked);
  EXPECT_NE(all_.find(address(0x2000)).layout, nullptr);
  EXPECT_FALSE(all_.find(address(0x2000)).may_be_asked);
  EXPECT_TRUE(all_.find(address(0x3000)).may_be_asked) << "the runtime may have what is not in the binary";
}

TEST_F(FunctionsTest, AskingForAFunctionAgainKeepsWhatTheRuntimeAnswered) {
  const void* const module = address(0x100);
  EXPECT_EQ(all_.on_module_loaded(module, "not an image, whatever it is"), Status::kUnsupported);
  EXPECT_EQ(all_.on_function_found(module, "mixed", address(0x1010)), Status::kNotFound);
  const KernelInfo known = all_.learn(address(0x1010), all_.find(address(0x1010)), &kAnswered);
  ASSERT_NE(known.layout, nullptr);
  EXPECT_FALSE(all_.is_stub(address(0x1010)));
  EXPECT_EQ(all_.on_function_found(module, "mixed", address(0x1010)), Status::kOk);
  EXPECT_EQ(all_.find(address(0x1010)).layout, known.layout);
  EXPECT_EQ(all_.find(address(0x1010)).generation, known.generation);
}

/// What happens while a binary is read: then the runtime is asked what the devices are.
std::function<void()> g_while_reading;
hipError_t count_devices(int*) {
  if (g_while_reading) std::exchange(g_while_reading, nullptr)();
  return hipErrorNoDevice;
}

class FunctionsWhileReading : public FunctionsTest {
 protected:
  FunctionsWhileReading() { test_next().hipGetDeviceCount = &count_devices; }
  ~FunctionsWhileReading() override { test_next().hipGetDeviceCount = before_; }

 private:
  decltype(Next::hipGetDeviceCount) before_ = next().hipGetDeviceCount;
};

TEST_F(FunctionsWhileReading, OthersAreFoundByOtherThreads) {
  Program program, other;
  register_all(&program);
  all_.registrations.add_fat_binary(other.handle, &other.wrapper);
  all_.registrations.add_stub(other.handle, address(0x5000), "mixed");
  bool found = false;
  g_while_reading = [&] { std::thread([&] { found = all_.find(address(0x5000)).layout != nullptr; }).join(); };
  EXPECT_NE(all_.find(address(0x1000)).layout, nullptr);
  EXPECT_TRUE(found);
}

TEST_F(FunctionsWhileReading, ThreadsThatNeedTheBinaryWaitForIt) {
  Program program;
  register_all(&program);
  std::vector<std::thread> threads;
  std::atomic<int> known{0};
  g_while_reading = [&] {
    for (const std::uintptr_t stub : {0x1000, 0x2000, 0x1000})
      threads.emplace_back([&, stub] { known += all_.find(address(stub)).layout != nullptr; });
  };
  EXPECT_NE(all_.find(address(0x1000)).layout, nullptr);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(known, 3);
}

TEST_F(FunctionsWhileReading, UnregisteringWaitsForTheReader) {
  for (int i = 0; i < 100; ++i) {
    auto program = std::make_unique<Program>();
    register_all(program.get());
    std::thread unregisters;
    g_while_reading = [&] {
      unregisters = std::thread([&] {
        all_.on_fat_binary_unregistered(program->handle);
        program->image.assign(program->image.size(), '\0');  // unmapped
      });
    };
    static_cast<void>(all_.find(address(0x1000)));
    unregisters.join();
    EXPECT_FALSE(all_.find(address(0x1000)).registered());
  }
}

TEST_F(FunctionsWhileReading, ABinaryWhoseHandleIsAnothersByThenIsNotEntered) {
  Program program;
  const std::string image =
      images::bundle({{"hipv4-amdgcn-amd-amdhsa--gfx90a", images::code_object({{"mixed", 8, {{0, 8, "by_value"}}}})}});
  const Wrapper another{.binary = image.data()};
  register_all(&program);
  g_while_reading = [&] {
    all_.registrations.add_fat_binary(program.handle, &another);
    all_.registrations.add_stub(program.handle, address(0x1000), "mixed");
    EXPECT_FALSE(all_.find(address(0x4000)).registered()) << "enters them";
  };
  const KernelInfo info = all_.find(address(0x1000));
  ASSERT_NE(info.layout, nullptr);
  EXPECT_EQ(info.layout->bytes(), 8u);
}

TEST_F(FunctionsTest, ModulesAreReadWhenLoadedAndTheImageMayGo) {
  const void* module = address(0x100);
  auto image = std::make_unique<images::GuardedImage>(images::code_object(images::sample_kernels()));
  ASSERT_EQ(all_.on_module_loaded(module, image->data()), Status::kOk);
  image.reset();
  ASSERT_EQ(all_.on_function_found(module, "mixed", address(0x1010)), Status::kOk);
  const KernelInfo info = all_.find(address(0x1010));
  ASSERT_NE(info.layout, nullptr);
  EXPECT_EQ(info.layout->bytes(), 42u);
  EXPECT_STREQ(info.name, "mixed");
  EXPECT_EQ(all_.on_function_found(module, "nobody", address(0x1020)), Status::kNotFound);
  EXPECT_TRUE(all_.find(address(0x1020)).registered());
  EXPECT_EQ(all_.find(address(0x1020)).layout, nullptr);
  EXPECT_EQ(all_.on_function_found(module, nullptr, address(0x1030)), Status::kMalformed);
  EXPECT_EQ(all_.on_function_found(module, "mixed", nullptr), Status::kMalformed);
}

TEST_F(FunctionsTest, AskingAgainKeepsTheGenerationAndAnotherKernelDoesNot) {
  const void* module = address(0x100);
  const std::string image = images::code_object(images::sample_kernels());
  ASSERT_EQ(all_.on_module_loaded(module, image.data(), image.size()), Status::kOk);
  ASSERT_EQ(all_.on_function_found(module, "mixed", address(0x1010)), Status::kOk);
  const std::uint64_t first = all_.find(address(0x1010)).generation;
  ASSERT_EQ(all_.on_function_found(module, "mixed", address(0x1010)), Status::kOk);
  EXPECT_EQ(all_.find(address(0x1010)).generation, first);
  ASSERT_EQ(all_.on_function_found(module, "empty", address(0x1010)), Status::kOk);
  EXPECT_GT(all_.find(address(0x1010)).generation, first);
}

TEST_F(FunctionsTest, UnloadingForgetsAndAHandleThatComesBackIsNew) {
  const void* module = address(0x100);
  const std::string image = images::code_object(images::sample_kernels());
  ASSERT_EQ(all_.on_module_loaded(module, image.data()), Status::kOk);
  ASSERT_EQ(all_.on_function_found(module, "mixed", address(0x1010)), Status::kOk);
  const std::uint64_t first = all_.find(address(0x1010)).generation;
  all_.on_module_unloaded(module);
  EXPECT_FALSE(all_.find(address(0x1010)).registered());
  all_.on_module_unloaded(module);
  ASSERT_EQ(all_.on_module_loaded(module, image.data()), Status::kOk);
  ASSERT_EQ(all_.on_function_found(module, "mixed", address(0x1010)), Status::kOk);
  EXPECT_GT(all_.find(address(0x1010)).generation, first);
}

TEST_F(FunctionsTest, AnUnloadNobodySawIsNoticedAtTheNextLoad) {
  const void* module = address(0x100);
  const std::string image = images::code_object(images::sample_kernels());
  ASSERT_EQ(all_.on_module_loaded(module, image.data()), Status::kOk);
  ASSERT_EQ(all_.on_function_found(module, "mixed", address(0x1010)), Status::kOk);
  ASSERT_EQ(all_.on_module_loaded(module, image.data()), Status::kOk);
  EXPECT_FALSE(all_.find(address(0x1010)).registered());
}

TEST_F(FunctionsTest, AFunctionHandleThatMovedToAnotherModuleStaysWithIt) {
  const std::string image = images::code_object(images::sample_kernels());
  ASSERT_EQ(all_.on_module_loaded(address(0x100), image.data()), Status::kOk);
  ASSERT_EQ(all_.on_module_loaded(address(0x200), image.data()), Status::kOk);
  ASSERT_EQ(all_.on_function_found(address(0x100), "mixed", address(0x1010)), Status::kOk);
  ASSERT_EQ(all_.on_function_found(address(0x200), "mixed", address(0x1010)), Status::kOk);
  const std::uint64_t generation = all_.find(address(0x1010)).generation;
  all_.on_module_unloaded(address(0x100));
  EXPECT_EQ(all_.find(address(0x1010)).generation, generation);
  all_.on_module_unloaded(address(0x200));
  EXPECT_FALSE(all_.find(address(0x1010)).registered());
}

TEST_F(FunctionsTest, AModuleThatCannotBeReadHasFunctionsWithoutLayout) {
  const void* module = address(0x100);
  EXPECT_EQ(all_.on_module_loaded(module, "not an image, whatever it is"), Status::kUnsupported);
  EXPECT_EQ(all_.on_function_found(module, "mixed", address(0x1010)), Status::kNotFound);
  EXPECT_TRUE(all_.find(address(0x1010)).registered());
  EXPECT_EQ(all_.find(address(0x1010)).layout, nullptr);
  all_.on_module_unloaded(module);
  EXPECT_FALSE(all_.find(address(0x1010)).registered());
}

TEST_F(FunctionsTest, AFunctionOfAModuleLoadedBeforeUsGoesWithItsModule) {
  EXPECT_EQ(all_.on_function_found(address(0x100), "mixed", address(0x1010)), Status::kNotFound);
  EXPECT_TRUE(all_.find(address(0x1010)).registered());
  all_.on_module_unloaded(address(0x100));
  EXPECT_FALSE(all_.find(address(0x1010)).registered());
}

TEST_F(FunctionsTest, VariablesAreTheirModulesUntilItGoes) {
  const void *const first = address(0x100), *const second = address(0x200);
  EXPECT_EQ(all_.module_of_variable(address(0x7000)), nullptr);
  ASSERT_EQ(all_.on_module_loaded(first, images::code_object(images::sample_kernels()).data()), Status::kOk);
  all_.on_variable_found(first, address(0x7000), 0x100);
  all_.on_variable_found(second, address(0x7100), 8);  // of a module that came before us
  all_.on_variable_found(second, address(0x7200), 0);
  all_.on_variable_found(second, nullptr, 8);
  EXPECT_EQ(all_.module_of_variable(address(0x6fff)), nullptr);
  EXPECT_EQ(all_.module_of_variable(address(0x7000)), first);
  EXPECT_EQ(all_.module_of_variable(address(0x70ff)), first);
  EXPECT_EQ(all_.module_of_variable(address(0x7100)), second);
  EXPECT_EQ(all_.module_of_variable(address(0x7108)), nullptr);
  EXPECT_EQ(all_.module_of_variable(address(0x7200)), nullptr);
  all_.on_variable_found(second, address(0x70f0), 0x20);
  EXPECT_EQ(all_.module_of_variable(address(0x7000)), nullptr) << "its module went unseen";
  EXPECT_EQ(all_.module_of_variable(address(0x7100)), second);
  all_.on_module_unloaded(second);
  EXPECT_EQ(all_.module_of_variable(address(0x7100)), nullptr);
}

TEST_F(FunctionsTest, ModulesFromFiles) {
  char path[] = "/tmp/graphpool_module_XXXXXX";
  const int file = mkstemp(path);
  ASSERT_GE(file, 0);
  const std::string image = sample_bundle();
  ASSERT_EQ(write(file, image.data(), image.size()), static_cast<ssize_t>(image.size()));
  close(file);
  EXPECT_EQ(all_.on_module_file_loaded(address(0x100), path), Status::kOk);
  EXPECT_EQ(all_.on_function_found(address(0x100), "mixed", address(0x1010)), Status::kOk);
  std::remove(path);
  errno = 1234;
  EXPECT_EQ(all_.on_module_file_loaded(address(0x200), path), Status::kNotFound);
  EXPECT_EQ(all_.on_module_file_loaded(address(0x300), nullptr), Status::kNotFound);
  EXPECT_EQ(all_.on_module_file_loaded(address(0x400), "/"), Status::kNotFound);
  EXPECT_EQ(errno, 1234);
}

TEST_F(FunctionsTest, AFunctionHandleOfAStubGoesWithItsBinary) {
  Program program;
  register_all(&program);
  EXPECT_EQ(all_.on_function_of_stub(address(0x1000), address(0x5000)), Status::kOk);
  const KernelInfo stub = all_.find(address(0x1000)), function = all_.find(address(0x5000));
  EXPECT_EQ(function.layout, stub.layout);
  EXPECT_NE(function.generation, stub.generation);
  EXPECT_EQ(all_.on_function_of_stub(address(0x1000), address(0x5000)), Status::kOk);
  EXPECT_EQ(all_.find(address(0x5000)).generation, function.generation);
  EXPECT_EQ(all_.on_function_of_stub(address(0x9000), address(0x6000)), Status::kNotFound);
  EXPECT_EQ(all_.on_function_of_stub(address(0x1000), nullptr), Status::kMalformed);
  all_.on_fat_binary_unregistered(program.handle);
  EXPECT_FALSE(all_.find(address(0x5000)).registered());
}

TEST_F(FunctionsTest, LoadingAndUnloadingForeverKeepsNothing) {
  const std::string image = images::code_object(images::sample_kernels());
  for (std::uintptr_t i = 1; i <= 20000; ++i) {
    const void* module = address(i * 32);
    ASSERT_EQ(all_.on_module_loaded(module, image.data()), Status::kOk);
    ASSERT_EQ(all_.on_function_found(module, "mixed", address(0x100000000 + i * 32)), Status::kOk);
    all_.on_module_unloaded(module);
  }
  EXPECT_FALSE(all_.find(address(0x100000000 + 32)).registered());
}

TEST_F(FunctionsTest, ManyThreadsRegisterLookUpAndUnregister) {
  std::vector<std::thread> threads;
  for (std::uintptr_t t = 1; t <= 4; ++t) {
    threads.emplace_back([this, t] {
      Program program;
      for (std::uintptr_t round = 0; round < 300; ++round) {
        all_.registrations.add_fat_binary(program.handle, &program.wrapper);
        const void* stub = address(t << 20 | 0x1000);
        all_.registrations.add_stub(program.handle, stub, "mixed");
        const KernelInfo info = all_.find(stub);
        ASSERT_TRUE(info.registered());
        ASSERT_NE(info.layout, nullptr);
        ASSERT_EQ(info.layout->bytes(), 42u);
        for (std::uintptr_t other = 1; other <= 4; ++other) (void)all_.find(address(other << 20 | 0x1000));
        all_.on_fat_binary_unregistered(program.handle);
        ASSERT_FALSE(all_.find(stub).registered());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(FunctionsTest, AStubIsKnownWhileAnotherThreadEntersIt) {
  constexpr std::uintptr_t kRounds = 100, kStubs = 1000;
  std::atomic<std::uintptr_t> registered = 0, entered = 0;
  std::uintptr_t unknown = 0;
  std::thread looking([&] {
    for (std::uintptr_t round = 1; round <= kRounds; ++round) {
      while (registered.load() < round) {
      }
      // From a little later in each round, so that some find the other thread at work.
      for (std::uintptr_t spin = 0; spin < round * 64; ++spin) (void)registered.load();
      unknown += all_.find(address(kStubs * 16)).registered() ? 0 : 1;
      while (entered.load() < round) std::this_thread::yield();
      unknown += all_.find(address(kStubs * 16)).registered() ? 0 : 1;
      registered.store(0);
    }
  });
  Program program;
  for (std::uintptr_t round = 1; round <= kRounds; ++round) {
    all_.registrations.add_fat_binary(program.handle, &program.wrapper);
    for (std::uintptr_t stub = 1; stub <= kStubs; ++stub) {
      all_.registrations.add_stub(program.handle, address(stub * 16), "mixed");
    }
    registered.store(round);
    (void)all_.find(address(8));
    entered.store(round);
    while (registered.load() != 0) std::this_thread::yield();
    all_.on_fat_binary_unregistered(program.handle);
  }
  looking.join();
  EXPECT_EQ(unknown, 0u);
}

TEST(FunctionsOfTheProcess, IsOneObject) { EXPECT_EQ(&functions(), &functions()); }

constexpr KernelSetting kAttribute{8, 0};

TEST_F(FunctionsTest, rule_38_what_is_set_by_one_handle_is_set_of_the_kernel) {
  Program program;
  register_all(&program);
  ASSERT_EQ(all_.on_function_of_stub(address(0x1000), address(0x9000)), Status::kOk);
  const auto generations = [&] {
    return std::pair(all_.find(address(0x1000)).generation, all_.find(address(0x9000)).generation);
  };
  const auto before = generations();
  const std::uint64_t other = all_.find(address(0x2000)).generation;
  ASSERT_TRUE(all_.set(address(0x9000), kAttribute, 64, true));
  const auto with = generations();
  EXPECT_NE(before.first, with.first);
  EXPECT_NE(before.second, with.second);
  EXPECT_EQ(other, all_.find(address(0x2000)).generation) << "another kernel, whatever its arguments are";
  EXPECT_TRUE(all_.has_setting(address(0x1000), kAttribute, 64));
  EXPECT_FALSE(all_.has_setting(address(0x2000), kAttribute, 64));
  ASSERT_TRUE(all_.set(address(0x1000), kAttribute, 65, true));
  EXPECT_NE(with, generations());
  ASSERT_TRUE(all_.set(address(0x1000), kAttribute, 64, true));
  EXPECT_EQ(with, generations());
  EXPECT_EQ(all_.handles_of_same_kernel(address(0x9000)).size(), 2u);
  all_.forget_settings();
  EXPECT_EQ(before, generations());
  EXPECT_FALSE(all_.has_setting(address(0x1000), kAttribute, 64));
}

TEST_F(FunctionsTest, rule_38_a_handle_that_comes_later_has_what_was_set) {
  Program program;
  register_all(&program);
  ASSERT_TRUE(all_.set(address(0x1000), kAttribute, 64, true));
  static_cast<void>(all_.on_function_of_stub(address(0x1000), address(0x9000)));
  EXPECT_TRUE(all_.has_setting(address(0x9000), kAttribute, 64));
  const std::uint64_t with = all_.find(address(0x9000)).generation;
  ASSERT_TRUE(all_.set(address(0x1000), kAttribute, 65, true));
  EXPECT_NE(with, all_.find(address(0x9000)).generation);
}

TEST_F(FunctionsTest, rule_38_kernels_of_one_name_in_two_modules_are_two) {
  const std::string image = images::code_object(images::sample_kernels());
  for (const std::uintptr_t module : {0x100, 0x200}) {
    static_cast<void>(all_.on_module_loaded(address(module), image.data(), image.size()));
    static_cast<void>(all_.on_function_found(address(module), "mixed", address(module + 1)));
  }
  ASSERT_TRUE(all_.set(address(0x101), kAttribute, 64, true));
  EXPECT_FALSE(all_.has_setting(address(0x201), kAttribute, 64));
  // The handle of the first becomes one of the second.
  static_cast<void>(all_.on_function_found(address(0x200), "mixed", address(0x101)));
  EXPECT_FALSE(all_.has_setting(address(0x101), kAttribute, 64));
  all_.on_module_unloaded(address(0x200));
  EXPECT_FALSE(all_.knows_kernel(address(0x101)));
  EXPECT_FALSE(all_.set(address(0x101), kAttribute, 64, true));
}

}  // namespace
}  // namespace graphpool
