// What scoped_plugin is linked to.
extern "C" int amd_comgr_do_action(int kind, unsigned long, unsigned long, unsigned long) { return kind + 40; }
