#include "rtc_compile.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "rtc_metadata.h"
#include "rtc_scan.h"

namespace cpuhip {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrelude =
#include "kernel_prelude.inc"
    ;

/// What every source may include although the prelude already says it.
constexpr std::string_view kEmptyHeaders[] = {"hip/hip_runtime.h", "hip/hip_runtime_api.h"};

/// Flags that make the code: no contraction (bits must not depend on the optimizer), nothing unique across copies of an
/// object (a device has its own), nothing bound to symbols of the host program.
const std::vector<std::string> kCodeFlags = {"-O2",
                                             "-fPIC",
                                             "-ffp-contract=off",
                                             "-fno-math-errno",
                                             "-fno-exceptions",
                                             "-fno-rtti",
                                             "-fno-gnu-unique",
                                             "-fno-semantic-interposition",
                                             "-w"};
const std::vector<std::string> kLinkFlags = {"-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-Wl,--as-needed",
                                             "-Wl,--build-id=none"};
/// What HIP's own compiler defines; extern __shared__ stays for the scanner.
const std::vector<std::string> kDefines = {"-D__HIPCC__=1",
                                           "-D__HIPCC_RTC__=1",
                                           "-D__HIP__=1",
                                           "-D__HIP_DEVICE_COMPILE__=1",
                                           "-D__HIP_PLATFORM_AMD__=1",
                                           "-DHIP_DYNAMIC_SHARED(type, variable)=extern __shared__ type variable[];"};

class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string find_compiler() {
  std::vector<std::string> names = {"c++", "g++"};
  if (const std::string chosen = environment("CPUHIP_COMPILER"); !chosen.empty()) names = {chosen};
  for (const std::string& name : names) {
    if (name.find('/') != std::string::npos) return name;
    std::istringstream path(environment("PATH"));
    for (std::string folder; std::getline(path, folder, ':');)
      if (const std::string file = folder + "/" + name; ::access(file.c_str(), X_OK) == 0) return file;
  }
  throw Failure("no C++ compiler: neither c++ nor g++ is in PATH; CPUHIP_COMPILER may name one");
}

/// 128 bits of FNV-1a, twice with different starts: names a cache entry.
class Hash {
 public:
  Hash& add(std::string_view text) {
    for (const char c : text) step(static_cast<unsigned char>(c));
    for (std::size_t rest = text.size(), i = 0; i < sizeof rest; ++i, rest >>= 8)
      step(static_cast<unsigned char>(rest));
    return *this;
  }
  std::string name() const {
    char text[40];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(a_),
                  static_cast<unsigned long long>(b_));
    return text;
  }

 private:
  void step(unsigned char byte) {
    a_ = (a_ ^ byte) * 0x100000001b3u;
    b_ = (b_ ^ byte) * 0x100000001b3u + 1;
  }
  std::uint64_t a_ = 0xcbf29ce484222325u, b_ = 0x9ae16a3b2f90404fu;
};

/// The cache directory, made if need be. Somebody else's directory under our name is not used.
fs::path cache_directory() {
  std::string folder = environment("CPUHIP_CACHE");
  if (folder.empty()) {
    const std::string temporary = environment("TMPDIR");
    folder = (temporary.empty() ? "/tmp" : temporary) + "/cpuhip-" + std::to_string(::geteuid());
  }
  std::error_code error;
  fs::create_directories(fs::path(folder).parent_path(), error);
  struct stat info {};
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw Failure("cannot make the cache directory " + folder + ": " + std::strerror(errno));
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid())
    throw Failure("the cache directory " + folder + " is not a directory of this user; CPUHIP_CACHE may name another");
  return fs::absolute(folder);
}

