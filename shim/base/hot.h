// hot.h: marks the functions that frequent calls go through.
#pragma once

/// Before a function's definition or first declaration: the compiler puts it among the functions of this mark, and it
/// begins with a cache line. So its place in cache lines depends on its own code alone. Else a few bytes more in any
/// file may make launches slower.
#define HOT [[gnu::hot, gnu::aligned(64)]]
