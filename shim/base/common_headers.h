// common_headers.h: has the headers that most sources of the engine include; they are compiled once. Each source
// includes what it uses all the same, so that it also compiles with -Db_pch=false.
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>
