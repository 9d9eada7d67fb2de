// rtc_main.cpp: cpuhip-cc, the offline compiler: a file of HIP kernels -> the x86-64 code object that an offload bundle
// carries as its entry hipv4-x86_64-unknown-linux-gnu--cpu.
//
//   cpuhip-cc [-D...] [-I...] [-std=...] [--kernel EXPRESSION]... SOURCE -o OBJECT
//
// --kernel instantiates a kernel template that the host side names (others of its kind are found by themselves).
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "rtc_compile.h"

int main(int count, char** words) {
  cpuhip::CompileRequest request;
  std::string output;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool last = i + 1 == count;
    if (word == "-o" && !last) {
      output = words[++i];
    } else if (word == "--kernel" && !last) {
      request.expressions.emplace_back(words[++i]);
    } else if (word.starts_with("-")) {
      request.options.push_back(word);
      if ((word == "-D" || word == "-I" || word == "-U" || word == "-include") && !last)
        request.options.emplace_back(words[++i]);
    } else {
      request.name = word;
    }
  }
  std::ifstream in(request.name, std::ios::binary);
  if (output.empty() || !in) {
    std::fprintf(stderr,
                 "usage: cpuhip-cc [-D...] [-I...] [-std=...] [--kernel EXPRESSION]... SOURCE -o OBJECT\n%s%s\n",
                 in ? "no output named" : "cannot read source ", in ? "" : request.name.c_str());
    return 2;
  }
  request.source.assign(std::istreambuf_iterator<char>(in), {});
  const cpuhip::CompileResult result = cpuhip::compile(request);
  std::fputs(result.log.c_str(), stderr);
  if (!result.ok) return 1;
  std::ofstream out(output, std::ios::binary);
  out.write(reinterpret_cast<const char*>(result.object.data()), static_cast<std::streamsize>(result.object.size()));
  out.close();
  return out ? 0 : 1;
}
