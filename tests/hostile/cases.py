"""The table of hostile programs: one entry a program, with its arguments and modes."""
import os
import re
import resource
import subprocess

import scenarios

PRELOADED = ('idle', 'profiled', 'run')
LINKED = ('shared', 'static')
USUAL = PRELOADED + LINKED
THREADS = USUAL + ('listen',)  # libkiln has threads of its own besides the collector
EVERY = THREADS + ('heap', 'push')


class Case:
    """A program of this directory.

    arguments     a list of command lines; a text is split at spaces
    modes         where it runs, besides plain
    plugins       sources that are built as shared objects; their paths follow the arguments
    repeat, racy  how often it runs in which modes: races need several runs
    status        the exit status that the plain run must have
    limit         seconds that a run may take (or five times the plain run)
    before        called in the child before the program, to set limits for instance
    check         check(place, result): what else is wrong with a run that went well, or None
    skip          skip(): why it cannot run on this machine, or None
    """

    def __init__(self, name, *arguments, modes=USUAL, plugins=(), plugin_flags=(), flags=(),
                 environment=None, repeat=1, racy=USUAL, status=0, limit=10, before=None, check=None,
                 skip=None):
        self.name, self.source = name, name + '.c'
        self.arguments = [a.split() for a in arguments or ('',)]
        self.modes, self.plugins, self.plugin_flags, self.flags = modes, plugins, plugin_flags, flags
        self.environment, self.repeat, self.racy = environment or {}, repeat, racy
        self.status, self.limit = status, limit
        self.before, self.check, self.skip = before, check, skip


def only_root():
    return None if os.geteuid() == 0 else 'needs root'


def has_samples(place, result):
    """The CPU profile exists and is not empty, in the modes that write one."""
    path = result.profile()
    if not os.path.exists(path):
        if any(mode in result.directory for mode in ('-profiled-', '-run-', '-listen-')):
            return 'no profile was written'
        return None
    text = subprocess.run([place.kiln, 'info', path], capture_output=True, text=True).stdout
    found = re.search(r'samples in count: total ([\d.]+)', text)
    return None if found and float(found[1]) > 0 else 'the profile has no samples'


def cpu_time_is_right(place, result):
    """The profile's sum is the CPU time that the program says it used."""
    if not os.path.exists(result.profile()):
        return 'no profile was written'
    with open(os.path.join(result.directory, 'cpu.used')) as file:
        used = float(file.read())
    found = scenarios.seconds_in(place, result.profile())
    # One period for each of a few threads is chance.
    if abs(found - used) <= 0.03 * used + 0.015:
        return None
    return f'{found:.3f} s in the profile, {used:.3f} s used: {found / used:.2f} times'


def ulimit(kind, soft, hard=None):
    return lambda: resource.setrlimit(kind, (soft, soft if hard is None else hard))


CASES = [
    # --- plugins and the loader's lock ---
    Case('plugin_host', '5', plugins=['plugin_join.c'], modes=EVERY),
    Case('plugin_host', '5', plugins=['plugin_wait.c'], modes=THREADS),
    Case('plugin_host', '5', plugins=['plugin_wait_quietly.c'], modes=THREADS),
    Case('plugin_storm', plugins=['plugin_join.c', 'plugin_wait.c', 'plugin_work.c'], repeat=2),
    Case('fork_in_dlopen', 'fork', '_Fork', 'clone', plugins=['plugin_sleep.c']),
    Case('stuck_constructor', '_exit', 'exit_group', 'fork', 'exec', plugins=['plugin_forever.c'],
         repeat=3, racy=('profiled', 'run'), limit=6),

    # --- SIGPROF belongs to the program, too ---
    Case('vfork_signals', modes=THREADS),
    Case('own_timers', 'before'),
    # The next three not static: libkiln.a stands in for no function of libc. A handler that the
    # program installs later replaces the profiler's for a while and gets its ticks, and so does
    # sigwait in a thread that blocks SIGPROF.
    Case('own_timers', 'after', modes=PRELOADED + ('shared',)),
    Case('sigprof_state', modes=PRELOADED + ('shared',)),
    Case('sigwait_loop', modes=PRELOADED + ('shared', 'listen')),
    Case('blocked_signals'),
    Case('chain_handler', 'sigaction', 'signal', 'bare'),

    # --- ends ---
    Case('main_thread_ends', '0', '1', '3', modes=EVERY),

    # --- seccomp ---
    Case('seccomp_worker', 'cfi prctl', 'cfi seccomp', 'no_cfi prctl', 'no_cfi seccomp',
         'heap prctl', 'heap seccomp', modes=USUAL + ('heap', 'listen'), repeat=2),
    Case('seccomp_process', 'cfi', 'no_cfi', 'heap', modes=USUAL + ('heap',), repeat=2, status=4),
    Case('seccomp_all', *(f'{ms} {action} {sigreturn}' for ms in (0, 1, 5, 50, 300)
                          for action, sigreturn in (('kill', 'sigreturn'),)),
         '1 trap sigreturn', '1 errno sigreturn', '0 kill no_sigreturn', '50 kill no_sigreturn',
         # Not static: libkiln.a stands in for no function of libc and cannot know of the filter.
         modes=PRELOADED + ('shared', 'listen', 'push', 'heap'), repeat=3,
         racy=('profiled', 'run', 'listen'), status=4),
    Case('seccomp_strict', 'thread 0', 'thread 50', 'process 50', status=4),
    Case('seccomp_threads', modes=THREADS + ('heap',)),
    Case('seccomp_probe', 'prctl', 'seccomp', 'tsync', check=has_samples),
    Case('seccomp_vfork', check=has_samples),

    # --- exec ---
    Case('handler_exec', 'exec', 'exit', repeat=2, limit=6),
    Case('exec_alternate_stack', '8192', '16384', '32768'),
    Case('exec_adjacent_stacks', 'execl', 'execlp', 'execle', 'execv', 'vfork'),

    # --- processes ---
    Case('vfork_storm', modes=THREADS),
    Case('bare_clone', modes=THREADS),
    Case('daemon', modes=THREADS),
    Case('lose_rights', 'root', 'user', 'both', modes=THREADS, skip=only_root),
    Case('close_everything', '0', '100', modes=EVERY),

    # --- stacks ---
    Case('small_stacks'),
    Case('coroutines'),
    Case('deep_recursion'),
    Case('handler_jumps', 'fork', 'jump', 'exit_thread', repeat=2),

    # --- limits ---
    Case('keys', 'before', 'after'),
    Case('pending_signals', '1000', '7000', before=ulimit(resource.RLIMIT_SIGPENDING, 0)),
    Case('short_threads', '5000', modes=THREADS),
    Case('many_threads', '2000', '8500'),

    # --- what profiles say ---
    Case('cpu_time', 'sequential 6 0.1', 'overlapping 6 0.1', 'overlapping 32 0.02',
         modes=LINKED, repeat=3, check=cpu_time_is_right),
    Case('quick_exit', check=has_samples, status=6),
]
