"""if_device.py SCRIPT [ARGUMENT...]: runs a Python script where there is an NVIDIA device; else says so and ends with 77."""
import os
import sys

if not os.path.exists('/dev/nvidiactl'):
    print('no NVIDIA device on this machine')
    sys.exit(77)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
