"""listed.py: reading the list of what is run on a GPU."""
import json
import pathlib


def read(path):
    """gpu.json, in a build folder or in one made by pack.py."""
    return json.loads(pathlib.Path(path).read_text())


def policies(listed):
    """[(name, environment)]."""
    found = []
    words = iter(listed['policies'])
    for word in words:
        if word == '--policy':
            found.append((next(words), {}))
        else:
            key, value = word.split('=', 1)
            found[-1][1][key] = value
    return found
