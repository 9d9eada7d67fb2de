// permit_tokens.h: tokens of make's jobserver (jobserver.h), as the table of permits knows them.
//
// A compilation under a jobserver holds one of its job's tokens beside its permit. The table says which compilation has
// the token that each job has without reading a byte. It keeps the bytes that were read by holders who died, for the
// next who asks.
//
// Threads: everything here is called with the table's lock held. Not here: reading and writing bytes (jobserver.h).
#pragma once

#include <cstdint>
#include <optional>

#include "shim/compile/machine.h"

namespace graphpool {

class PermitSlots;
struct PermitRequest;

inline constexpr std::uint32_t kMostOwedTokens = 64;

/// A jobserver, known by its pipe.
struct TokenServer {
  std::uint64_t device = 0, inode = 0;
  bool operator==(const TokenServer&) const = default;
  [[nodiscard]] bool exists() const noexcept { return inode != 0; }
};

/// How a compilation comes to run under a jobserver.
enum class TokenKind : std::uint8_t {
  kNone,      ///< there is no jobserver, or the compilation went on without a token
  kImplicit,  ///< the one that its job has without reading it
  kByte,      ///< one that was read
  kLent,      ///< the byte of a holder that stands still
};

/// A token that a compilation holds. Plain data: it is in shared memory.
struct SharedToken {
  TokenServer server;
  ProcessName job;
  TokenKind kind;
  std::uint8_t byte;
};

/// Bytes that were read and that nobody holds any more. Plain data: it is in shared memory.
class OwedTokens {
 public:
  /// Keeps a byte. Where there is no room it replaces another, chosen by `number`: bytes that stay belong to servers
  /// that nobody asks for any more.
  void keep(const TokenServer& server, std::uint8_t byte, std::uint64_t number) noexcept;
  /// Keeps the token's byte if it has one, and takes the token from its holder.
  void keep_from(SharedToken& token, std::uint64_t number) noexcept;
  /// Takes a byte of this server. Empty: there is none.
  std::optional<std::uint8_t> take(const TokenServer& server) noexcept;

 private:
  SharedToken tokens_[kMostOwedTokens];  ///< a place of kind kNone is free
};

/// The token by which the request may run. kNone: a byte has to be read first.
TokenKind token_for(const PermitSlots& slots, const PermitRequest& request) noexcept;

}  // namespace graphpool
