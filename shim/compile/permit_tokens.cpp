#include "shim/compile/permit_tokens.h"

#include "shim/compile/permit_slots.h"

namespace graphpool {

void OwedTokens::keep(const TokenServer& server, std::uint8_t byte, std::uint64_t number) noexcept {
  SharedToken* place = &tokens_[number % kMostOwedTokens];
  for (SharedToken& token : tokens_)
    if (token.kind == TokenKind::kNone) place = &token;
  *place = {server, {}, TokenKind::kByte, byte};
}

void OwedTokens::keep_from(SharedToken& token, std::uint64_t number) noexcept {
  if (token.kind == TokenKind::kByte) keep(token.server, token.byte, number);
  token = {};
}

std::optional<std::uint8_t> OwedTokens::take(const TokenServer& server) noexcept {
  for (SharedToken& token : tokens_) {
    if (token.kind != TokenKind::kByte || !(token.server == server)) continue;
    const std::uint8_t byte = token.byte;
    token = {};
    return byte;
  }
  return std::nullopt;
}

TokenKind token_for(const PermitSlots& slots, const PermitRequest& request) noexcept {
  std::uint32_t bytes_of_lenders = 0, lent = 0;
  bool first_of_job = true;
  slots.for_each_held([&](std::uint32_t, const SharedPermit& slot) {
    if (!(slot.token.server == request.server)) return;
    const bool lends = slot.state == HolderState::kLent;
    if (slot.token.kind == TokenKind::kImplicit && !lends && slot.token.job == request.job) first_of_job = false;
    if (slot.token.kind == TokenKind::kByte && lends) ++bytes_of_lenders;
    if (slot.token.kind == TokenKind::kLent) ++lent;
  });
  if (request.byte.has_value()) return TokenKind::kByte;
  if (first_of_job) return TokenKind::kImplicit;
  return lent < bytes_of_lenders ? TokenKind::kLent : TokenKind::kNone;
}

}  // namespace graphpool
