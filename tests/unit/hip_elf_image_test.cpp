// Against libraries made for it: elf_library.cpp (exports, two versions of one function), elf_imports_only.cpp.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "shim/hip/elf_image.h"

namespace graphpool {
namespace {

struct Seen {
  bool found = false, valid = false;
  std::set<std::string> imports, exports;
  std::map<std::string, void*> functions;
  void* exported = nullptr;
  bool holds_export = false;
  std::string path;
};

Seen look_at(std::string_view basename, const char* name = "elf_plain") {
  Seen seen;
  seen.found = for_each_image([&](const ElfImage& image) {
    if (!image.basename().starts_with(basename)) return false;
    seen.valid = image.valid();
    seen.path = image.path();
    image.for_each_symbol([&](std::string_view symbol, bool is_import) {
      (is_import ? seen.imports : seen.exports).insert(std::string(symbol));
    });
    image.for_each_function(
        [&](std::string_view symbol, void* address) { seen.functions[std::string(symbol)] = address; });
    seen.exported = image.find_export(name);
    seen.holds_export = image.contains(seen.exported);
    return true;
  });
  return seen;
}

void* open(const char* variable) { return dlopen(std::getenv(variable), RTLD_NOW | RTLD_LOCAL); }

TEST(ElfImage, exports_are_where_dlsym_finds_them) {
  void* const library = open("ELF_LIBRARY");
  ASSERT_NE(library, nullptr) << dlerror();
  const Seen seen = look_at("libelf_library");
  ASSERT_TRUE(seen.found);
  EXPECT_TRUE(seen.valid);
  EXPECT_EQ(seen.path, std::getenv("ELF_LIBRARY"));
  EXPECT_EQ(seen.exported, dlsym(library, "elf_plain"));
  EXPECT_TRUE(seen.holds_export);
  EXPECT_EQ(seen.exports.count("elf_plain"), 1u);
  EXPECT_EQ(seen.exports.count("elf_hidden"), 0u);
  EXPECT_EQ(seen.imports.count("getppid"), 1u);
  EXPECT_EQ(look_at("libelf_library", "elf_plai").exported, nullptr);
  EXPECT_EQ(look_at("libelf_library", "getppid").exported, nullptr) << "an import is no export";
}

TEST(ElfImage, the_version_is_in_the_objects_own_name) {
  const auto version = [](std::string_view basename) {
    unsigned found = ~0u;
    for_each_image([&](const ElfImage& image) {
      if (!image.basename().starts_with(basename)) return false;
      found = image.version();
      return true;
    });
    return found;
  };
  ASSERT_NE(open("ELF_LIBRARY"), nullptr) << dlerror();
  EXPECT_EQ(version("libelf_library"), 0u);
  EXPECT_EQ(version("libc.so"), 6u);
}

TEST(ElfImage, an_import_names_the_library_its_version_is_of) {
  ASSERT_NE(open("ELF_LIBRARY"), nullptr);
  bool seen = false;
  for_each_image([&](const ElfImage& image) {
    if (!image.basename().starts_with("libelf_library")) return false;
    std::string_view file = "something";
    EXPECT_TRUE(image.imports("getppid", file));
    EXPECT_EQ(file, "libc.so.6");
    EXPECT_FALSE(image.imports("elf_plain", file)) << "its own";
    EXPECT_FALSE(image.imports("getppi", file));
    return seen = true;
  });
  EXPECT_TRUE(seen);
}

TEST(ElfImage, functions_are_those_of_the_default_version) {
  void* const library = open("ELF_LIBRARY");
  ASSERT_NE(library, nullptr) << dlerror();
  const Seen seen = look_at("libelf_library");
  ASSERT_EQ(seen.functions.count("elf_versioned"), 1u);
  EXPECT_EQ(seen.functions.at("elf_versioned"), dlsym(library, "elf_versioned"));
  EXPECT_NE(seen.functions.at("elf_versioned"), dlvsym(library, "elf_versioned", "ELF_1"));
  EXPECT_EQ(seen.functions.count("elf_data"), 0u) << "data is no function";
}

TEST(ElfImage, imports_of_an_object_without_exports_are_seen) {
  ASSERT_NE(open("ELF_IMPORTS_ONLY"), nullptr) << dlerror();
  const Seen seen = look_at("libelf_imports_only");
  ASSERT_TRUE(seen.found);
  EXPECT_EQ(seen.imports.count("getppid"), 1u) << "called";
  EXPECT_EQ(seen.imports.count("getpgrp"), 1u) << "address taken";
  EXPECT_EQ(seen.functions.size(), 0u);
}

TEST(ElfImage, the_c_library_is_read) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer puts its own functions before the C library's";
#endif
  const Seen seen = look_at("libc.so.", "qsort");
  ASSERT_TRUE(seen.found);
  EXPECT_EQ(seen.exported, dlsym(RTLD_DEFAULT, "qsort"));
}

TEST(ElfImage, every_loaded_object_can_be_walked) {
  std::size_t images = 0;
  for_each_image([&images](const ElfImage& image) {
    ++images;
    image.for_each_symbol([](std::string_view name, bool) { EXPECT_FALSE(name.empty()); });
    return false;
  });
  EXPECT_GT(images, 2u);
}

TEST(ElfImage, loading_an_object_changes_the_epoch) {
  const std::uint64_t before = loaded_objects_epoch();
  EXPECT_EQ(loaded_objects_epoch(), before);
  void* const library = open("ELF_UNUSED");
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_NE(loaded_objects_epoch(), before);
  dlclose(library);
}

}  // namespace
}  // namespace graphpool
