// A program without HIP. Prints what of the process a preloaded library could change.
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

extern "C" int chained_answer();
extern "C" int answer_base();

namespace {

int entries_of(const char* folder) {
  int count = 0;
  DIR* const all = opendir(folder);
  while (readdir(all) != nullptr) ++count;
  closedir(all);
  return count;
}

/// The files mapped into the process, by name.
std::set<std::string> mapped_files() {
  std::set<std::string> files;
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  char line[4096];
  while (std::fgets(line, sizeof line, maps) != nullptr)
    if (const char* slash = std::strrchr(line, '/')) files.insert(slash + 1);
  std::fclose(maps);
  return files;
}

}  // namespace

int main() {
  errno = 33;
  void* const math = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  auto* const cosine = reinterpret_cast<double (*)(double)>(dlsym(math, "cos"));
  std::printf("cos(0) = %g\n", cosine(0));
  std::printf("dlvsym %d\n", dlvsym(math, "cos", "GLIBC_2.2.5") == reinterpret_cast<void*>(cosine));
  std::printf("dlvsym of no version %d\n", dlvsym(math, "cos", "GLIBC_0.1") == nullptr);
  std::printf("error %s\n", dlerror());
  std::printf("error again %d\n", dlerror() != nullptr);
  std::printf("default %d\n", dlsym(RTLD_DEFAULT, "malloc") != nullptr);
  std::printf("next %d\n", dlsym(RTLD_NEXT, "malloc") == dlsym(RTLD_DEFAULT, "malloc"));
  std::printf("next of a library: %d after %d\n", chained_answer(), answer_base());
  std::printf("unknown %d\n", dlsym(RTLD_DEFAULT, "no_such_function") == nullptr);
  const char* const error = dlerror();
  std::printf("error %s\n", error == nullptr ? "none" : std::strchr(error, ':'));
  std::printf("HIP in the process: %d\n", dlsym(RTLD_DEFAULT, "hipMalloc") != nullptr);
  std::printf("and next: %d\n", dlsym(RTLD_NEXT, "hipMalloc") != nullptr);
  std::printf("and in the program: %d\n", dlsym(dlopen(nullptr, RTLD_NOW), "hipMalloc") != nullptr);
  std::printf("with an error: %d\n", dlerror() != nullptr);
  std::printf("errno %d\n", errno);
  std::printf("descriptors %d, threads %d\n", entries_of("/proc/self/fd"), entries_of("/proc/self/task"));
  for (const std::string& file : mapped_files()) std::printf("maps %s", file.c_str());
  return 3;
}
