"""Every reason that the library can give has its text in `graphpool explain`, and no text is of a reason that is gone.

Reasons are literals: arguments of the functions in SINKS, and what is assigned to the names in PLACES. The sources are walked, for
there is no other list of them."""
import re

import support
from graphpool import reasons

SINKS = ('note_refused', 'expose', 'expose_capture', 'expose_node', 'read', 'read_nodes', 'make_real', 'make_real_with',
         'make_all_real', 'make_real_before', 'take_bare', 'materialise_open_captures', 'materialise_captures_naming',
         'materialise_captures_with', 'reject', 'end_comparing_with', 'end_walks', 'end_builds', 'memory_goes', 'memory_leaves',
         'module_leaves', 'note_not_staged', 'leave_tree', 'before_module_is_unloaded', 'count', 'drop', 'leave', 'read_all')
PLACES = r'(?:\breason|kReason|not_staged|kUsedAsChild|kUnknown\w+|kTouched\w+|kUpdate\w+|kOtherChild\w+|kFunctionSet|kSeldom\w+|kComparingCosts|kOthers|kSharedMemory|kCommunicates|kOpenGraphUsed|kNeverWas)'
RETURNS = r'return ("(?:it (?:has|waits|works)|an update )[^"]*")'  # why_not_staged(), why an update is the runtime's
DIFFERENCE = r'^ *(?:static |inline )?const char\* (?:\w+::)?(?:signature_|operand_)?difference\([^{;]*\{(.*?\})$'
FOLDERS = ('shim', 'hooks')
LITERAL = re.compile(r'"((?:[^"\\]|\\.)+)"')


def inside_brackets(text, start):
    """The text from behind an opening bracket to the one that closes it."""
    depth, at = 1, start
    while depth and at < len(text):
        if text[at] == '"':
            at = LITERAL.match(text, at).end() if LITERAL.match(text, at) else at + 2
            continue
        depth += (text[at] == '(') - (text[at] == ')')
        at += 1
    return text[start:at]


def reasons_in(text):
    text = re.sub(r'//[^\n]*', '', text)
    text = re.sub(r'"\s*\n\s*"', '', text)
    parts = [inside_brackets(text, found.end()) for found in re.finditer(r'\b(?:%s)\s*\(' % '|'.join(SINKS), text)]
    parts += re.findall(PLACES + r'\s*=[^=;][^;]*;', text) + re.findall(RETURNS, text)
    return {literal for part in parts for literal in LITERAL.findall(part)}


def all_reasons():
    found = {}
    for folder in FOLDERS:
        for path in sorted((support.TOP / folder).rglob('*')):
            if path.suffix in ('.cpp', '.h'):
                for reason in reasons_in(path.read_text()):
                    found.setdefault(reason, path.relative_to(support.TOP))
    return {reason: path for reason, path in found.items()
            if (' ' in reason or reason.startswith('hip') or reason in reasons.TEXTS) and '%' not in reason}


def differences():
    """What of an operation differed, as materialisation.cpp says it of all kinds, and each kind's class of its own."""
    found = set()
    for path in sorted((support.TOP / 'shim/recording').iterdir()):
        if path.suffix in ('.cpp', '.h'):
            for body in re.findall(DIFFERENCE, path.read_text(), re.DOTALL | re.MULTILINE):
                found |= {literal for line in body.splitlines() if 'return' in line for literal in LITERAL.findall(line)}
    return found


class Reasons(support.CommandTest):
    def test_the_walk_finds_them(self):
        found = all_reasons()
        self.assertGreater(len(found), 90)
        for reason in ('an operation differs from every recording', 'memory was freed', 'too many recordings', 'hipGraphGetNodes',
                       'a graph that is not known was instantiated', 'it has host operations', 'created with flags',
                       'captures that begin here seldom come back', 'memory that it names can be reached by other processes'):
            self.assertIn(reason, found)

    def test_every_reason_has_a_text(self):
        for reason, path in sorted(all_reasons().items()):
            if not re.match(r'hip\w+$', reason):
                self.assertTrue(reason in reasons.TEXTS, '{} gives {!r}: add its text to command/graphpool/reasons.py'.format(path, reason))

    def test_no_text_is_of_a_reason_that_is_gone(self):
        found = all_reasons()
        for reason in reasons.TEXTS:
            self.assertTrue(reason in found, 'command/graphpool/reasons.py has a text for {!r}, which nobody gives'.format(reason))

    def test_every_difference_has_words(self):
        found = differences()
        self.assertGreater(len(found), 8)
        self.assertEqual(set(reasons.DIFFERS), found)

    def test_texts_are_sentences(self):
        for reason, (means, advice) in reasons.TEXTS.items():
            for text in (means, advice):
                self.assertTrue(text[0].isupper() and text.rstrip().endswith('.'), '{}: {}'.format(reason, text))

    def test_functions_and_unknown_reasons(self):
        self.assertIn('called hipGraphGetNodes, which needs', reasons.explain('hipGraphGetNodes').means)
        self.assertIn('The library says: something new.', reasons.explain('something new').means)


if __name__ == '__main__':
    support.main()
