"""The table of hostile programs: one entry a program, with its arguments and modes."""
import ctypes
import os
import re
import resource
import signal
import struct
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
    always        modes that are in the slice of `make test` besides the one whose turn it is: a defect showed there alone, or
                  they are what the program is about
    status        the exit status that the plain run must have
    limit         seconds that a run may take (or five times the plain run)
    before        called in the child before the program, to set limits for instance
    check         check(place, result): what else is wrong with a run that went well, or None
    skip          skip(): why it cannot run on this machine, or None
    """

    def __init__(self, name, *arguments, modes=USUAL, plugins=(), plugin_flags=(), flags=(),
                 environment=None, repeat=1, racy=('profiled', 'run'), always=(), status=0, limit=10, before=None, check=None,
                 skip=None):
        self.name, self.source = name, name + '.c'
        self.arguments = [a.split() for a in arguments or ('',)]
        self.modes, self.plugins, self.plugin_flags, self.flags = modes, plugins, plugin_flags, flags
        self.environment, self.repeat, self.racy, self.always = environment or {}, repeat, racy, always
        self.status, self.limit = status, limit
        self.before, self.check, self.skip = before, check, skip


def become_somebody(pending=None, locked=None):
    """Limits that count what a user has need a user that has nothing else."""
    def before():
        if pending is not None:
            resource.setrlimit(resource.RLIMIT_SIGPENDING, (pending, pending))
        if locked is not None:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (locked, locked))
        os.setgroups([])
        os.setgid(65534)
        os.setuid(100000 + os.getpid())
    return before


def lacks(*flags):
    """Sanitizers' runtimes are packages of their own."""
    def skip():
        done = subprocess.run(['cc', *flags, '-x', 'c', '-', '-o', '/dev/null'], input=b'int main(void) { return 0; }',
                              stderr=subprocess.DEVNULL)
        return f'cc cannot link with {" ".join(flags)}' if done.returncode else None
    return skip


def lacks_io_uring():
    setup, parameters = 425, ctypes.create_string_buffer(120)
    fd = ctypes.CDLL(None, use_errno=True).syscall(setup, 1, parameters)
    if fd < 0:
        return f'io_uring_setup: {os.strerror(ctypes.get_errno())}'
    os.close(fd)
    return None


def lacks_userfaultfd():
    number = {'x86_64': 323}.get(os.uname().machine, 282)
    fd = ctypes.CDLL(None, use_errno=True).syscall(number, os.O_CLOEXEC)
    if fd < 0:
        return f'userfaultfd: {os.strerror(ctypes.get_errno())}'
    os.close(fd)
    return None


def lacks_perf():
    attributes = ctypes.create_string_buffer(128)
    struct.pack_into('IIQQ', attributes, 0, 1, 128, 1, 10000000)  # software, task clock
    attributes[40] = 0x61  # disabled, exclude_kernel, exclude_hv
    fd = ctypes.CDLL(None, use_errno=True).syscall({'x86_64': 298}.get(os.uname().machine, 241), attributes, 0, -1, -1, 0)
    if fd < 0:
        return f'perf_event_open: {os.strerror(ctypes.get_errno())}'
    os.close(fd)
    return None


def lacks_fanotify():
    fd = ctypes.CDLL(None, use_errno=True).fanotify_init(0, 0)
    if fd < 0:
        return f'fanotify_init: {os.strerror(ctypes.get_errno())}'
    os.close(fd)
    return None


def lacks_pid_namespaces():
    new_pid_namespace = 0x20000000

    def unshare():
        if ctypes.CDLL(None).unshare(new_pid_namespace):
            raise PermissionError
    try:
        subprocess.run(['true'], preexec_fn=unshare)
    except subprocess.SubprocessError:
        return 'cannot create a pid namespace'
    return None


def only_root():
    return None if os.geteuid() == 0 else 'needs root'


def only_on(machine):
    return lambda: None if os.uname().machine == machine else f'needs {machine}'


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


