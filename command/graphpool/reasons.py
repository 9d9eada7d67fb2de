"""reasons.py: what each reason in a report means, and what to do about it, in plain words.

Keys are the reasons as the library says them; tests/command/reasons_test.py walks the library's sources and fails where one has
no text here, or where a text is of a reason that is gone. A reason that is the name of a HIP function has a text of its own
kind: the program called it, and only the runtime can answer.
"""
import collections
import re

Reason = collections.namedtuple('Reason', 'means advice')

NOTHING = 'Nothing to do.'
SHAPES = 'The library serves captures that repeat. Capture once per shape, or pad to few shapes.'
BEFORE = 'Do it once before the first capture, not between captures.'
OWN_STREAM = 'Capture on a stream made by hipStreamCreate.'
ONE_THREAD = 'Let one thread at a time issue work into a stream that is captured.'
TELL_US = 'This should not happen. Please report it with the report and the output of graphpool selftest.'
USUAL_CALLS = 'Use the call without flags or parameters where they are not needed.'
ONLY_LAUNCH = 'Only launch and update such an exec where that is enough.'
NOT_SEEN = ('Some library calls HIP without the dynamic linker seeing it, or a hip* function is newer than this library. '
            'Run with GRAPHPOOL_LOG_LEVEL=warn: a line names it. If it touches no stream: graph.unknown = "trust".')
MORE_RECORDINGS = 'Raise graph.recordings and graph.recording_memory if these graphs come back.'
LIFETIME = 'Keep memory, modules and streams alive while graphs that name them are captured or used.'
OTHER_RULES = 'Leave the buffers of this graph out of staging rules, or change what stands in the way.'

