#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "shim/callsite/symbols.h"

namespace shown {

[[gnu::noinline, gnu::used]] static int in_a_namespace(int value) { return value + 1; }

}  // namespace shown

namespace graphpool {
namespace {

template <typename Function>
std::uintptr_t inside(Function* function) {
  return reinterpret_cast<std::uintptr_t>(function) + 1;
}

/// Never destroyed, as in the library.
Symbols& make_symbols() {
  static auto& kept = *new std::vector<Symbols*>;  // reachable to the end
  return *kept.emplace_back(new Symbols);
}

class Plugin {
 public:
  explicit Plugin(const char* variable) : handle_(dlopen(std::getenv(variable), RTLD_NOW | RTLD_LOCAL)) {}
  ~Plugin() { close(); }
  void close() {
    if (handle_ != nullptr) dlclose(handle_);
    handle_ = nullptr;
  }
  std::uintptr_t exported() const { return reinterpret_cast<std::uintptr_t>(dlsym(handle_, "plugin_calls")) + 1; }
  std::uintptr_t hidden() const {
    return reinterpret_cast<std::uintptr_t>(
               reinterpret_cast<void* (*)()>(dlsym(handle_, "plugin_address_of_hidden"))()) +
           1;
  }
  bool loaded() const { return handle_ != nullptr; }

 private:
  void* handle_;
};

TEST(Symbols, NamesFunctionsThatAreExported) {
  Symbols& symbols = make_symbols();
  Plugin plugin("CALLSITE_PLUGIN");
  ASSERT_TRUE(plugin.loaded());
  const std::uint64_t generation = Symbols::generation();
  EXPECT_EQ(symbols.text(plugin.exported(), generation), "libcallsite_plugin.so!plugin_calls");
  EXPECT_EQ(symbols.text(inside(&std::getenv), generation), "libc.so.6!getenv");
}

TEST(Symbols, NamesFunctionsOfTheFullSymbolTableDemangled) {
  Symbols& symbols = make_symbols();
  EXPECT_EQ(symbols.text(inside(&shown::in_a_namespace), Symbols::generation()),
            "callsite_symbols_test!shown::in_a_namespace(int)");
  Plugin plugin("CALLSITE_PLUGIN");
  EXPECT_EQ(symbols.text(plugin.hidden(), Symbols::generation()), "libcallsite_plugin.so!plugin_hidden");
}

TEST(Symbols, WithoutASymbolGivesTheOffset) {
  Symbols& symbols = make_symbols();
  Plugin plugin("CALLSITE_PLUGIN_STRIPPED");
  ASSERT_TRUE(plugin.loaded());
  const std::uint64_t generation = Symbols::generation();
  EXPECT_EQ(symbols.text(plugin.exported(), generation), "libcallsite_plugin_stripped.so!plugin_calls");
  const std::string text(symbols.text(plugin.hidden(), generation));
  EXPECT_TRUE(text.starts_with("libcallsite_plugin_stripped.so+0x")) << text;
}

TEST(Symbols, AnAddressInNoObjectIsShownAsIs) {
  EXPECT_EQ(make_symbols().text(0x1234, Symbols::generation()), "?+0x1234");
}

TEST(Symbols, AReturnAddressBelongsToTheCallBeforeIt) {
  Symbols& symbols = make_symbols();
  const auto begin = reinterpret_cast<std::uintptr_t>(&shown::in_a_namespace);
  EXPECT_NE(symbols.text(begin, Symbols::generation()), symbols.text(begin + 1, Symbols::generation()));
}

TEST(Symbols, ATextIsKeptAndSharedAndErrnoIsLeftAlone) {
  Symbols& symbols = make_symbols();
  const std::uint64_t generation = Symbols::generation();
  errno = 1234;
  const std::string_view first = symbols.text(inside(&std::getenv), generation);
  EXPECT_EQ(symbols.text(inside(&std::getenv), generation).data(), first.data());
  EXPECT_EQ(symbols.text(inside(&std::getenv) + 1, generation).data(), first.data())
      << "another address, same function";
  (void)symbols.module(0x1234, generation);
  (void)symbols.text(0x1234, generation);
  EXPECT_EQ(errno, 1234);
}

TEST(Symbols, UnloadedObjectsAreForgotten) {
  Symbols& symbols = make_symbols();
  Plugin plugin("CALLSITE_PLUGIN");
  ASSERT_TRUE(plugin.loaded());
  const std::uintptr_t address = plugin.exported();
  const std::uint64_t before = Symbols::generation();
  const std::string_view text = symbols.text(address, before);
  EXPECT_EQ(symbols.module(address, before), "libcallsite_plugin.so");
  plugin.close();
  const std::uint64_t after = Symbols::generation();
  EXPECT_GT(after, before);
  EXPECT_TRUE(symbols.text(address, after).starts_with("?+0x"));
  EXPECT_EQ(symbols.module(address, after), "?");
  EXPECT_EQ(text, "libcallsite_plugin.so!plugin_calls") << "texts handed out stay";
}

TEST(Symbols, NamesModulesWithoutTheirFolder) {
  Symbols& symbols = make_symbols();
  const std::uint64_t generation = Symbols::generation();
  EXPECT_EQ(symbols.module(inside(&shown::in_a_namespace), generation), "callsite_symbols_test");
  EXPECT_EQ(symbols.module(inside(&std::getenv), generation), "libc.so.6");
}

TEST(Symbols, ManyThreadsGetTheSameTexts) {
  Symbols& symbols = make_symbols();
  const std::uint64_t generation = Symbols::generation();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&symbols, generation] {
      for (std::uintptr_t i = 0; i < 2000; ++i) {
        const std::uintptr_t made_up = 0x1000 + i % 500;
        EXPECT_EQ(symbols.module(made_up, generation), "?");
        EXPECT_TRUE(symbols.text(made_up, generation).starts_with("?+0x1"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace graphpool
