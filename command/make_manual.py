"""make_manual.py man|bash: prints the man page of graphpool, or its completion for bash: what is installed of graphpool/manual.py."""
import sys

sys.dont_write_bytecode = True

from graphpool import manual  # noqa: E402

sys.stdout.write({'man': manual.man, 'bash': manual.bash}[sys.argv[1]]())