TEXTS = {
    # Why captures were made real.
    'an operation differs from every recording': Reason(
        'The capture began like an earlier one, then did something else.', SHAPES),
    'an event record differs from every recording': Reason(
        'The capture began like an earlier one, then recorded an event where the earlier one did not.', SHAPES),
    'an event of another open capture is recorded': Reason(
        'The capture recorded an event that another capture, still open, had recorded before.',
        'Give captures that are open at the same time events of their own.'),
    'the end of a stream differs from every recording': Reason(
        'The capture began like an earlier one, then a stream of it was destroyed where none was before.', SHAPES),
    'a change of dependencies differs from every recording': Reason(
        'The capture began like an earlier one, then its dependencies were set in another way.', SHAPES),
    'a change of dependencies that the runtime took otherwise': Reason(
        'The program changed dependencies in the capture, and the runtime made other edges than the library expected.', TELL_US),
    'the runtime refused a change of dependencies': Reason(
        'The runtime refused a change of dependencies in the capture.', 'Look at the error that the call returned.'),
    'asked for the graph of a capture by a stream that had left it': Reason(
        'The program asked for the graph of a capture through a stream that is no part of it any more.',
        'Ask through the stream that the capture began on.'),
    'a node that cannot be compared was added to a capture': Reason(
        'The program added a node to the graph of the open capture that the library cannot compare.',
        'Add host nodes only, as RCCL does, or capture the work on a stream.'),
    'the program used the graph of an open capture': Reason(
        'The program made a call on the graph of the open capture, or on a node of it, that the library does not follow.',
        'Capture the work on a stream, or look at the graph when the capture has ended.'),
    'no handle for the graph of a capture': Reason('There was no host memory for a handle.', "Look at the host's memory."),
    'no handle for a node of a capture': Reason('There was no host memory for a handle.', "Look at the host's memory."),
    'a stream wait differs from every recording': Reason(
        'The capture began like an earlier one, then a stream waited where none did before.', SHAPES),
    'the capture ended before its recording': Reason(
        'The capture was the beginning of an earlier one, and ended sooner.', SHAPES),
    'an operation that cannot be compared': Reason(
        'The capture has an operation whose arguments the library cannot read or compare, such as a launch with events.',
        'Leave such operations out of the capture, or replace them by plain kernels and copies.'),
    'an operation that the library does not follow': Reason(
        'The capture has a call that the library only hands on.', 'Leave such calls out of the capture.'),
    'two threads feed one stream of the capture at the same time': Reason(
        'Two threads issued work into one stream of a capture at the same time.', ONE_THREAD),
    'more threads feed the capture than have a number': Reason('Very many threads issued work into one capture.', ONE_THREAD),
    'a capture of more streams than have a number': Reason('The capture has very many streams.', 'Use fewer streams in a capture.'),
    'captured on a null stream, or on a thread\'s own': Reason(
        'The capture was on the null stream or a per-thread stream.', OWN_STREAM),
    'captured on a stream whose device the runtime does not tell': Reason(
        'The runtime does not say which device the stream is of.', OWN_STREAM),
    'ended on another stream': Reason(
        'The capture was ended on another stream than it began on.', 'End a capture on the stream where it began.'),
    'a stream of the capture began another': Reason(
        'A stream of an open capture began a second capture.', 'End a capture before the next one begins on its streams.'),
    'a stream of the capture was destroyed': Reason('A stream was destroyed while its capture was open.', LIFETIME),
    'a stream joined the invalidated capture': Reason(
        'The capture was invalid already when a stream joined it.', 'Look for the first call in the capture that failed.'),
    'memory was freed': Reason('Memory that a graph or an open capture names was freed.', LIFETIME),
    'memory was unmapped': Reason('Memory that a graph or an open capture names was unmapped.', LIFETIME),
    'memory of another process was closed': Reason('Memory of another process that a graph names was closed.', LIFETIME),
    'host memory was unregistered': Reason('Host memory that a graph names was unregistered.', LIFETIME),
    'memory of the capture becomes another kind': Reason(
        'Memory that a capture names was registered, exported or mapped otherwise while it was open.', BEFORE),
    'a device was reset': Reason('The program reset a device: everything made for it is gone.', NOTHING),
    'a module was unloaded': Reason('A module whose kernels a graph has was unloaded.', LIFETIME),
    'a module was unloaded during the capture': Reason('A module was unloaded while a capture with its kernels was open.', LIFETIME),
    'a setting was changed': Reason(
        'A setting of the device was changed (limits, caches, shared memory, peer access), so earlier captures may mean something '
        'else.', BEFORE),
    'settings were changed': Reason('Settings of the device were changed, so earlier captures may mean something else.', BEFORE),
    'an attribute of its function was set': Reason('An attribute of a kernel in the capture was set.', BEFORE),
    'a graph launch was captured': Reason(
        'A graph was launched into the capture.', 'Launch graphs outside of captures, or add them as child graphs.'),
    'hipMallocAsync was captured': Reason('The capture allocates memory.', 'Allocate before the capture.'),
    'hipMallocFromPoolAsync was captured': Reason('The capture allocates memory.', 'Allocate before the capture.'),
    'hipFreeAsync was captured': Reason('The capture frees memory.', 'Free after the capture.'),
    'hipStreamWaitEvent with flags': Reason('A stream waited with flags in the capture.', USUAL_CALLS),
    'hipStreamWaitEvent_spt with flags': Reason('A stream waited with flags in the capture.', USUAL_CALLS),
    'captured into': Reason('The program captured into this graph a second time.', 'Capture each graph in one go.'),
    'captured into a graph of the program\'s': Reason(
        'The capture went into a graph that the program had made before.', 'Let hipStreamEndCapture make the graph.'),
    # Why a capture or a graph has no recording.
    'captures that begin here seldom come back': Reason(
        'Captures from this place are seldom equal to an earlier one, so they are left alone for a while.', SHAPES),
    'comparing captures that begin here costs more than it saves': Reason(
        'These captures are so small that comparing them was measured to cost more than capturing. They are left alone.',
        'Nothing to do; graph.weigh = false compares them all the same.'),
    'the library does not see every call of this process': Reason(
        'Some HIP calls reach the runtime past the library, so it cannot know what captures hold.', NOT_SEEN),
    'operations reached the capture past the library': Reason(
        'The runtime had operations in a capture that the library never saw.', NOT_SEEN),
    'the graph has nodes that nobody issued through the library': Reason(
        'The captured graph has nodes that the library never saw.', NOT_SEEN),
    'a node\'s type differs from the recorded operation': Reason(
        'The runtime made another kind of node of an operation than expected.', TELL_US),
    'a node\'s parameters differ from the recorded operation': Reason(
        'The runtime made a node with other parameters than the program gave.', TELL_US),
    'a node\'s dependencies differ from the recorded ones': Reason(
        'The runtime put a node behind others than expected.', TELL_US),
    'two operations share a node': Reason('The runtime named one node for two operations.', TELL_US),
    'an operation whose node the runtime does not tell': Reason('The runtime does not say which node it made.', TELL_US),
    'an operation failed': Reason(
        'A call in the capture failed.', 'Look at the error that the call returned; it fails without the library, too.'),
    'an event record failed': Reason('An event record in the capture failed.', 'Look at the error that it returned.'),
    'a stream wait failed': Reason('A stream wait in the capture failed.', 'Look at the error that it returned.'),
    "no event of the library's own": Reason(
        'The library could not record an event of its own, by which streams come behind each other in a capture.', TELL_US),
    'a wait for an event that stands for nodes of an earlier capture': Reason(
        'A stream waits for an event that was recorded before anything else in this capture. Before HIP 7 such an event still stands '
        'for what it was recorded behind in an earlier capture, and HIP refuses what comes behind that.',
        'Use one event to fork and another to join, or make them anew for each capture.'),
    'the runtime did not let a stream join the capture': Reason(
        'A stream joined the capture, and the runtime, which was told later, refused.', TELL_US),
    'a withheld operation failed when it was issued': Reason(
        'An operation that was held back failed when it was given to the runtime after all.', TELL_US),
    'the runtime invalidated the capture': Reason(
        'The runtime invalidated the capture.', 'Look for a call that is not allowed while capturing, such as hipMalloc.'),
    'the runtime invalidated a stream of the capture': Reason(
        'The runtime invalidated a stream of the capture.', 'Look for a call that is not allowed while capturing.'),
    'the runtime did not take a dependency': Reason('The runtime refused to order an operation behind another.', TELL_US),
    'the runtime runs a captured kernel at once': Reason(
        'This runtime does not capture such launches but runs them at once (HIP 5.2).', 'Use HIP 5.3 or newer.'),
    'a host stub launched on a stream of another device than the current one': Reason(
        'A kernel was launched on a stream of another device than the current one.', 'Call hipSetDevice before launching.'),
    'a thread ended whose own stream took part in the capture': Reason(
        'A thread ended while its per-thread stream was part of a capture.', OWN_STREAM),
    'a copy of a graph that is real': Reason('The program cloned a graph that the runtime had to make.', NOTHING),
    'created with flags': Reason('The graph was created with flags.', USUAL_CALLS),
    'used as a child graph': Reason('The graph was used as a child of another one.', NOTHING),
    # Graphs that are built node by node.
    'edges differ from every recording': Reason('The graph began like an earlier one, then has other edges.', SHAPES),
    'the runtime refused an edge': Reason('The runtime refused an edge of the graph.', 'Look at the error that the call returned.'),
    'a node differs from every recording': Reason('The graph began like an earlier one, then has another node.', SHAPES),
    'a node that cannot be compared': Reason('The graph has a node that the library cannot compare.', 'Use kernel, copy and fill nodes.'),
    'a node was added after its first use': Reason(
        'A node was added to a graph that had been used.', 'Build a graph before its first use.'),
    'a node whose dependencies only the runtime can judge': Reason(
        'A node depends on nodes that are not of this graph, or twice on one.', 'Name each dependency once, from the same graph.'),
    'a node was set to what it never was': Reason('A node was set to other parameters than any recording has.', SHAPES),
    'it was used before its recording ended': Reason(
        'The graph was used while an equal earlier one had more nodes.', SHAPES),
    'its nodes are named by another graph': Reason('Nodes of one graph were named when another one was built.', 'Name nodes of the same graph.'),
    'no handle left': Reason('There was no host memory for a handle.', 'Look at the host\'s memory.'),
    'the runtime refused to set a node': Reason('The runtime refused new parameters of a node.', 'Look at the error that the call returned.'),
    # Execs and updates that are left to the runtime.
    'instantiated': Reason('The graph was instantiated in a way that needs the real graph.', NOTHING),
    'instantiated in a way of its own': Reason('The graph was instantiated in a way that needs the real graph.', USUAL_CALLS),
    'instantiated with flags or parameters of its own': Reason('The graph was instantiated with flags or parameters.', USUAL_CALLS),
    'a graph that the program has changed was instantiated': Reason(
        'The program changed the graph before it instantiated it.', 'Instantiate a graph as it was captured, where that is enough.'),
    'a graph that is not known was instantiated': Reason(
        'The graph has no recording: its capture was left to the runtime. The reasons under "left alone" say why.', NOTHING),
    'an update of an exec that is not known': Reason('The exec updated is the runtime\'s own, so the update is, too.', NOTHING),
    'an update by a graph that is not known': Reason(
        'The exec was updated by a graph without a recording. The reasons under "left alone" say why it has none.', NOTHING),
    'an update by a graph that the program has changed': Reason('The program changed the graph before the update.', ONLY_LAUNCH),
    'an update by a graph of another recording, for the first time': Reason(
        'The exec was updated by a graph of another shape, so the program\'s own update was made.', NOTHING),
    'updates by graphs with other child graphs': Reason('The exec was updated by a graph with other child graphs.', NOTHING),
    'an update of an exec that the program has reached otherwise': Reason(
        'The program had changed the exec by other calls before.', ONLY_LAUNCH),
    'an update that must stay with its exec, or could not be served': Reason(
        'The update had to be made in the exec that it was asked for.', NOTHING),
    "an update on another device than the graph's or the exec's": Reason(
        'The runtime may refuse an update by nodes of another device than the current one.',
        'Make the device of graph and exec current before the update.'),
    'an update that sets a fill of several rows': Reason('The runtime updates fills of several rows only in part.', NOTHING),
    'an update that tells nothing of its result': Reason('The update was asked for without a place for its result.', USUAL_CALLS),
    'an update that the runtime refused': Reason(
        'The runtime refused the update, as it would without the library.', 'Instantiate again where an update is refused.'),
    'an exec is updated by it': Reason('An exec that is the runtime\'s own was updated by the graph.', NOTHING),
    'an exec\'s node is named by it': Reason('A node of the graph names a node of an exec that is the runtime\'s own.', NOTHING),
    'a node was set to what only the runtime can judge': Reason(
        'A node of an exec was set to parameters that the library cannot judge.', NOTHING),
    'a staged exec could not be made without staging': Reason(
        'A staged graph could not be given an exec of its own.', 'Look at the device\'s memory; lower graph.slots.'),
    'no exec of its own could be made': Reason('The runtime could not make an exec.', 'Look at the device\'s memory.'),
    'verified': Reason('Verification compared this graph with the real one.', NOTHING),
    # Recordings that are not kept.
    'others were used later, and there were too many': Reason('There were more graphs than are kept.', MORE_RECORDINGS),
    'too many recordings': Reason('There were more graphs than are kept.', MORE_RECORDINGS),
    'a module with a kernel of it was unloaded': Reason(
        'A module whose kernels the graph has was unloaded.',
        'Nothing to do if that was at the end of the program; else keep modules loaded while their graphs are used.'),
    'other reasons': Reason('There were more different reasons than are told apart.', NOTHING),
    # Why a graph is not staged where a rule says that it should be.
    'it has host operations': Reason('The graph calls functions on the host, which may look at the buffers.', OTHER_RULES),
    "it has dependencies of the program's own": Reason(
        'The program, or RCCL in it, set dependencies of the capture itself.', OTHER_RULES),
    'it has child graphs': Reason('The graph has child graphs.', OTHER_RULES),
    'it waits for an event from outside of it': Reason('The graph waits for work outside of it.', OTHER_RULES),
    'it works on several devices': Reason('The graph works on several devices.', OTHER_RULES),
    'it has kernels of a communication library': Reason('Other devices and processes reach the graph\'s buffers.', OTHER_RULES),
    'memory that it names can be reached by other processes': Reason('Other processes reach the graph\'s buffers.', OTHER_RULES),
    'its buffers have other sizes or overlaps, or a structure argument may name one': Reason(
        'The buffers changed their size or overlap, or an argument may hide an address.', OTHER_RULES),
    'buffers of it are of another device': Reason('Buffers of the graph are on another device.', OTHER_RULES),
    'other rules have all its slots': Reason(
        'The graph was used over buffers of more than four choices of rules.', 'Use fewer different rules for one graph.'),
    'there were no slots': Reason('There was no memory for slots.', 'Lower graph.slots, or the sizes that staging rules name.'),
    'verification has found a difference, or it cannot be built': Reason(
        'The library did not trust itself with this graph any more.', TELL_US),
}

ASKED = Reason('The program called {name}, which needs the real graph, node or exec.',
               'Leave the call out where it is not needed.')
DIFFERS = {
    'kind': 'another kind of operation', 'device': 'another device', 'thread': 'another thread', 'stream': 'another stream', 'function': 'another kernel',
    'arguments': 'arguments of another size', 'way of launching': 'another way of launching',
    'block or shared memory': 'another block size or shared memory', 'grid': 'another grid',
    'nodes or flags': 'other nodes or flags', 'recording': 'another child graph', 'event': 'another event', 'copy kind, element or empty size': 'another kind of copy',
    'memory of an operand': 'memory of another kind or device'}


def explain(reason):
    """What a reason means and what to do; a plain sentence where the library is newer than this command."""
    if reason in TEXTS:
        return TEXTS[reason]
    name = re.match(r'(hip\w+)', reason)
    if name:
        return Reason(ASKED.means.format(name=name.group(1)), ASKED.advice)
    return Reason('The library says: {}.'.format(reason), 'This command does not know the reason; is it older than the library?')
