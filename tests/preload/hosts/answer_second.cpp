// The next library of answer_first.cpp.
extern "C" int answer() { return 41; }
extern "C" int answer_base() { return 41; }
