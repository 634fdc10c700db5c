"""Names that come late: a real stripped program's profile is pushed with addresses only, its debug
file follows, and old and new profiles are shown with functions, inlined calls and lines."""
import gzip
import json
import os
import subprocess
import time

from harness import Server, check, same, skip, temporary

PROGRAM = '''
#include <stdio.h>
#include <time.h>
static inline __attribute__((always_inline)) double inner(double x)
{
    for (int i = 0; i < 1000; i++)
        x = x * 1.0000001 + i; /* line 7 */
    return x;
}
__attribute__((noinline)) double outer(double x)
{
    return inner(x); /* line 12 */
}
int main(void)
{
    double x = 1;
    for (clock_t end = clock() + CLOCKS_PER_SEC / 3; clock() < end;)
        for (int i = 0; i < 100; i++)
            x = outer(x);
    printf("%g\\n", x);
}
'''
UPLOAD = '/api/v1/debuginfo/upload'
BINARY = {'Content-Type': 'application/octet-stream'}
JSON = {'Content-Type': 'application/json'}


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=120, **more)


def build(kiln, folder, *flags):
    """A stripped program, what was stripped off, and a profile of it; its build id."""
    path = os.path.join(folder, 'app')
    with open(path + '.c', 'w') as file:
        file.write(PROGRAM)
    made = run('cc', '-g', '-O1', *flags, '-Wl,--build-id', '-o', path + '.full', path + '.c')
    if made.returncode:
        raise RuntimeError(made.stderr)
    for words in (['objcopy', '--only-keep-debug', path + '.full', path + '.debug'],
                  ['strip', '-o', path, path + '.full'], ['strip', '-g', '-o', path + '.symbols', path + '.full'],
                  # Without sanitizers: their run-time would have to be the program's.
                  [kiln.replace('build-asan', 'build'), 'run', '-q', '-o', path + '.pb.gz', '--', path]):
        r = run(*words)
        if r.returncode:
            raise RuntimeError(f'{words}: {r.stderr}')
    text = run('readelf', '-n', path).stdout
    return path, text.split('Build ID:')[1].split()[0]


def frames(s, service, headers=None):
    """The functions on the way to the program's hot loop, main first; [] if there is none."""
    now = int(time.time() * 1000)
    answer = s.json('SelectMergeStacktraces', {
        'profileTypeID': 'process_cpu:cpu:nanoseconds:cpu:nanoseconds', 'start': now - 3600000,
        'end': now + 60000, 'labelSelector': '{service_name="%s"}' % service}, headers)
    return answer['flamegraph']['names']


def lines(kiln, s, service, folder):
    """function:line of what is in the merged profile."""
    out = os.path.join(folder, 'merged.pb.gz')
    if os.path.exists(out):
        os.remove(out)
    run(kiln, 'query', 'pprof', out, '{service_name="%s"}' % service, '--server', f'http://127.0.0.1:{s.port}')
    return run(kiln, 'raw', out).stdout


def late(kiln, folder, path, build_id):
    s = Server(kiln, folder)
    server = ['--server', f'http://127.0.0.1:{s.port}']
    push = lambda service: run(kiln, 'push', *server, '--label', f'service_name={service}', path + '.pb.gz')
    debuginfo = lambda *words: run(kiln, 'debuginfo', *words, *server)
    same('push', push('before').returncode, 0)
    names = frames(s, 'before')
    check('without a debug file: addresses', any(n.startswith('app+0x') for n in names) and 'outer' not in names, names)
    got = debuginfo('list', '--missing').stdout
    check('what is missing is told', build_id in got and path in got, got)
    r = run('objcopy', '--only-section=.note.gnu.build-id', path, path + '.bare')
    r = debuginfo('upload', path + '.bare')
    check('a file without names is of no use', r.returncode == 2 and 'stripped' in r.stderr, r)
    same('one with symbols', debuginfo('upload', path + '.symbols').returncode, 0)
    names = frames(s, 'before')
    check('symbols: functions', 'outer' in names and 'inner' not in names, names)
    r = debuginfo('upload', path + '.debug')
    same('a better file takes its place', (r.returncode, r.stdout.split()[:2]), (0, [build_id, 'replaced']))
    names = frames(s, 'before')
    check('old profiles: functions and inlined calls',
          {'main', 'outer', 'inner'} <= set(names) and not any(n.startswith('app+') for n in names), names)
    text = lines(kiln, s, 'before', folder)
    check('lines', 'inner ' in text and 'app.c:7:' in text and 'app.c:12:' in text, text)
    same('a worse one does not', debuginfo('upload', path + '.symbols').stdout.split()[1], 'kept')
    same('the same one', debuginfo('upload', path + '.debug').stdout.split()[1], 'known')
    push('after')
    check('new profiles', {'main', 'outer', 'inner'} <= set(frames(s, 'after')), frames(s, 'after'))
    got = debuginfo('list').stdout.split()
    same('list', (got[0], int(got[1])), (build_id, os.path.getsize(path + '.debug')))
    check('nothing is missing any more', build_id not in debuginfo('list', '--missing').stdout)
    s.stop()
    s.start()
    check('after a restart', 'inner' in frames(s, 'before'), frames(s, 'before'))
    same('delete', (debuginfo('delete', build_id).returncode, debuginfo('list').stdout), (0, ''))
    check('names that were found stay', 'inner' in frames(s, 'before'), frames(s, 'before'))
    same('delete: there is none', debuginfo('delete', build_id).returncode, 2)
    s.stop()


