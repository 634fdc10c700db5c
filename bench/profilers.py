"""What the benches of capturing share: the profilers that are measured side by side, how a
program is run under each of them, and the arithmetic."""
import glob
import os
import random
import select
import shutil
import statistics
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get('KILN_BUILD', os.path.join(TOP, 'build'))
SCRATCH = os.environ.get('KILN_BENCH_BUILD', os.path.join(TOP, 'build-bench', 'capture'))
KILN = os.path.join(BUILD, 'kiln')
LIBKILN = os.path.join(BUILD, 'src', 'agent', 'libkiln.so')
QUICK = '--quick' in sys.argv
missed = []


def built(name):
    """The path of a program of bench/meson.build, made now if need be."""
    subprocess.run(['ninja', '-C', BUILD, '--quiet', 'bench/' + name], check=True,
                   stdout=subprocess.DEVNULL)
    return os.path.join(BUILD, 'bench', name)


def peer(variant, *flags):
    """The folder with what bench/capture_peers makes with these flags, or None. --quick takes
    what is there: it must not download."""
    target = os.path.join(SCRATCH, 'rust-' + variant)
    release = os.path.join(target, 'release')
    if os.path.isdir(release) and QUICK:
        return release
    if QUICK or not shutil.which('cargo'):
        return None
    project = os.path.join(SCRATCH, 'project')
    shutil.copytree(os.path.join(TOP, 'bench', 'capture_peers'), project, dirs_exist_ok=True)
    done = subprocess.run(['cargo', 'build', '--release', '-q', *flags, '--target-dir', target],
                          cwd=project)
    return release if done.returncode == 0 else None


def profilers():
    """name -> function(hz, output) -> environment of a program that it profiles"""
    found = {'kiln': lambda hz, out: {'LD_PRELOAD': LIBKILN, 'KILN_OUTPUT': out,
                                      'KILN_FREQUENCY': str(hz)}}
    library = (glob.glob('/usr/lib/*/libprofiler.so.0') + glob.glob('/usr/lib/libprofiler.so.0'))
    if library:
        found['gperftools'] = lambda hz, out: {'LD_PRELOAD': library[0], 'CPUPROFILE': out,
                                               'CPUPROFILE_FREQUENCY': str(hz)}
    else:
        print('skip gperftools: no libprofiler.so.0 (package libgoogle-perftools4)')
    for name, variant, flags in (('pprof-rs', 'default', ()),
                                 ('pprof-rs framehop', 'framehop', ('--features', 'framehop'))):
        folder = peer(variant, '--lib', *flags)
        if folder:
            so = os.path.join(folder, 'libpprof_peer.so')
            found[name] = lambda hz, out, so=so: {'LD_PRELOAD': so, 'PEER_OUTPUT': out,
                                                  'PEER_FREQUENCY': str(hz)}
        else:
            print(f'skip {name}: ' + ('not built yet' if QUICK else 'cargo or the crate is missing'))
    return found


def environment(added):
    return {**os.environ, **added}


def verdict(met, what=''):
    if QUICK:
        return 'not judged'
    if not met:
        missed.append(what)
    return 'met' if met else 'MISSED'


def median(values):
    return statistics.median(values)


def interval(values, rounds=2000):
    """A 95 % interval of the median, by resampling."""
    r = random.Random(1)
    medians = sorted(statistics.median(r.choices(values, k=len(values))) for _ in range(rounds))
    return medians[int(rounds * 0.025)], medians[int(rounds * 0.975)]


class Failed(Exception):
    """A profiled program hangs or has died."""


class Servant:
    """A program that does so many units of work for each line that it is given, and answers with
    the nanoseconds of CPU time that they took."""

    def __init__(self, command, added):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True,
                                        env=environment(added))

    def work(self, units):
        self.process.stdin.write(f'{units}\n')
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], HUNG)[0]:
            self.process.kill()
            raise Failed('the program hangs')
        answer = self.process.stdout.readline()
        if not answer:
            raise Failed(f'the program ended with status {self.process.wait()}')
        return [float(x) for x in answer.split()]

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)


EPOCH = 8
HUNG = 100  # timeout for an answer, in seconds


def in_turns(start, rounds, slice_ns, settle, count=None):
    """Compares servants, two of which, 'bare' and 'none', are the same without a profiler.

    Each round asks every servant for a slice of the same work, in an order that changes. Every
    EPOCH rounds all are started anew by start(names to leave out), since where a process's memory happens to lie
    matters as much as a profiler, and left to settle for so many seconds. What counts is the least
    CPU time of an epoch's slices, over that of the unprofiled ones ('none': over 'bare'): others
    on this machine only ever add to it, and a profiler is at work in every slice. The result is
    name -> the ratio of each epoch. count(servants) is read around each epoch: the second result
    is by how much it grew in a second. A profiler whose program hangs or dies (a handler may wait for a
    lock that the interrupted thread holds) is reported and left out from then on; for kiln it is an error.
    """
    r = random.Random(2)
    ratios, counted, passed, failed = {}, 0, 0, set()

    def ask(servants, name, n):
        try:
            return servants[name].work(n)[0]
        except Failed as why:
            if name in ('bare', 'none') or name.startswith('kiln'):
                sys.exit(f'{name}: {why}')
            print(f'{name}: {why}', flush=True)
            failed.add(name)
            del servants[name]
            return None

    for _ in range(0, rounds, EPOCH):
        servants = start(failed)
        units = max(1, round(slice_ns / (ask(servants, 'bare', 4) / 4)))
        began = time.monotonic()
        while time.monotonic() - began < settle:
            for name in list(servants):
                ask(servants, name, 1)
        least = {}
        began, before = time.monotonic(), count(servants) if count else 0
        for _ in range(min(EPOCH, rounds)):
            for name in r.sample(list(servants), len(servants)):
                spent = ask(servants, name, units)
                if spent:
                    least[name] = min(least.get(name, 1e18), spent)
        counted += (count(servants) if count else 0) - before
        passed += time.monotonic() - began
        for name in servants:
            base = least['bare'] if name == 'none' else (least['bare'] + least['none']) / 2
            if name != 'bare':
                ratios.setdefault(name, []).append(least[name] / base)
        for servant in servants.values():
            servant.end()
    return ratios, counted / passed


def finish():
    if missed:
        print('missed: ' + '; '.join(missed))
    sys.exit(1 if missed else 0)
