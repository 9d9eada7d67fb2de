"""manual.py: the man page and bash's completion, both made of the tables of options that --help is made of."""
from . import main, places

MAN_HEAD = """\
.TH GRAPHPOOL 1 "" "graphpool {version}" "User Commands"
.nh
.SH NAME
graphpool \\- {summary}
.SH SYNOPSIS
.B graphpool
.I COMMAND
[\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]
"""
MAN_END = """\
.SH "EXIT STATUS"
That of the command; \\fBrun\\fR ends as the program does. 2: the words make no sense. 125: graphpool cannot do it. 126: the program
cannot be run. 127: it is not there.
"""

BASH = """\
# Completion of graphpool for bash, made from the tables that its --help is made of.
_graphpool() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} name=${{COMP_WORDS[1]}} first=2 words i
  if ((COMP_CWORD == 1)); then
    name='' first=1
  elif [[ $name == policy ]] && ((COMP_CWORD > 2)); then
    name+=" ${{COMP_WORDS[2]}}" first=3
  fi
  case $name in
{cases}
    *) words='' ;;
  esac
  COMPREPLY=()
  for ((i = first; i < COMP_CWORD; ++i)); do
    [[ ${{COMP_WORDS[i]}} == -- ]] || continue
    ((i + 1 < COMP_CWORD)) || mapfile -t COMPREPLY < <(compgen -c -- "$word")
    return
  done
  if [[ $word == -* || -z $name || $name == policy ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  fi
}}
complete -o bashdefault -o default -F _graphpool graphpool
"""


def roff(text):
    """Text that roff shows as it is."""
    text = text.replace('\\', '\\e').replace('-', '\\-')
    return '\n'.join('\\&' + line if line.startswith(('.', '\'')) else line for line in text.split('\n'))


def paragraphs(details):
    return [roff(' '.join(paragraph.split())) for paragraph in details.strip().split('\n\n') if paragraph.strip()]


def man_of(command):
    lines = ['.SS "graphpool {} {}"'.format(roff(command.name), roff(command.usage)), roff(command.summary[:1].upper() +
                                                                                          command.summary[1:] + '.')]
    for paragraph in paragraphs(command.details):
        lines += ['.PP', paragraph]
    for option in command.options:
        lines += ['.TP', '\\fB{}\\fR{}'.format(roff(option.name), ' \\fI{}\\fR'.format(option.value) if option.value else ''),
                  roff(option.text)]
    return lines + examples_of(command.examples)


def examples_of(examples):
    lines = []
    for line, what in examples:
        lines += ['.TP', '\\fB{}\\fR'.format(roff(line)), roff(what)]
    return lines


def man():
    lines = [MAN_HEAD.format(version=places.version(), summary=main.SUMMARY) + '.SH COMMANDS']
    for command in main.COMMANDS:
        lines += man_of(command)
    lines += ['.SH EXAMPLES'] + examples_of(main.EXAMPLES)
    return '\n'.join(lines) + '\n' + MAN_END


def completed(name, words):
    return "    '{}') words='{}' ;;".format(name, ' '.join(words))


def bash():
    names = [command.name for command in main.COMMANDS]
    cases = [completed('', [name for name in names if ' ' not in name] + ['--help', '--version'])]
    for command in main.COMMANDS:
        after = [name.split()[1] for name in names if name.startswith(command.name + ' ')]
        cases.append(completed(command.name, after + [option.name for option in command.options]))
    return BASH.format(cases='\n'.join(cases))
