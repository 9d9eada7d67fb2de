// version.cpp: what hipRuntimeGetVersion answers by default; compiled once for each SONAME.
extern "C" {
extern const int cudahip_default_version;
const int cudahip_default_version = CUDAHIP_DEFAULT_VERSION;
}