/// A private directory that goes away.
class BuildDirectory {
 public:
  explicit BuildDirectory(const fs::path& parent) {
    std::string name = (parent / "build.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Failure("cannot make " + name + ": " + std::strerror(errno));
    path_ = name;
  }
  ~BuildDirectory() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  BuildDirectory(const BuildDirectory&) = delete;
  BuildDirectory& operator=(const BuildDirectory&) = delete;
  fs::path file(std::string_view name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write_file(const fs::path& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw Failure("cannot write " + file.string());
}

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Failure("cannot read " + file.string());
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Runs a command in the directory; its output goes to the end of the log. The host's preloads stay with the host.
bool run(const std::vector<std::string>& command, const BuildDirectory& directory, std::string* log) {
  std::vector<char*> arguments, variables;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::string messages_in_english = "LC_ALL=C";
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!text.starts_with("LD_PRELOAD=") && !text.starts_with("LC_ALL=")) variables.push_back(*variable);
  }
  variables.push_back(messages_in_english.data());
  variables.push_back(nullptr);

  const std::string output = directory.file("output.txt").string();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, directory.path().c_str());
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, command[0].c_str(), &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw Failure("cannot start " + command[0] + ": " + std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw Failure("lost the compiler process: " + std::string(std::strerror(errno)));
  *log += read_file(output);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct Options {
  std::vector<std::string> preprocess, compile;
  std::string standard = "-std=gnu++17";
  bool includes_folders = false;
};

Options sort_options(const std::vector<std::string>& given) {
  Options result;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& option = given[i];
    const auto begins = [&option](std::string_view prefix) { return option.starts_with(prefix); };
    const bool takes_next = option == "-D" || option == "-U" || option == "-I" || option == "-include";
    std::string value = takes_next && i + 1 < given.size() ? given[++i] : "";
    if (begins("-I") || option == "-include") {
      if (!takes_next) value = option.substr(2);
      result.includes_folders = true;
      result.preprocess.push_back(begins("-I") ? "-I" : "-include");
      result.preprocess.push_back(fs::absolute(value).string());
    } else if (begins("-D") || begins("-U")) {
      result.preprocess.push_back(option + value);
    } else if (begins("-std=")) {
      // The prelude needs C++17.
      const std::string year = option.substr(option.size() - 2);
      if (year == "20" || year == "2a" || year == "23" || year == "2b") result.standard = option;
    } else if (begins("-O") && option.size() == 3) {
      result.compile.push_back(option);
    }
  }
  return result;
}

/// Puts the pieces of one compilation into the directory and runs it. False when the compiler refused.
bool build(const CompileRequest& request, const Options& options, const std::string& compiler,
           const BuildDirectory& directory, std::string* log) {
  const auto step = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), compiler);
    return run(arguments, directory, log);
  };
  const ScannedSource scanned = scan_source(read_file(directory.file("source.ii")));
  std::ostringstream unit;
  unit << "# 1 \"cpuhip_prelude\"\n" << kPrelude << "\n" << scanned.text << "\n# 1 \"kernels\"\n";
  std::size_t index = 0;
  const auto entry = [&](const std::string& name, const std::string& bound) {
    unit << "CPUHIP_ENTRY(cpuhip_entry_" << index++ << ", " << bound << ", " << name << ")\n";
  };
  for (const ScannedKernel& kernel : scanned.kernels) entry(kernel.name, "(" + kernel.bound + ")");
  unit << "# 1 \"name expressions\"\n";
  for (const std::string& expression : request.expressions) {
    const std::size_t begin = std::min(expression.find_first_not_of("& \t"), expression.size());
    const std::string name = expression.substr(begin);
    const auto bound = scanned.template_bounds.find(name.substr(0, name.find_first_of("< \t")));
    entry(name, bound == scanned.template_bounds.end() ? "0" : bound->second);
  }
  write_file(directory.file("unit.cpp"), unit.str());

  std::vector<std::string> arguments = {options.standard, "-x", "c++"};
  arguments.insert(arguments.end(), kCodeFlags.begin(), kCodeFlags.end());
  arguments.insert(arguments.end(), options.compile.begin(), options.compile.end());
  arguments.insert(arguments.end(), {"-c", "unit.cpp", "-o", "unit.o"});
  if (!step(arguments)) return false;

  write_file(directory.file("notes.s"),
             notes_assembly(read_compiled_object(as_bytes(read_file(directory.file("unit.o"))))));
  arguments = kLinkFlags;
  arguments.insert(arguments.end(), {"unit.o", "notes.s", "-lm", "-o", "kernels.so"});
  return step(arguments);
}