def knows_renamed_thread(place, result):
    """Samples have the name that a thread of the program gave itself."""
    text = subprocess.run([place.kiln, 'tags', result.profile()], capture_output=True, text=True).stdout
    return None if ': renamed\n' in text else f'no thread is called "renamed": {text[:300]}'


def finds_short_threads(place, result):
    """Most CPU time of own_mutexes.c's threads has stacks."""
    found = scenarios.seconds_in(place, result.profile(), 'work')
    missed = scenarios.seconds_in(place, result.profile(), '[threads starting and ending]')
    return None if found > 0 and missed < 0.75 * found else f'{found:.2f} s of threads have stacks, {missed:.2f} s do not'


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


def data_is_empty(place, result):
    """Nobody but the program writes to what it opened."""
    with open(os.path.join(result.directory, 'data')) as file:
        text = file.read()
    return f'the file has {text!r}' if text else None


def ulimit(kind, soft, hard=None):
    return lambda: resource.setrlimit(kind, (soft, soft if hard is None else hard))


CASES = [
    # --- plugins and the loader's lock ---
    Case('plugin_host', '5', plugins=['plugin_join.c'], modes=EVERY),
    Case('plugin_host', '5', plugins=['plugin_wait.c'], modes=THREADS),
    Case('plugin_host', '5', plugins=['plugin_wait_quietly.c'], modes=THREADS),
    Case('plugin_storm', plugins=['plugin_join.c', 'plugin_wait.c', 'plugin_work.c'], repeat=2),
    Case('fork_in_dlopen', 'fork', '_Fork', 'clone', plugins=['plugin_sleep.c'],
         modes=PRELOADED + ('shared',)),
    Case('stuck_constructor', '_exit', 'exit_group', 'fork', 'exec', plugins=['plugin_forever.c'],
         repeat=3, racy=('profiled', 'run'), limit=6),

    # --- SIGPROF belongs to the program, too ---
    Case('vfork_signals'),
    Case('own_timers', 'before', 'after'),
    # The next two not static: libkiln.a stands in for sigaction and signal, but not for masks and exec.
    Case('sigprof_state', modes=PRELOADED + ('shared',)),
    Case('signal_tasks', 'syscall', 'tgkill', modes=EVERY),
    Case('sigwait_loop', modes=PRELOADED + ('shared', 'listen')),
    Case('sigprof_default', 'sigaction none', 'signal none', 'signal handler', 'syscall none', repeat=3, racy=('static',), always=('static',), status=4),
    Case('sigprof_default', 'sigaction raise', 'signal timer', status=-signal.SIGPROF),
    Case('blocked_signals'),
    Case('sigprof_interrupts', 'before', 'after'),
    Case('sigprof_without_main', modes=THREADS, status=3),
    Case('sigprof_blocked', 'alone', 'all', 'part', modes=PRELOADED + ('shared',)),
    Case('chain_handler', 'sigaction', 'signal', 'bare'),
    # The rest not static, for the same reason.
    Case('old_signal', 'bsd', 'sysv', 'sigset', modes=PRELOADED + ('shared',)),
    Case('old_masks', 'hold', 'masks', 'pause', 'pause_by_mask', modes=PRELOADED + ('shared',)),
    Case('old_masks', 'default', modes=PRELOADED + ('shared',), status=-signal.SIGPROF),
    Case('racing_actions', 'other', 'prof', modes=PRELOADED + ('shared',)),
    Case('jumped_mask', 'jump early', 'jump late', 'context early', 'handler late', modes=PRELOADED + ('shared',)),
    Case('resumed_sleep', modes=PRELOADED + ('shared',), always=('profiled',)),
    Case('signal_descriptor', '', 'handler', modes=PRELOADED + ('shared',)),
    Case('sigprof_leaves', 'jump', 'context', 'masks', modes=PRELOADED + ('shared',), repeat=2),
    Case('sigprof_suspended', *(f'{call} {order} {target}' for call in ('sigsuspend', 'pselect', 'ppoll', 'epoll_pwait')
                                for order, target in (('early', 'thread'), ('late', 'thread'), ('late', 'process'))),
         modes=PRELOADED + ('shared',)),
    Case('sigprof_waited', 'sigwait', 'sigwaitinfo', 'sigtimedwait', 'signalfd', modes=PRELOADED + ('shared',)),
    Case('sigprof_arguments', modes=PRELOADED + ('shared',)),
    Case('sigprof_pending', '', 'inherited', modes=PRELOADED + ('shared',)),
    Case('sigprof_corners', 'start', 'attribute', 'restore', 'queue', 'exec', modes=PRELOADED + ('shared',)),
    Case('sigprof_inherited', 'plain', 'handler', 'jump', modes=PRELOADED + ('shared',)),
    Case('ignored_in_children', modes=PRELOADED + ('shared',)),

    # --- ends ---
    Case('main_thread_ends', '0', '3', modes=THREADS + ('heap',)),
    Case('main_thread_ends', '1', modes=EVERY, always=('push',)),
    # pthread_exit loads libgcc_s, which must be there in time.
    Case('main_ends_alone', 'descriptors', 'signals', 'confined', 'denied', modes=EVERY, flags=['-Wl,--no-as-needed', '-lgcc_s']),
    Case('main_ends_alone', 'stopped', modes=LINKED, always=('static',)),
    Case('main_ends_alone', 'chroot', modes=EVERY, flags=['-Wl,--no-as-needed', '-lgcc_s'], skip=only_root),
    Case('foreign_proc', modes=LINKED, limit=40, skip=lacks_pid_namespaces),
    Case('kernel_worker', modes=THREADS + ('heap',), skip=lacks_io_uring),
    Case('ends', 'return', status=11),
    Case('ends', '_exit', modes=THREADS, status=12),
    Case('ends', '_Exit', status=12),
    Case('ends', 'exit_group', status=12),
    Case('ends', 'exit_in_thread', modes=THREADS, status=13),
    Case('ends', '_exit_in_handler', status=14),
    Case('ends', 'thread_at_exit', status=11),
    Case('ends', 'abort', status=-signal.SIGABRT),
    Case('ends', 'kill', status=-signal.SIGKILL),
    Case('ends', 'term', status=-signal.SIGTERM),
    Case('ends', 'segv', status=-signal.SIGSEGV),
    Case('ends', 'prof', status=-signal.SIGPROF),

    Case('exit_in_malloc', modes=USUAL + ('heap',), repeat=5, always=('heap',), status=7),
    Case('quiet_ends', 'file_size', modes=EVERY, status=6),
    Case('quiet_ends', 'chroot', modes=EVERY, status=6, skip=only_root),
    Case('quiet_ends', 'data', modes=EVERY, status=6, skip=only_root, check=data_is_empty),

    # --- seccomp ---
    Case('seccomp_worker', 'cfi prctl', 'no_cfi seccomp', 'heap prctl', 'no_cfi syscall', repeat=2,
         modes=USUAL + ('heap', 'listen')),
    Case('seccomp_main_ended', 'cfi prctl', 'heap prctl', 'cfi tsync', modes=USUAL + ('heap', 'listen'), status=4),
    Case('seccomp_denies', 'prlimit64 all', 'rt_sigpending all', 'timer_gettime all', 'getdents64 one', 'mremap all', 'rename all',
         modes=USUAL + ('heap', 'listen'), status=4),
    Case('seccomp_denies', 'unlinkat all', modes=USUAL + ('listen',), always=('listen',), status=4),
    Case('seccomp_denies', 'faccessat all', modes=USUAL + ('push',), always=('push',), status=4),
    Case('seccomp_denies', 'clone3 all', modes=USUAL + ('listen', 'heap'), always=('profiled',), status=4),
    Case('seccomp_denies', 'perf_event_open all', 'ioctl all', modes=('profiled', 'listen'), environment={'KILN_CLOCK': 'perf'},
         skip=lacks_perf, status=4),
    Case('seccomp_process', 'cfi', 'no_cfi', 'heap', modes=USUAL + ('heap',), status=4),
    # Not static: libkiln.a stands in for no function of libc and cannot know of the filter.
    Case('seccomp_all', '0 kill sigreturn', '1 kill sigreturn', '5 kill sigreturn', '50 kill sigreturn',
         '50 kill no_sigreturn', modes=('profiled', 'run', 'shared', 'listen', 'heap'), repeat=2,
         racy=('profiled', 'run', 'listen'), status=4),
    Case('seccomp_all', '300 kill sigreturn', '1 trap sigreturn', '1 errno sigreturn',
         '0 kill no_sigreturn', modes=('profiled', 'run'), status=4),
    Case('seccomp_all', '20 kill sigreturn', modes=('idle', 'push'), status=4),
    Case('killed_thread', 'strict', status=-9),
    Case('killed_thread', 'filter', status=-31),
    Case('seccomp_strict', 'thread 50', 'process 0', 'process 50', 'syscall 50', status=4),
    Case('seccomp_threads', modes=THREADS + ('heap',)),
    Case('seccomp_c11_thread', '_exit', 'return', status=4),
    Case('seccomp_probe', 'prctl', 'seccomp', 'tsync', check=has_samples),
    Case('seccomp_vfork', check=has_samples),
    Case('seccomp_interposed', 'sigaltstack', 'sigaction', 'sigmask', 'fork', 'vfork', 'exec', 'execveat', 'spawn',
         'thread', 'prctl', 'dlopen', modes=PRELOADED + ('shared', 'heap'), status=4),
    Case('seccomp_setuid', modes=THREADS + ('heap', 'push'), always=('shared',), status=4),

    Case('seccomp_names', modes=('profiled', 'run'), check=knows_renamed_thread),
    Case('seccomp_errno', 'prctl', 'tsync', modes=THREADS + ('heap',), status=4),
    Case('seccomp_stacked', 'futex', 'sigreturn', 'all', modes=PRELOADED + ('shared', 'listen'), status=4),
    Case('seccomp_stop', '3', '30', '100', modes=LINKED, repeat=3, racy=LINKED, status=4),
    Case('user_dispatch', skip=only_on('x86_64')),
    Case('seccomp_child', 'fork', '_Fork', 'clone', 'vfork', modes=THREADS + ('heap',)),

    # --- exec ---
    Case('handler_exec', 'exec', 'exit', repeat=2, limit=6),
    Case('exec_alternate_stack', '8192', '16384', '32768'),
    Case('exec_adjacent_stacks', 'execl', 'execlp', 'execle', 'execv', 'vfork'),

    Case('exec_by_descriptor', 'fexecve', 'empty', 'below', 'path', modes=PRELOADED + ('shared',), status=4,
         check=has_samples),
    Case('spawn_keeps_lock', modes=PRELOADED + ('shared',), always=('profiled',)),
    Case('exec_too_large', always=('run',)),
    Case('bad_pointers'),
    Case('bad_masks', modes=EVERY),

    # --- processes ---
    Case('vfork_storm'),
    Case('vfork_jump', 'one', 'nested', modes=PRELOADED + ('shared',), check=has_samples),
    Case('many_plugins', 'load', 'churn', plugins=['plugin_empty.c'], modes=('profiled', 'shared', 'static'), limit=60),
    Case('fork_in_fork', 'before', 'parent', 'child', modes=THREADS + ('heap',)),
    Case('fork_after_threads', always=('profiled',)),
    Case('fork_storm', plugins=['plugin_empty.c'], modes=THREADS),
    Case('failing_exec', check=has_samples),
    Case('no_environment', 'clearenv', 'null'),
    Case('traced_child'),
    Case('traces_itself', 'ptrace', 'syscall', modes=THREADS + ('heap',), check=has_samples),
    Case('prctl_arguments'),
    Case('bare_clone', modes=THREADS),
    Case('foreign_thread_pointer', 'none', 'first_page', 'last_page', 'alike', skip=only_on('x86_64')),
    Case('own_allocator'),
    Case('own_functions', modes=THREADS + ('heap',), always=('profiled', 'shared'), flags=['-rdynamic']),
    Case('own_thread_start', modes=EVERY),
    Case('loader_error', modes=EVERY),
    Case('signal_actions'),
    Case('hidden_headers', 'unmap', 'protect'),
    Case('no_vdso', 'before', 'after', always=('shared',)),
    Case('own_clock'),
    Case('daemon'),
    Case('lose_rights', 'user', 'both', modes=THREADS, skip=only_root),
    Case('lowest_descriptor', modes=THREADS + ('heap',), always=('listen',)),
    Case('close_everything', '0', '50', modes=THREADS + ('heap',), always=('listen',)),

    # --- stacks ---
    Case('small_stacks'),
    # Not static: libkiln.a stands in for no function of libc.
    Case('small_alternate_stack', 'before', 'after', modes=PRELOADED + ('shared',), check=has_samples),
    Case('small_alternate_stack', 'alone', modes=LINKED),
    # Resolving a symbol at its first call takes up to 4 KiB of the stack, by the size of the CPU's registers.
    Case('small_stack_jumps', 'mask', 'no_mask', flags=['-Wl,-z,now'], modes=PRELOADED + ('shared',)),
    Case('on_stack_handlers', 'empty late', 'full late', 'empty early', 'full early', always=('static',)),
    Case('coroutines'),
    Case('preempted_coroutines', 'prof', 'real'),
    Case('preempted_coroutines', 'prof on_stack', 'real on_stack', modes=PRELOADED + ('shared',)),
    Case('tiny_coroutines', '2048', '4096', '2048 handler', '2048 refused'),
    Case('split_stack', flags=['-fsplit-stack'], skip=only_on('x86_64')),
    Case('no_stack', 'null', 'data', skip=only_on('x86_64')),
    Case('alternate_stack_state', modes=PRELOADED + ('shared',)),
    Case('cloned_alternate_stack'),
    Case('alignment_check', skip=only_on('x86_64')),
    Case('merged_stacks', repeat=3, racy=('static',), always=('static',)),
    Case('lazy_memory', modes=USUAL + ('heap',), skip=lacks_userfaultfd),
    Case('deep_recursion'),
    Case('own_stacks', 'madvise', 'mprotect', 'growsdown', 'jumps'),
    Case('guarded_coroutine', 'own', skip=only_on('x86_64'), always=('profiled',)),
    # A race of nanoseconds: it takes more ticks than timers give.
    Case('guarded_coroutine', 'toggled', modes=('profiled',), always=('profiled',), repeat=2,
         environment={'KILN_CLOCK': 'perf', 'KILN_FREQUENCY': '10000'},
         skip=lambda: only_on('x86_64')() or lacks_perf()),
    Case('many_mappings'),
    Case('cancelled_threads', 'deferred', 'asynchronous', modes=THREADS),
    Case('handler_jumps', 'fork', 'jump', 'exit_thread', 'fork on_stack', 'jump on_stack', 'exit_thread on_stack',
         repeat=2),

    # --- the malloc hooks ---
    Case('handler_allocates', modes=('profiled', 'heap', 'run', 'shared', 'static'), repeat=3, always=('profiled', 'run')),
    Case('early_malloc', plugins=['plugin_ifunc.c'], plugin_flags=['-Wl,-z,now'], modes=('idle', 'profiled', 'heap', 'run', 'shared'),
         always=('heap',)),
    Case('floating_point', 'flags', 'traps', modes=EVERY, always=('static',), flags=['-lm']),
    Case('threads_and_descriptors', modes=('profiled', 'heap', 'run'), always=('heap',)),
    # As small_stack_jumps.
    Case('allocating_coroutines', '1024', '2048', '1024 own', flags=['-Wl,-z,now'], modes=('profiled', 'heap', 'run'), always=('profiled',)),
    Case('allocating_coroutines', '1024 late', flags=['-Wl,-z,now'], modes=LINKED),
    Case('deep_allocations', modes=('profiled', 'heap', 'run'), always=('heap',)),
    Case('fork_in_hook', 'malloc', 'exit', modes=('profiled', 'heap', 'run'), repeat=2),

    # --- the C interface ---
    Case('labels_fork', modes=LINKED),
    Case('broken_pipe', modes=LINKED),

    # --- ways to link and load ---
    Case('sanitized', modes=PRELOADED + ('heap',), flags=['-fsanitize=thread', '-static-libtsan'],
         check=has_samples, skip=lacks('-fsanitize=thread', '-static-libtsan')),
    Case('sanitized', modes=PRELOADED + ('heap',), flags=['-fsanitize=address', '-static-libasan'],
         check=has_samples, skip=lacks('-fsanitize=address', '-static-libasan')),
    Case('busy', modes=('static',), flags=['-static-pie']),
    Case('busy', modes=PRELOADED + ('shared',), environment={'LD_BIND_NOW': '1'}),

    # --- limits ---
    Case('keys', 'before', 'after'),
    Case('pending_signals', '1000', before=ulimit(resource.RLIMIT_SIGPENDING, 0)),
    Case('timers_left', before=become_somebody(40), skip=only_root),
    Case('threads_left', before=become_somebody(), skip=only_root),
    Case('limits', 'descriptors', 'any_descriptor', 'memory', modes=THREADS),
    # Not static: libkiln.a does not know of mlockall.
    Case('locked_memory', modes=PRELOADED + ('shared', 'listen'), before=become_somebody(locked=4 << 20), skip=only_root),
    Case('address_space', modes=PRELOADED + ('shared', 'heap'), always=('profiled',),
         before=ulimit(resource.RLIMIT_AS, 160 << 20)),
    Case('limits', 'stack'),
    Case('busy', '0.3', modes=EVERY, before=ulimit(resource.RLIMIT_STACK, 32 << 10)),
    Case('busy', '0.1', modes=('idle', 'profiled', 'heap', 'run'), always=('run',), before=ulimit(resource.RLIMIT_DATA, 3 << 20)),
    Case('busy', '0.2', modes=('profiled', 'heap', 'run'), before=ulimit(resource.RLIMIT_DATA, 24 << 20), check=has_samples),
    # Nobody can have a stack as large as that by default.
    Case('busy', '0.2', modes=EVERY, before=ulimit(resource.RLIMIT_STACK, 1 << 40), check=has_samples),
    Case('limits', 'cpu', modes=('profiled', 'run')),
    Case('short_threads', '3000'),
    # Not static: libkiln.a finds threads in the kernel's list.
    Case('own_mutexes', modes=('profiled', 'run'), check=finds_short_threads, flags=['-rdynamic']),
    Case('watched_tasks', modes=PRELOADED + ('shared', 'listen', 'heap'), always=('run',), skip=lacks_fanotify),
    Case('many_threads', '2000'),
    Case('many_threads', '8500', modes=('profiled', 'run')),

    # --- what profiles say ---
    Case('cpu_time', 'sequential 6 0.1', 'overlapping 16 0.04', 'confined 10 0.02',
         modes=LINKED, repeat=2, racy=LINKED, always=('static',), check=cpu_time_is_right),
    Case('cpu_time', 'handled work 20000', 'handled work 1000000', 'handled work 20000000', 'handled look 100000',
         'handled wait 100000', 'blocked work 20000', 'blocked look 100000', modes=('shared',), check=cpu_time_is_right),
    Case('quick_exit', check=has_samples, status=6),
]
