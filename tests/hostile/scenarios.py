"""Tests that need more than one run of one program: privileges, files that change, other
compilers. Each yields (what, why it failed or None) and raises Skip where it cannot run."""
import glob
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

LIMIT = 15
NOBODY = 65534
UNITS, FUNCTIONS = 30, 50  # of the large library; call_library.c knows their product


class Skip(Exception):
    pass


def clean_environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(('KILN_', 'LD_', 'HOSTILE_'))}
    return dict(kept, **more)


def preloaded(place, *others, **more):
    return clean_environment(LD_PRELOAD=':'.join([*others, place.libkiln]), KILN_FREQUENCY='1000', **more)


def run(place, command, directory, environment=None, before=None):
    return place.run(command, environment or clean_environment(), directory, LIMIT, before)


def status_of(result):
    if result.hung:
        return 'hang'
    return f'exit {result.status}' if result.status >= 0 else f'death by {signal.Signals(-result.status).name}'


def differs(result, output, status=0):
    """Why a run is not as expected, or None."""
    if result.hung or result.status != status:
        return f'{status_of(result)}, not exit {status}; stderr: {result.errors.strip()[-200:]}'
    return None if result.output == output else f'output {result.output!r}, not {output!r}'


def seconds_in(place, profile, function=''):
    """CPU seconds of the stacks with a function, by name."""
    named = profile + '.named.pb.gz'
    subprocess.run([place.kiln, 'symbolize', '-o', named, profile], capture_output=True)
    done = subprocess.run([place.kiln, 'convert', '--to', 'folded', named, '-'], capture_output=True,
                          text=True)
    return sum(int(line.rsplit(' ', 1)[1]) for line in done.stdout.splitlines() if function in line) / 1e9


# --- privileges ---

def privileged_programs(place, directory, give_rights):
    os.makedirs(os.path.join(directory, 'secret'), mode=0o700)
    secret = os.path.join(directory, 'secret', 'file')
    for kind in 'shared', 'static':
        program = os.path.join(directory, f'privileged-{kind}')
        shutil.copy(place.compile('privileged.c', kind), program)
        os.chmod(program, 0o755)
        give_rights(program)
        for name, value in (('KILN_OUTPUT', secret), ('KILN_HEAP_OUTPUT', secret),
                            ('KILN_LISTEN', '127.0.0.1:0'),
                            ('KILN_RUN', secret + '.journal'), ('KILN_PUSH', 'http://127.0.0.1:9')):
            with open(secret, 'w') as file:
                file.write('root only\n')
            os.chmod(secret, 0o600)
            where = os.path.join(directory, f'{kind}-{name}')
            os.makedirs(where)
            os.chmod(where, 0o777)

            def become_nobody():
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)

            result = run(place, [program], where, clean_environment(**{name: value}), become_nobody)
            why = differs(result, 'the program runs with rights of its own: yes\n')
            with open(secret, 'rb') as file:
                if file.read() != b'root only\n':
                    why = "root's file was overwritten"
            others = set(os.listdir(os.path.join(directory, 'secret'))) - {'file'}
            if others:
                why = f'files were created: {others}'
            for other in others:
                os.remove(os.path.join(directory, 'secret', other))
            yield f'[{kind}] {name}', why or (result.errors.strip() and f'stderr: {result.errors.strip()}')


def setuid_program(place, directory):
    """Row 1: nobody runs a setuid program that is linked with libkiln."""
    if os.geteuid():
        raise Skip('needs root')

    def give_rights(program):
        os.chown(program, 0, 0)
        os.chmod(program, 0o4755)

    yield from privileged_programs(place, directory, give_rights)


def file_capabilities(place, directory):
    """Row 1, with file capabilities instead of the setuid bit."""
    setcap = shutil.which('setcap', path=os.environ.get('PATH', '') + ':/sbin:/usr/sbin')
    if os.geteuid() or not setcap:
        raise Skip('needs root and setcap (libcap2-bin)')

    def give_rights(program):
        done = subprocess.run([setcap, 'cap_dac_override+ep', program], capture_output=True, text=True)
        if done.returncode:
            raise Skip(f'setcap does not work here: {done.stderr.strip()}')

    yield from privileged_programs(place, directory, give_rights)


