"""Runs one case of the goldens and says what came out, in a form that compares."""
import gzip
import os
import subprocess
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
ENV = dict(os.environ, TZ='UTC', HOME='/nonexistent', PPROF_BINARY_PATH='/nonexistent')


def run_case(command, flags, inputs, typed=None, timeout=60):
    """{'exit': ..., 'out': ...} and, where there is one, 'file': what -output wrote; 'error': of
    a run that failed, the line `pprof: ...` on standard error, or its first; 'messages': all
    of standard error, of a session in the shell."""
    with tempfile.TemporaryDirectory() as directory:
        path, folder = os.path.join(directory, 'out'), os.path.join(here, 'inputs')
        argv = [*command, '-symbolize=none', *[f.replace('{out}', path) for f in flags], *inputs]
        try:
            done = subprocess.run(argv, cwd=folder, env=ENV, timeout=timeout,
                                  input=(typed or '').replace('{out}', path).encode(),
                                  capture_output=True)
        except subprocess.TimeoutExpired:
            return {'exit': 'timeout', 'out': ''}
        out = text(done.stdout).replace(path, '{out}').replace(folder, '{inputs}')
        result = {'exit': done.returncode, 'out': out}
        if typed is not None:
            result['messages'] = text(done.stderr).replace(path, '{out}')
        elif done.returncode:
            lines = text(done.stderr).strip().splitlines()
            result['error'] = next((s for s in lines if s.startswith('pprof:')), (lines or [''])[0])
        if os.path.exists(path):
            with open(path, 'rb') as file:
                data = file.read()
            result['file'] = text(gzip.decompress(data) if data[:2] == b'\x1f\x8b' else data)
        return result


def text(data):
    return data.decode('utf-8', 'surrogateescape')