bool preprocess(const CompileRequest& request, const Options& options, const std::string& compiler,
                const BuildDirectory& directory, std::string* log) {
  for (const auto& [name, text] : request.headers) {
    const fs::path file = fs::path("include") / fs::path(name).lexically_normal();
    if (fs::path(name).is_absolute() || file.string().find("..") != std::string::npos)
      throw Failure("header name \"" + name + "\" leaves the program: relative names are allowed");
    fs::create_directories(directory.file(file.parent_path().string()));
    write_file(directory.file(file.string()), text);
  }
  for (const std::string_view name : kEmptyHeaders) {
    const fs::path file = directory.file("empty") / name;
    fs::create_directories(file.parent_path());
    write_file(file, "");
  }
  std::string name;
  for (const char c : request.name) name += c == '"' || c == '\\' || c == '\n' ? '_' : c;
  write_file(directory.file("source.cpp"), "#line 1 \"" + name + "\"\n" + request.source);
  std::vector<std::string> arguments = {compiler, options.standard, "-E", "-Iinclude", "-Iempty"};
  arguments.insert(arguments.end(), kDefines.begin(), kDefines.end());
  arguments.insert(arguments.end(), options.preprocess.begin(), options.preprocess.end());
  arguments.insert(arguments.end(), {"source.cpp", "-o", "source.ii"});
  return run(arguments, directory, log);
}

std::string cache_key(const CompileRequest& request, const Options& options, const std::string& compiler,
                      std::string_view preprocessed) {
  struct stat info {};
  ::stat(compiler.c_str(), &info);
  Hash hash;
  hash.add(kPrelude).add(compiler).add(std::to_string(info.st_size)).add(std::to_string(info.st_mtim.tv_sec));
  for (const auto* list :
       {&kCodeFlags, &kLinkFlags, &kDefines, &options.preprocess, &options.compile, &request.expressions}) {
    hash.add(std::to_string(list->size()));
    for (const std::string& text : *list) hash.add(text);
  }
  for (const auto& [name, text] : request.headers) hash.add(name).add(text);
  return hash.add(options.standard).add(request.name).add(request.source).add(preprocessed).name() + ".so";
}

CompileResult compile_or_throw(const CompileRequest& request) {
  CompileResult result;
  const std::string compiler = find_compiler();
  const Options options = sort_options(request.options);
  const fs::path cache = cache_directory();
  std::optional<BuildDirectory> directory;
  std::string preprocessed;
  if (options.includes_folders) {  // what lies in the folders may have changed
    directory.emplace(cache);
    if (!preprocess(request, options, compiler, *directory, &result.log)) return result;
    preprocessed = read_file(directory->file("source.ii"));
  }
  const fs::path kept = cache / cache_key(request, options, compiler, preprocessed);
  if (!fs::exists(kept)) {
    if (!directory) {
      directory.emplace(cache);
      if (!preprocess(request, options, compiler, *directory, &result.log)) return result;
    }
    if (!build(request, options, compiler, *directory, &result.log)) return result;
    fs::rename(directory->file("kernels.so"), kept);
  }
  const std::string object = read_file(kept);
  const CodeObject code = read_code_object(as_bytes(object));
  if (code.entry_names.size() < request.expressions.size()) throw Failure(kept.string() + " is not what was made");
  result.lowered.assign(code.entry_names.end() - static_cast<std::ptrdiff_t>(request.expressions.size()),
                        code.entry_names.end());
  const auto bytes = as_bytes(object);
  result.object.assign(bytes.begin(), bytes.end());
  result.ok = true;
  return result;
}

}  // namespace

CompileResult compile(const CompileRequest& request) {
  try {
    return compile_or_throw(request);
  } catch (const std::exception& error) {
    CompileResult result;
    result.log = std::string("cpuhip: ") + error.what() + "\n";
    return result;
  }
}

}  // namespace cpuhip
