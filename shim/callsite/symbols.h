// symbols.h: names return addresses: "module!function", or "module+0xoffset" where no symbol is known.
//
// module: the file's name without its folder; function: demangled, from the file's .dynsym, then its .symtab. An
// address in no object is "?+0xaddress". Names are looked up for the byte before the address: a call may be a
// function's last instruction. Cost: a known address a few ns, without a lock; a new one reads the object's symbol
// tables (up to milliseconds for very large objects; nothing of them is kept). Threads: everything from any thread;
// texts are added under kCallSites; dl* and files are only touched outside it. Unloading: what was known of an address
// is forgotten when any object has been unloaded since (generation()). Bounded: kMaxTexts distinct texts, past that
// "?"; kMaxAddresses addresses, past that each new one is looked up at every question. Texts are good for ever. Never
// destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

#include "shim/base/lock_rank.h"
#include "shim/base/pointer_table.h"

namespace graphpool {

class Symbols {
 public:
  static constexpr std::size_t kMaxTexts = std::size_t{1} << 16;
  static constexpr std::size_t kMaxAddresses = std::size_t{1} << 18;
  /// Longer names (of C++ templates) are cut here.
  static constexpr std::size_t kMaxTextBytes = 4096;

  constexpr Symbols() = default;

  /// Counts the objects unloaded so far. Takes the loader's lock for a moment.
  static std::uint64_t generation() noexcept;

  std::string_view text(std::uintptr_t return_address, std::uint64_t generation) noexcept;

  /// The part of text() that names the module; "?" for an address in no object. Cheaper for a new address than text():
  /// reads no symbol table.
  std::string_view module(std::uintptr_t return_address, std::uint64_t generation) noexcept;

 private:
  std::string_view keep(PointerTable* table, std::uintptr_t address, std::uint64_t generation,
                        std::string_view text) noexcept;

  RankedMutex<LockRank::kCallSites> mutex_;
  PointerTable texts_, modules_;                                        ///< by address: text, its length, generation
  std::unordered_set<std::string>* kept_ GUARDED_BY(mutex_) = nullptr;  ///< made at first use
};

}  // namespace graphpool
