// rtc_object.h: the code object that hipRTC returns here: an ELF file with AMD's metadata note, which says how the
// kernels' arguments lie, and a section with the PTX.
//
// PTX says size and alignment of each parameter, not which are pointers: a parameter counts as one when the kernel
// turns it into an address of global memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/code_object.h"

namespace cudahip {

/// The kernels of a PTX text, in its order.
std::vector<hipfront::ObjectEntry> read_ptx(std::string_view ptx);

std::vector<std::byte> make_object(const std::string& ptx);

/// The PTX in a code object made here, ended by a zero byte; null when it is none.
const char* ptx_of(std::span<const std::byte> object);

}  // namespace cudahip
