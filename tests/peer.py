"""Finds google/pprof to compare with, or builds it from its Go module."""
import os
import re
import shutil
import subprocess

# The version whose output the recorded answers of tests/golden are; a newer one is a change of its own.
VERSION = 'v0.0.0-20260906184651-6331bc6350fe'
root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def find(build=True):
    """(path of the pprof command, '') or (None, why there is none). KILN_PPROF names one."""
    given = os.environ.get('KILN_PPROF')
    if given:
        return (given, '') if shutil.which(given) else (None, f'KILN_PPROF={given} is no command')
    where = os.path.join(root, 'build-bench', 'bin', VERSION)
    path = os.path.join(where, 'pprof')
    if os.path.exists(path):
        return path, ''
    if not shutil.which('go'):
        return None, 'google/pprof: no Go to build it with'
    version = subprocess.run(['go', 'version'], capture_output=True, text=True).stdout
    found = re.search(r'go(\d+)\.(\d+)', version)
    if not found or (int(found[1]), int(found[2])) < (1, 24):
        return None, f'google/pprof needs Go 1.24, this is {version.strip() or "unknown"}'
    if not build:
        return None, 'google/pprof is not built'
    try:
        done = subprocess.run(['go', 'install', f'github.com/google/pprof@{VERSION}'], timeout=300,
                              env=dict(os.environ, GOBIN=where, GOFLAGS='-buildvcs=false'),
                              capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return None, 'google/pprof: its module could not be fetched within five minutes'
    if done.returncode:
        return None, 'google/pprof could not be built: ' + done.stderr.strip().splitlines()[-1]
    return path, ''
