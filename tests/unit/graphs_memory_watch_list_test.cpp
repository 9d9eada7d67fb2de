// Who is asked before memory is freed.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "shim/graphs/memory_watch_list.h"

namespace graphpool {
namespace {

struct Named : Watched {
  explicit Named(int which) : number(which) {}
  const int number;
};
using List = MemoryWatchList<Named>;

class MemoryWatchListTest : public testing::Test {
 protected:
  MemoryWatchListTest() {
    for (int i = 0; i < 3; ++i) {
      entries_.push_back(std::make_shared<Named>(i));
      list_.add(entries_.back());
    }
  }
  Named& entry(int which) { return *entries_[static_cast<std::size_t>(which)]; }
  std::vector<int> asked(std::uintptr_t address) {
    std::vector<int> numbers;
    for (const auto& each : list_.that_may_name(reinterpret_cast<const void*>(address), 1))
      numbers.push_back(each->number);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }
  using Numbers = std::vector<int>;

  List list_;
  std::vector<std::shared_ptr<Named>> entries_;
};

TEST_F(MemoryWatchListTest, those_that_are_watched_are_asked_of_any_memory) {
  EXPECT_EQ((Numbers{0, 1, 2}), asked(0x5000));
  EXPECT_TRUE(list_.watches(entry(1)));
}

TEST_F(MemoryWatchListTest, the_index_finds_an_entry_by_its_pages_only) {
  list_.find_by(entry(1), {5});
  EXPECT_FALSE(list_.watches(entry(1)));
  EXPECT_EQ((Numbers{0, 1, 2}), asked(0x5fff));
  EXPECT_EQ((Numbers{0, 2}), asked(0x6000));
}

TEST_F(MemoryWatchListTest, an_entry_to_which_no_free_matters_is_not_asked) {
  list_.ignore(entry(0));
  EXPECT_EQ((Numbers{1, 2}), asked(0x5000));
  EXPECT_EQ(3u, list_.that_may_name(nullptr, 0).size()) << "but where it is not known how much is freed";
}

TEST_F(MemoryWatchListTest, an_indexed_entry_that_is_ignored_is_in_the_index_no_more) {
  list_.find_by(entry(2), {5});
  list_.ignore(entry(2));
  EXPECT_EQ((Numbers{0, 1}), asked(0x5000));
}

TEST_F(MemoryWatchListTest, a_new_binding_is_watched_again) {
  list_.find_by(entry(0), {5});
  list_.ignore(entry(1));
  list_.watch(entry(0));
  list_.watch(entry(1));
  list_.watch(entry(2));
  EXPECT_EQ((Numbers{0, 1, 2}), asked(0x9000));
}

TEST_F(MemoryWatchListTest, what_was_removed_is_nowhere) {
  list_.find_by(entry(0), {5});
  EXPECT_EQ(entries_[0], list_.remove(entry(0)));
  EXPECT_FALSE(list_.has(entry(0)));
  EXPECT_EQ((Numbers{1, 2}), asked(0x5000));
  list_.ignore(entry(1));
  list_.remove(entry(2));
  EXPECT_EQ((Numbers{}), asked(0x5000));
  EXPECT_TRUE(list_.has(entry(1)));
}

}  // namespace
}  // namespace graphpool