# --- code and files that go away ---

def plugin_with_archive(place, directory):
    """Row 10: a plugin with libkiln.a in it is closed."""
    plugin = place.compile('plugin_kiln.c', 'static-plugin')
    program = place.compile('plugin_closer.c', flags=['-ldl'])
    expected = 'closed: yes\nthe child ended: yes\nsurvived\n'
    for how in 'stopped', 'running':
        for attempt in range(3):
            why = differs(run(place, [program, how, plugin], directory), expected)
            if why:
                break
        yield how, why


def build_large_library(place, directory):
    """A library whose debug information is much larger than its code. Returns its path and where
    what is loaded ends."""
    library, sources = os.path.join(directory, 'liblarge.so'), []
    for unit in range(UNITS):
        sources.append(os.path.join(directory, f'unit_{unit}.c'))
        with open(sources[-1], 'w') as file:
            file.write('#include <stdint.h>\n')
            for i in range(unit * FUNCTIONS, (unit + 1) * FUNCTIONS):
                file.write(f'struct record_{i} {{ uint64_t first_{i}, second_{i}; }};\n'
                           f'uint64_t function_{i}(uint64_t a, void *p) {{\n'
                           f'  volatile struct record_{i} r = {{a, {i}}};\n'
                           f'  for (int k = 0; k < 2000; k++)\n    r.first_{i} += r.second_{i} * k;\n'
                           f'  return r.first_{i};\n}}\n')
    sources.append(os.path.join(directory, 'table.c'))
    with open(sources[-1], 'w') as file:
        names = [f'function_{i}' for i in range(UNITS * FUNCTIONS)]
        file.write('#include <stdint.h>\n' + ''.join(f'uint64_t {n}(uint64_t, void *);\n' for n in names))
        file.write('uint64_t (*table[])(uint64_t, void *) = {' + ', '.join(names) + '};\n')
    subprocess.run(['cc', '-O1', '-g', '-shared', '-fPIC', *sources, '-o', library], check=True)
    headers = subprocess.run(['readelf', '-lW', library], capture_output=True, text=True).stdout
    loads = re.findall(r'LOAD +(0x[0-9a-f]+) \S+ \S+ (0x[0-9a-f]+)', headers)
    return library, max(int(offset, 16) + int(size, 16) for offset, size in loads)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__('localhost', timeout=LIMIT)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(LIMIT)
        self.sock.connect(self.path)


def get(path, target):
    connection = UnixConnection(path)
    connection.request('GET', target)
    answer = connection.getresponse()
    return answer.status, answer.read()


