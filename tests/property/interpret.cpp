// interpret: runs random programs and writes what they saw. Plain HIP; natively and under the library it must write the
// same.
//
//   interpret --programs FIRST COUNT [--features NAME,...]
//   interpret --replay FILE [--features NAME,...]
//
// To stdout: for each program a line `program SEED`, its steps with their results, and `done`. FILE holds steps as they
// are written there (what follows => is not looked at), and may hold several programs.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "generator.h"
#include "kernels.h"
#include "machine.h"

namespace {

using namespace property;

int usage(const char* why) {
  std::fprintf(stderr, "%s\nusage: interpret --programs FIRST COUNT | --replay FILE [--features NAME,...]\n", why);
  return 2;
}

/// Written as it comes: a program that ends its process is read as far as it got.
struct Transcript {
  std::string text;
  void flush() {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    text.clear();
  }
};

void begin(Transcript& transcript, std::uint64_t seed) {
  transcript.text += "program " + std::to_string(seed) + '\n';
  transcript.flush();
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 0, count = 0;
  std::string replay;
  Features features;
  bool step_by_step = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--programs" && i + 2 < argc) {
      first = std::strtoull(argv[++i], nullptr, 10);
      count = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--replay" && i + 1 < argc) {
      replay = argv[++i];
    } else if (option == "--step-by-step") {
      step_by_step = true;
    } else if (option == "--features" && i + 1 < argc) {
      std::istringstream names(argv[++i]);
      for (std::string name; std::getline(names, name, ',');)
        if (!name.empty() && !features.set(name)) return usage("unknown feature");
    } else {
      return usage("unknown option");
    }
  }
  const Kernels kernels;
  Threads threads;
  Transcript transcript;
  const auto run = [&](Machine& machine, const Step& step) {
    if (step_by_step) {
      std::fprintf(stderr, "%s\n", text_of(step).c_str());
      std::fflush(stderr);
    }
    machine.run(step);
    if (step_by_step) transcript.flush();
  };
  if (features.weighed) weigh_captures();
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    begin(transcript, seed);
    Machine machine(kernels, features, threads, &transcript.text);
    Generator generator(seed, machine);
    for (Step step; generator.next(&step);) run(machine, step);
    machine.finish();
    transcript.text += "done\n";
    transcript.flush();
  }
  if (replay.empty()) return 0;
  std::ifstream file(replay);
  if (!file) return usage("cannot read the file");
  std::unique_ptr<Machine> machine;
  const auto finish = [&] {
    if (machine == nullptr) return;
    machine->finish();
    machine.reset();
    transcript.text += "done\n";
    transcript.flush();
  };
  for (std::string line; std::getline(file, line);) {
    Step step;
    if (line.rfind("program ", 0) == 0) {
      finish();
      begin(transcript, std::strtoull(line.c_str() + 8, nullptr, 10));
      machine = std::make_unique<Machine>(kernels, features, threads, &transcript.text);
    } else if (machine != nullptr && parse(line.substr(0, line.find(" =>")), &step) && machine->allowed(step)) {
      run(*machine, step);
    }
  }
  finish();
  return 0;
}
