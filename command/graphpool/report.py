"""report.py: graphpool report PATH...: one report as a table, several side by side, as a page, or as JSON."""
import json
import os
import sys

from . import page, reports, tables
from .options import Command, Option, UsageError


def run(words):
    if not words.rest:
        raise UsageError('which report? Name files, or a folder of them')
    if words.html and words.json:
        raise UsageError('--html and --json: only one of them at a time')
    found = reports.find(words.rest)
    if words.html:
        try:
            with open(words.html, 'w', encoding='utf-8') as file:
                file.write(page.page(found))
        except OSError as why:
            sys.stderr.write('graphpool: {}: {}\n'.format(words.html, why.strerror))
            return 1
        sys.stderr.write('graphpool: wrote {}\n'.format(os.path.abspath(words.html)))
        return 0
    if words.json:
        print(json.dumps([dict(report.data, path=report.path) for report in found], indent=1))
        return 0
    lines = tables.one(found[0]) if len(found) == 1 else tables.many(found)
    print('\n'.join(lines))
    return 0


COMMAND = Command(
    'report', 'PATH... [--html FILE] [--json]', 'shows reports: one as a table, those of several ranks side by side', run,
    [Option('--html', 'FILE', 'write one self-contained page instead'),
     Option('--json', None, 'print the reports as one JSON list')],
    details="""
    PATH: a report, or a folder of them. In the table of several, what differs much from most others is marked with "!".""",
    examples=[('graphpool report graphpool-reports', 'all processes of all runs in the folder'),
              ('graphpool report job*.json --html job.html', 'a page to look at and to send')])
