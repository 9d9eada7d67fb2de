// msgpack_reader.h: msgpack-cxx's visitor parser and nothing else of it. Why a header of its own: the library's headers
// must be configured the same way (no Boost) and silenced at one place.
#pragma once

#ifndef MSGPACK_NO_BOOST
#define MSGPACK_NO_BOOST
#endif

#include <msgpack/null_visitor.hpp>
#include <msgpack/unpack.hpp>
