"""The command `graphpool`. Python 3.6 or newer, and nothing but its standard library."""
