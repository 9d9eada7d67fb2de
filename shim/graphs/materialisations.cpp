#include "shim/graphs/materialisations.h"

namespace graphpool {

bool Materialisations::count_known(const Materialisation& made) noexcept {
  for (Materialisation& known : counted_)
    if (known.same(made)) {
      ++known.count;
      return true;
    }
  return false;
}

void Materialisations::count(const Materialisation& made) {
  if (count_known(made)) return;
  Materialisation added = made;
  if (counted_.size() >= kMost) {
    added = {};
    added.reason = made.reason;
    if (count_known(added)) return;
  }
  counted_.push_back(added);
}

}  // namespace graphpool
