// Imports a function that the rows do not know (hip_coverage_test.cpp).
extern "C" int hipFutureLaunch(int number);
extern "C" __attribute__((visibility("default"))) int unknown_importer() { return hipFutureLaunch(1); }