def refused(kiln, folder, path, build_id):
    s = Server(kiln, folder, config='''
limits: {body_size: 1MiB, debuginfo_size: 256KiB, debuginfo_total: 24KiB}
debuginfo_directories: []
auth:
  - {token: push-token-1, scopes: [push], tenants: [one]}
  - {token: read-token-1, scopes: [read], tenants: [one, two]}
  - {token: admin-token, scopes: [admin, push, read], tenants: [two]}
''')
    bearer = lambda token: {'Authorization': 'Bearer ' + token}
    push, read, admin = bearer('push-token-1'), bearer('read-token-1'), bearer('admin-token')
    with open(path + '.debug', 'rb') as file:
        whole = file.read()

    def put(body, who=push, headers=BINARY, **query):
        r = s.ask('POST', UPLOAD, body, {**headers, **who}, query)
        return r.status, r.data.decode()
    for what, status, words, answer in [
            ('nobody', 401, 'credentials', put(whole, {})),
            ('a reader', 403, 'push', put(whole, read)),
            ('a form', 415, '', put(whole, headers={'Content-Type': 'text/plain'})),
            ('no ELF', 400, 'ELF', put(b'hello, world' * 100)),
            ('no ELF, with an id', 400, 'ELF', put(b'hello, world' * 100, build_id=build_id)),
            ('nothing', 400, '0 bytes', put(b'')),
            ('a part of a file', 400, '', put(whole[:100])),
            ('another build id', 400, build_id, put(whole, build_id='ab' * 20)),
            ('a path for a build id', 400, 'build_id', put(whole, build_id='../../../../tmp/x')),
            ('large letters', 400, 'build_id', put(whole, build_id=build_id.upper())),
            ('too large', 413, '262144', put(whole, size=1 << 20, build_id=build_id)),
            ('too large for 64 bits', 400, 'size', put(whole, size=1 << 70, build_id=build_id)),
            ('an offset behind the end', 400, 'offset', put(whole, offset=1 << 40, build_id=build_id)),
            ('not a number', 400, 'offset', put(whole, offset='x', build_id=build_id)),
            ('a second part first', 409, 'expected 0', put(whole[100:], offset=100, size=len(whole), build_id=build_id)),
            ('GET', 405, '', (s.ask('GET', UPLOAD, headers=push).status, ''))]:
        check(f'upload, {what}', answer[0] == status and words in answer[1], answer)
    same('nothing is left of them', json.loads(s.ask('GET', '/api/v1/debuginfo', headers=read).data), {'files': []})
    # In parts, gzipped, and once restarted.
    size, half = len(whole), len(whole) // 2
    first = lambda: put(gzip.compress(whole[:half]), headers={**BINARY, 'Content-Encoding': 'gzip'}, size=size, build_id=build_id)
    same('the first part', (first()[0], json.loads(first()[1])['received']), (200, half))
    same('a gap', put(whole[half + 1:], offset=half + 1, size=size, build_id=build_id)[0], 409)
    status, answer = put(whole[half:], offset=half, size=size, build_id=build_id)
    same('the last part', (status, json.loads(answer)['state'], json.loads(answer)['dwarf']), (200, 'stored', True))
    files = json.loads(s.ask('GET', '/api/v1/debuginfo', headers=read).data)['files']
    same('it is there', [(f['buildId'], f['bytes']) for f in files], [(build_id, size)])
    status, answer = put(whole + b'\0' * (20000 - size), build_id=build_id)
    check('over what a tenant may have', status == 413 and '24576' in answer, (status, answer))
    other = {**read, 'X-Scope-OrgID': 'two'}
    same('another tenant has none', json.loads(s.ask('GET', '/api/v1/debuginfo', headers=other).data), {'files': []})
    with open(path + '.pb.gz', 'rb') as file:
        profile = file.read()
    labels = {'__name__': 'process_cpu', 'service_name': 'w'}
    same('pushes', [s.push([(labels, profile)], headers=who).status for who in (push, admin)], [200, 200])
    check('its tenant sees names', 'inner' in frames(s, 'w', read), frames(s, 'w', read))
    names = frames(s, 'w', other)
    check('the other one does not', 'inner' not in names and any(n.startswith('app+') for n in names), names)
    delete = lambda who, **query: s.ask('POST', '/api/v1/debuginfo/delete', b'{}', {**JSON, **who}, query).status
    same('delete: only who manages', [delete(push, build_id=build_id), delete(read, build_id=build_id)], [403, 403])
    same('delete: not of another tenant', delete(admin, build_id=build_id), 404)
    same('delete: no path', delete(admin, build_id='../one/' + build_id[:2]), 404)
    same('an admin may upload', put(whole, admin)[0], 200)
    same('delete', delete(admin, build_id=build_id), 200)
    log = s.log_text()
    s.stop()
    tree = [os.path.join(d, f) for d, _, files in os.walk(os.path.join(folder, 'data', 'debuginfo')) for f in files]
    same('files on the disk', [os.path.relpath(f, os.path.join(folder, 'data', 'debuginfo')) for f in tree],
         [f'one/{build_id[:2]}/{build_id[2:]}.debug'])
    check('no errors are logged', 'level=error' not in log, log[-500:])


