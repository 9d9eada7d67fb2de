// small_file.h: reads the beginning of a file of /proc or /sys.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace graphpool {

/// Reads until `bytes` are there, the file ends or a read fails. Returns how many bytes were read; -1: the file cannot
/// be opened. Adds no zero behind them. May change errno. Threads: any; takes no lock and allocates nothing.
ssize_t read_small_file(const char* path, char* text, std::size_t bytes) noexcept;

}  // namespace graphpool
