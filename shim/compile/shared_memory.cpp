#include "shim/compile/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>

namespace graphpool {
namespace {

constexpr std::size_t kBytes = sizeof(SharedPermits);

SharedPermits* map_file(int file) noexcept {
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<SharedPermits*>(memory);
}

/// A regular file of the right size; of a user scope, this user's alone.
bool trusted(int file, Scope scope) noexcept {
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (static_cast<std::size_t>(status.st_size) != kBytes) return false;
  return scope == Scope::kNode || (status.st_uid == geteuid() && (status.st_mode & 077) == 0);
}

SharedPermits* open_existing(const char* path, Scope scope) noexcept {
  const int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return nullptr;
  SharedPermits* memory = trusted(file, scope) ? map_file(file) : nullptr;
  close(file);
  if (memory != nullptr && __atomic_load_n(&memory->ready, __ATOMIC_ACQUIRE) != kReady) {
    munmap(memory, kBytes);
    memory = nullptr;
  }
  return memory;
}

/// Gives a file all its memory. If the file system were full at a write to a file without, that would kill the process;
/// so would a file that is longer than the process's own limit allows.
bool reserve(int file) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < kBytes) return false;
  int error = 0;
  do error = posix_fallocate(file, 0, static_cast<off_t>(kBytes));
  while (error == EINTR);
  return error == 0;
}

/// The number of this boot, for the name of a table: on a disk a table could outlive the processes that hold its
/// permits.
void boot_number(char (&text)[9]) noexcept {
  const ssize_t got = machine().read_file("/proc/sys/kernel/random/boot_id", text, sizeof text - 1);
  text[got > 0 ? got : 0] = '\0';
}

void make(const char* path, Scope scope) noexcept {
  char draft[PATH_MAX];
  const int length = std::snprintf(draft, sizeof draft, "%s.%d.XXXXXX", path, getpid());
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof draft) return;
  const int file = mkostemp(draft, O_CLOEXEC);
  if (file < 0) return;
  if (fchmod(file, scope == Scope::kNode ? 0666 : 0600) == 0 && reserve(file)) {
    if (SharedPermits* const memory = map_file(file)) {
      make_permits(*memory, true);
      munmap(memory, kBytes);
      static_cast<void>(link(draft, path));  // another process's came first: that one is opened
    }
  }
  close(file);
  unlink(draft);
}

SharedPermits* private_memory() noexcept {
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, kBytes, MADV_WIPEONFORK);
  make_permits(*static_cast<SharedPermits*>(memory), false);
  return static_cast<SharedPermits*>(memory);
}

/// The folder of the session, if it is this user's and nobody else can write to it.
const char* runtime_folder() noexcept {
  const char* const folder = std::getenv("XDG_RUNTIME_DIR");
  struct stat status {};
  return folder != nullptr && folder[0] == '/' && stat(folder, &status) == 0 && S_ISDIR(status.st_mode) &&
                 status.st_uid == geteuid() && (status.st_mode & 022) == 0
             ? folder
             : nullptr;
}

/// Writes the path of the scope's table. The layout is in the name: versions with different layouts do not share.
bool path_of(Scope scope, const char* folder, char (&path)[PATH_MAX]) noexcept {
  if (folder == nullptr && scope == Scope::kUser) folder = runtime_folder();
  if (folder == nullptr) folder = "/dev/shm";
  char boot[9];
  boot_number(boot);
  const int length =
      scope == Scope::kUser
          ? std::snprintf(path, sizeof path, "%s/libgraphpool-permits-%x-%zx-%s-user-%u", folder, kReady, kBytes, boot,
                          geteuid())
          : std::snprintf(path, sizeof path, "%s/libgraphpool-permits-%x-%zx-%s-node", folder, kReady, kBytes, boot);
  return length >= 0 && static_cast<std::size_t>(length) < sizeof path;
}

}  // namespace

SharedPermits* open_permits(Scope scope, const char* folder) noexcept {
  if (scope == Scope::kProcess) return private_memory();
  char path[PATH_MAX];
  if (!path_of(scope, folder, path)) return nullptr;
  if (SharedPermits* const memory = open_existing(path, scope)) return memory;
  make(path, scope);
  return open_existing(path, scope);
}

SharedPermits* find_permits(Scope scope, const char* folder) noexcept {
  char path[PATH_MAX];
  return scope != Scope::kProcess && path_of(scope, folder, path) ? open_existing(path, scope) : nullptr;
}

void close_permits(SharedPermits* memory) noexcept {
  if (memory != nullptr) munmap(memory, kBytes);
}

}  // namespace graphpool
