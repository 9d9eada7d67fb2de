// msgpack_reader.h: includes msgpack-cxx's visitor parser and nothing else of it. Why a header of its own: the headers
// of msgpack-cxx must always be configured in the same way (no Boost).
#pragma once

#ifndef MSGPACK_NO_BOOST
#define MSGPACK_NO_BOOST
#endif

#include <msgpack/null_visitor.hpp>
#include <msgpack/unpack.hpp>
