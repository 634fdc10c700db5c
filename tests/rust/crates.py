"""cargo, for tests/rust: crates are built into BUILD/rust, or KILN_CARGO_TARGET, once."""
import json
import os
import re
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.dirname(here))
import rotation  # noqa: E402

SKIP = 77
# Whether the crates are built with jemalloc this time.
JEMALLOC = rotation.is_turn(0, 3)


def skip(why):
    print(why)
    sys.exit(SKIP)


class Cargo:
    def __init__(self, build):
        self.target = os.environ.get('KILN_CARGO_TARGET') or os.path.join(build, 'rust')

    def __call__(self, *arguments, toolchain=None, environment=(), **options):
        command = ['cargo', *([f'+{toolchain}'] if toolchain else []), *arguments]
        # Nothing here is built twice: what incremental builds would need later is not worth its CPU time.
        environment = dict(os.environ, CARGO_TARGET_DIR=self.target, CARGO_INCREMENTAL='0', **dict(environment))
        return subprocess.run(command, text=True, capture_output=True, env=environment, **options)

    def fetch(self, folder):
        """Whether its dependencies can be downloaded or are already installed."""
        manifest = ('--manifest-path', os.path.join(folder, 'Cargo.toml'))
        done = self('fetch', *manifest, timeout=600)
        if done.returncode == 0 or self('fetch', '--offline', *manifest).returncode == 0:
            return True
        if not re.search('(?i)download|resolve host|network|registry|timed out|connect', done.stderr):
            sys.exit(f'cargo fetch failed:\n{done.stderr}')
        return False

    def build(self, folder, *arguments):
        done = self('build', '--manifest-path', os.path.join(folder, 'Cargo.toml'), *arguments)
        if done.returncode:
            sys.exit(f'cargo build {" ".join(arguments)} failed:\n{done.stderr[-4000:]}')

    def project(self, folder, manifest):
        """An empty crate with this manifest."""
        os.makedirs(os.path.join(folder, 'src'), exist_ok=True)
        open(os.path.join(folder, 'src', 'lib.rs'), 'w').close()
        with open(os.path.join(folder, 'Cargo.toml'), 'w') as file:
            file.write(manifest)

    def source_of(self, folder, crate):
        """Where a crate that the one in folder depends on has its source."""
        packages = json.loads(self('metadata', '--format-version=1', '--offline', '--manifest-path',
                                   os.path.join(folder, 'Cargo.toml')).stdout)['packages']
        return os.path.dirname(next(p for p in packages if p['name'] == crate)['manifest_path'])


# What a crate is ported from.
PPROF = ('[package]\nname = "ported"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n'
         'pprof = { version = "=0.15.0", default-features = false, features = ["cpp"] }\n')


def port(source, to):
    """A source file of a user of pprof-rs, with the name of the crate changed."""
    with open(source) as file:
        text = file.read().replace('pprof::', 'kiln::')
    os.makedirs(os.path.dirname(to), exist_ok=True)
    with open(to, 'w') as file:
        file.write(text)