def quota(kiln, folder, path, build_id):
    """Uploads that begin small and grow, or begin at once, do not exceed what a tenant may have."""
    total = 2 << 20
    s = Server(kiln, folder, config='limits: {debuginfo_size: 1MiB, debuginfo_total: 2MiB}\n')
    with open(path + '.debug', 'rb') as file:
        whole = file.read()

    def part(i, offset, size, body):
        return s.ask('POST', UPLOAD, body, BINARY, {'build_id': '%040x' % i, 'offset': offset, 'size': size}).status

    def used():
        return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(os.path.join(folder, 'data', 'debuginfo')) for f in files)
    same('20 that begin small', {part(i, 0, 8, b'\x7fELF') for i in range(20)}, {200})
    same('and grow', {part(i, 4, 1 << 20, bytes((1 << 20) - 5)) for i in range(20)}, {400})
    same('20 that begin at once', {part(i, 0, 1 << 20, b'\x7fELF') for i in range(20)}, {200})
    answers = [part(i, 4, 1 << 20, bytes((1 << 20) - 5)) for i in range(20)]
    check('and continue', set(answers) == {200, 413} and used() <= total, (answers, used()))
    r = s.ask('POST', UPLOAD, whole, BINARY)
    check('an honest one is stored', r.status == 200 and json.loads(r.data)['state'] == 'stored' and used() <= total, (r.data, used()))
    same('a part of the same file', part(int(build_id, 16), 0, 1000, whole[:100]), 200)
    r = s.ask('POST', UPLOAD, whole, BINARY)
    same('does not stop the whole file', (r.status, json.loads(r.data)['state']), (200, 'known'))
    s.stop()


def named_files(kiln, folder):
    """A file that was uploaded says by a path where more of it is: nobody goes there."""
    path, build_id = build(kiln, folder, '-gsplit-dwarf')
    split = [f for f in os.listdir(folder) if f.endswith('.dwo')]
    check('its DWARF is in another file', split, os.listdir(folder))
    s = Server(kiln, folder)
    server = ['--server', f'http://127.0.0.1:{s.port}']
    run(kiln, 'push', *server, '--label', 'service_name=w', path + '.pb.gz')
    same('upload', run(kiln, 'debuginfo', 'upload', *server, path + '.full').returncode, 0)
    names = frames(s, 'w')
    check('what the file itself knows', 'outer' in names and 'inner' not in names, names)
    s.stop()


def main(kiln):
    if run('sh', '-c', 'command -v objcopy readelf strip').returncode:
        return skip('no binutils to strip a program with')
    with temporary() as folder:
        path, build_id = build(kiln, folder)
        for part in late, refused, quota:
            with temporary() as data:
                part(kiln, data, path, build_id)
    with temporary() as folder:
        named_files(kiln, folder)
