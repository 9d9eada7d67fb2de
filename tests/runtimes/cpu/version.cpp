// version.cpp: what hipRuntimeGetVersion answers by default; compiled once for each SONAME.
extern "C" {
extern const int cpuhip_default_version;
const int cpuhip_default_version = CPUHIP_DEFAULT_VERSION;
}