def shrinking_library(place, directory):
    """Row 11: a library is truncated or overwritten between and during requests for names."""
    library, end = build_large_library(place, directory)
    original = library + '.original'
    shutil.copy(library, original)
    program = place.compile('call_library.c', flags=['-L' + directory, '-llarge', '-Wl,-rpath,' + directory])
    symbols = subprocess.run(['nm', original], capture_output=True, text=True).stdout

    def base_of(pid):
        # Before the first request, which may map the file once more.
        with open(f'/proc/{pid}/maps') as file:
            return int(next(line for line in file if 'liblarge.so' in line).partition('-')[0], 16)

    def address_of(base, function):
        offset = int(re.search(rf'(?m)^([0-9a-f]+) T {function}$', symbols)[1], 16)
        return hex(base + offset + 4)

    def truncate():
        os.truncate(library, end)

    def zero():
        with open(library, 'r+b') as file:
            file.seek(end)
            file.write(b'\0' * (os.path.getsize(original) - end))

    def ask_names(where, pid):
        base = base_of(pid)
        get(where, '/debug/pprof/symbol?' + address_of(base, 'function_5'))
        damage()
        get(where, '/debug/pprof/symbol?' + address_of(base, 'function_1400'))

    def ask_profile(where, pid):
        get(where, '/debug/pprof/profile?seconds=1')
        damage()
        get(where, '/debug/pprof/profile?seconds=1')

    def damage_during(where, pid):
        connection = UnixConnection(where)
        connection.request('GET', '/debug/pprof/profile?seconds=1')
        time.sleep(1.02)
        damage()
        connection.getresponse().read()

    for label, damage, ask in (('truncated, symbol', truncate, ask_names),
                               ('overwritten, symbol', zero, ask_names),
                               ('truncated, profile', truncate, ask_profile),
                               ('truncated during profile', truncate, damage_during)):
        shutil.copy(original, library + '.new')
        os.rename(library + '.new', library)
        where = os.path.join(directory, 'socket')
        child = subprocess.Popen([program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 env=preloaded(place, KILN_LISTEN='unix:' + where), text=True)
        why = None
        try:
            pid = int(child.stdout.readline())
            time.sleep(0.3)
            ask(where, pid)
        except (OSError, http.client.HTTPException) as error:
            why = f'the request failed: {error!r}'
        child.terminate()
        try:
            rest = child.communicate(timeout=LIMIT)[0]
            if child.returncode or rest != 'survived\n':
                code = child.returncode
                why = f'death by {signal.Signals(-code).name}' if code < 0 else f'exit {code}'
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            why = 'hang'
        yield label, why


# --- time, directories, environments ---

def clock_set_back(place, directory):
    """Row 13: CLOCK_REALTIME goes back by 30 s; the collector must not sleep for as long."""
    shim = place.compile('clock_set_back.c', 'plugin')
    profile = os.path.join(directory, 'clock.pb.gz')
    result = run(place, [place.compile('busy.c'), '2.5'], directory,
                 preloaded(place, shim, KILN_OUTPUT=profile))
    why = differs(result, 'done\n')
    if not why:
        found = seconds_in(place, profile, 'compute_visibly')
        why = None if 2.2 < found < 2.8 else f'{found:.2f} s in compute_visibly, not 2.5 s: samples were dropped'
    yield 'samples are kept', why


def relative_paths(place, directory):
    """Row 18: a relative KILN_OUTPUT and a library loaded by a relative path, then chdir. The same for libkiln.so and exec."""
    shutil.copy(place.compile('plugin_busy.c', 'plugin'), os.path.join(directory, 'busy.so'))
    result = run(place, [place.compile('change_directory.c'), './busy.so'], directory,
                 preloaded(place, KILN_OUTPUT='relative.pb.gz'))
    yield 'the program', differs(result, 'done\n')
    found = glob.glob(os.path.join(directory, '**/relative.pb.gz'), recursive=True)
    expected = os.path.join(directory, 'relative.pb.gz')
    yield 'where the profile is', None if found == [expected] else f'it is {found}, not {expected}'
    if found:
        seconds = seconds_in(place, found[0], 'work_in_library')
        yield 'names of the library', None if seconds > 0 else 'work_in_library has no name in the profile'
    shutil.copy(place.libkiln, os.path.join(directory, 'libkiln.so'))
    result = run(place, ['/bin/sh', '-c', 'cd / && exec /bin/echo done'], directory,
                 clean_environment(LD_PRELOAD='./libkiln.so', KILN_OUTPUT='executed.pb.gz'))
    yield 'exec', differs(result, 'done\n') or (f'stderr: {result.errors.strip()[:200]}' if result.errors.strip() else None)


def child_environment(place, directory):
    """Row 25: without --follow a child sees only what the user set."""
    look = '/usr/bin/env | grep -E "^(LD_PRELOAD|KILN_)" | sort; true'
    for label, more in (('nothing set', {}), ('set by the user', {'LD_PRELOAD': 'libm.so.6', 'KILN_MINE': '1'})):
        expected = ''.join(f'{k}={v}\n' for k, v in sorted(more.items()))
        for shell in (['/bin/sh', '-c', look], [sys.executable, '-c', f'import subprocess; subprocess.run({look!r}, shell=True)']):
            if len(more) and shell[0] == sys.executable:
                continue
            plain = run(place, shell, directory, clean_environment(**more))
            result = run(place, [place.kiln, 'run', '-q', '-o', os.path.join(directory, 'out.pb.gz'), '--', *shell],
                         directory, clean_environment(**more))
            why = differs(plain, expected) or differs(result, expected)
            yield f'{label}, {os.path.basename(shell[0])}', why


def exec_static(place, directory):
    """A process executes a static program in its place, which must not see or pass on our variables."""
    shell = ['/bin/sh', '-c', 'exec ' + place.compile('print_environment.c', flags=['-static'])]
    yield '[plain]', differs(run(place, shell, directory), 'no more\n')
    out = os.path.join(directory, 'out.pb.gz')
    yield '[profiled]', differs(run(place, shell, directory, preloaded(place, KILN_OUTPUT=out)), 'no more\n')
    yield '[run]', differs(run(place, [place.kiln, 'run', '-q', '-o', out, '--', *shell], directory), 'no more\n')


def signals_to_kiln(place, directory):
    """Whatever is sent to `kiln run` is meant for the program."""
    wait = 'import signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {NUMBER}); print("ready", flush=True); ' \
           'print(signal.sigtimedwait({NUMBER}, 5) is not None)'
    for number in (signal.SIGTERM, signal.SIGWINCH, signal.SIGURG, signal.SIGIO, signal.SIGVTALRM, signal.SIGRTMIN + 3):
        command = [sys.executable, '-c', wait.replace('NUMBER', str(int(number)))]
        child = subprocess.Popen([place.kiln, 'run', '-q', '-o', os.path.join(directory, 'out.pb.gz'), '--', *command],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_environment(), text=True)
        child.stdout.readline()
        child.send_signal(number)
        told = child.communicate(timeout=LIMIT)[0]
        good = told == 'True\n' and child.returncode == 0
        yield f'signal {int(number)}', None if good else f'{told!r}, status {child.returncode}'


def signals_to_group(place, directory):
    """What the program sends to its process group, kiln included, reaches it once."""
    send = 'import os, signal, time; n = []; signal.signal(signal.SIGUSR1, lambda *_: n.append(1))\n' \
           'for _ in range(3): os.kill(0, signal.SIGUSR1); time.sleep(0.05)\nprint(len(n))'
    command = [sys.executable, '-c', send]
    yield '[plain]', differs(run(place, command, directory), '3\n')
    yield '[run]', differs(run(place, [place.kiln, 'run', '-q', '-o', os.path.join(directory, 'out.pb.gz'), '--', *command],
                               directory), '3\n')


def closed_descriptors(place, directory):
    """`kiln run` without standard error: what it says must not end up where the samples are."""
    if not shutil.which('strace'):
        raise Skip('needs strace')
    profile, trace = os.path.join(directory, 'out.pb.gz'), os.path.join(directory, 'trace')
    shell = f'exec {place.kiln} run -o {profile} -- {place.compile("busy.c")} 0.1 2>&-'
    subprocess.run(['strace', '-f', '-y', '-e', 'trace=write,writev', '-o', trace, '/bin/sh', '-c', shell],
                   capture_output=True, env=clean_environment())
    with open(trace, errors='replace') as file:
        wrong = [line for line in file if 'write' in line and 'memfd:kiln' in line]
    yield 'samples', f'a message among them: {wrong[0].strip()[:150]}' if wrong else None


def same_process_id(place, directory):
    """A process that is number 1, in a container, starts a number 1 of its own."""
    first = ['unshare', '-p', '-f']
    if os.geteuid() != 0 or subprocess.run([*first, 'true'], capture_output=True).returncode:
        raise Skip('needs root and PID namespaces')
    program = place.compile('same_process_id.c')
    for how in ('fork', 'clone'):
        plain = run(place, [*first, program, how], directory)
        yield f'{how} [plain]', 'a fact does not hold' if ': no' in plain.output else differs(plain, plain.output)
        out = os.path.join(directory, how + '.pb.gz')
        environment = [f'LD_PRELOAD={place.libkiln}', f'KILN_OUTPUT={out}']
        yield f'{how} [profiled]', differs(run(place, [*first, 'env', *environment, program, how], directory),
                                           plain.output)


def strangers(directory, pid):
    """Whether a process other than the first wrote a profile."""
    found = {os.path.basename(path) for path in glob.glob(os.path.join(directory, 'profile-*'))}
    return 'a child wrote a profile as if it were its parent' if found - {f'profile-{pid}.pb.gz'} else None


def stale_environment(place, directory):
    """Row 14 without Go: a child gets its parent's original environment."""
    pattern = os.path.join(directory, 'profile-%p.pb.gz')
    result = run(place, [place.compile('stale_environment.c')], directory, preloaded(place, KILN_OUTPUT=pattern))
    yield 'the program', differs(result, 'child\nthe child ran: yes\n')
    yield 'profiles', strangers(directory, result.pid)


def go_with_cgo(place, directory):
    """Row 14: Go passes its original environment to children."""
    go = shutil.which('go', path=os.environ.get('PATH', '') + ':/usr/local/go/bin')
    if not go:
        raise Skip('needs Go')
    program = os.path.join(directory, 'go_program')
    built = subprocess.run([go, 'build', '-o', program, os.path.join(place.here, 'go_program.go')],
                           capture_output=True, text=True, cwd=directory,
                           env=dict(os.environ, CGO_ENABLED='1', GOFLAGS='-mod=mod', GOTOOLCHAIN='local'))
    if built.returncode:
        raise Skip(f'Go cannot build with cgo: {built.stderr.strip().splitlines()[-1:]}')
    expected = 'child\nthe child ran: true\nown profile: true\n'
    yield '[plain]', differs(run(place, [program], directory), expected, 3)
    yield '[idle]', differs(run(place, [program], directory, clean_environment(LD_PRELOAD=place.libkiln)), expected, 3)
    pattern = os.path.join(directory, 'profile-%p.pb.gz')
    result = run(place, [program], directory, preloaded(place, KILN_OUTPUT=pattern))
    yield '[profiled]', differs(result, expected, 3)
    yield '[profiled] profiles', strangers(directory, result.pid)
    result = run(place, [place.kiln, 'run', '-q', '-F', '1000', '-o', os.path.join(directory, 'run.pb.gz'), '--', program],
                 directory)
    yield '[run]', differs(result, expected, 3)


def musl_child(place, directory):
    """Row 15: under `kiln run` a child that is linked with musl starts as usual."""
    if not shutil.which('musl-gcc'):
        raise Skip('needs musl-gcc (musl-tools)')
    program = os.path.join(directory, 'musl_child')
    subprocess.run(['musl-gcc', '-O2', os.path.join(place.here, 'musl_child.c'), '-o', program], check=True)
    shell = ['/bin/sh', '-c', f'{program}; echo $?']
    yield '[plain]', differs(run(place, shell, directory), 'musl ran\n4\n')
    for label, extra in (('[run]', []), ('[run --heap]', ['--heap'])):
        result = run(place, [place.kiln, 'run', '-q', *extra, '-o', os.path.join(directory, 'out.pb.gz'), '--', *shell],
                     directory)
        yield label, differs(result, 'musl ran\n4\n')
    launcher = place.compile('launch_by_descriptor.c')
    for how in 'fexecve', 'execveat':
        command = [launcher, how, program]
        yield f'{how} [plain]', differs(run(place, command, directory), 'musl ran\n', 4)
        result = run(place, [place.kiln, 'run', '-q', '-o', os.path.join(directory, 'out.pb.gz'), '--', *command],
                     directory)
        yield f'{how} [run]', differs(result, 'musl ran\n', 4)


def full_error_pipe(place, directory):
    """Standard error is a pipe that is full and that nobody reads: our messages must not wait."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writing, True)
    out = os.path.join(directory, 'cpu.pb.gz')
    for label, variables in (('at the start', {'KILN_OUTPUT': out, 'KILN_DEPTH': 'deep'}),
                             ('at the end', {'KILN_OUTPUT': '/nonexistent/cpu.pb.gz'})):
        result = run(place, [place.compile('busy.c'), '0.1'], directory, preloaded(place, **variables),
                     lambda: os.dup2(writing, 2))
        yield label, differs(result, 'done\n')
    os.close(reading)
    os.close(writing)


def python_subprocess(place, directory):
    """Row 3 as it was met: Python's subprocess.run takes the handler away."""
    command = [sys.executable, os.path.join(place.here, 'python_program.py')]
    plain = run(place, command, directory)
    yield '[plain]', 'a fact does not hold' if 'False' in plain.output else differs(plain, plain.output)
    out = os.path.join(directory, 'cpu.pb.gz')
    for label, words, environment in (
            ('[idle]', command, clean_environment(LD_PRELOAD=place.libkiln)),
            ('[profiled]', command, preloaded(place, KILN_OUTPUT=out)),
            ('[run]', [place.kiln, 'run', '-q', '-F', '1000', '-o', out, '--', *command], None)):
        yield label, differs(run(place, words, directory, environment), plain.output)


def jail(place, directory):
    """A process changes its root directory and executes a program there, where libkiln.so is not."""
    tools = ['chroot', 'env']
    paths = [shutil.which(t, path=os.environ.get('PATH', '') + ':/sbin:/usr/sbin') for t in tools]
    if os.geteuid() or not all(paths):
        raise Skip('needs root, chroot and env')
    root = os.path.join(directory, 'root')
    needed = re.findall(r'(/\S+) \(0x', subprocess.run(['ldd', paths[1]], capture_output=True, text=True).stdout)
    for path in [paths[1], *needed]:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(os.path.realpath(path), root + path)
    command = [paths[0], root, paths[1]]
    out = os.path.join(directory, 'out.pb.gz')
    plain = run(place, command, directory)
    yield '[plain]', differs(plain, plain.output)
    for label, words, environment in (
            ('[profiled]', command, preloaded(place, KILN_OUTPUT=out)),
            ('[run]', [place.kiln, 'run', '-q', '-o', out, '--', *command], None)):
        result = run(place, words, directory, environment)
        why = differs(result, plain.output)
        yield label, why or (f'stderr: {result.errors.strip()[:200]}' if result.errors.strip() else None)


def without_proc(place, directory):
    """Programs where /proc is not mounted."""
    inside = ['unshare', '-m', 'sh', '-c', 'umount -l /proc && exec "$@"', 'sh']
    if os.geteuid() != 0 or subprocess.run([*inside, 'true'], capture_output=True).returncode:
        raise Skip('needs root and mount namespaces')
    for source, *arguments in (['main_ends_alone.c', 'signals'], ['short_threads.c', '200'], ['fork_storm.c']):
        program = [place.compile(source), *arguments]
        if source == 'fork_storm.c':
            program.append(place.compile('plugin_empty.c', 'plugin'))
        plain = run(place, [*inside, *program], directory)
        yield f'{source} [plain]', differs(plain, plain.output)
        for label, more in (('[idle]', []), ('[profiled]', [f'KILN_OUTPUT={directory}/out.pb.gz', 'KILN_FREQUENCY=1000'])):
            result = run(place, [*inside, 'env', f'LD_PRELOAD={place.libkiln}', *more, *program], directory)
            yield f'{source} {label}', differs(result, plain.output)


SCENARIOS = [jail, without_proc, setuid_program, file_capabilities, plugin_with_archive, shrinking_library, clock_set_back,
             relative_paths, child_environment, exec_static, same_process_id, signals_to_kiln, signals_to_group, closed_descriptors, stale_environment, go_with_cgo, musl_child,
             python_subprocess, full_error_pipe]
