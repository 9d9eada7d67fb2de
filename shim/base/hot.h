// hot.h: marks the functions that calls made again and again pass through.
#pragma once

/// Before a function's definition or first declaration: the compiler puts it among the functions of this mark, and it
/// begins with a cache line. So how its code lies in cache lines depends on itself alone: else a few bytes more
/// in any file may make launches slower.
#define HOT [[gnu::hot, gnu::aligned(64)]]
