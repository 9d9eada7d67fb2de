// Names for threads, one of them as long as the kernel reads and without an end. No HIP.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>

int main() {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(static_cast<char*>(pages) + page, page, PROT_NONE) != 0) return 1;
  constexpr std::size_t kRead = 15;
  char* const name = static_cast<char*>(pages) + page - kRead;
  std::memset(name, 'x', kRead);
  const auto rename = [name](const char* who) {
    char now[16] = "";
    const int named = prctl(PR_SET_NAME, name), asked = prctl(PR_GET_NAME, now);
    std::printf("%s: %d, %d, %s\n", who, named, asked, now);
  };
  rename("main");
  std::thread(rename, "thread").join();
}
