"""Backup, check and deletion, while the server is written to."""
import fcntl
import os
import shutil
import subprocess
import tempfile
import threading
import time

from harness import Server, check, cpu_profile, same, skip, temporary

JSON = {'Content-Type': 'application/json'}
STACKS = {('main', 'a'): 3, ('main', 'b'): 7}
NOW = int(time.time())
RANGE = ((NOW - 3 * 86400) * 1000, (NOW + 3600) * 1000)


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=300)


def push(s, service, when, **more):
    return s.push([({'__name__': 'process_cpu', 'service_name': service, **more}, cpu_profile(STACKS, when))]).status


def total(s, service):
    """How many pushes of a service are there."""
    got = s.flame('{service_name="%s"}' % service, *RANGE)
    return got[('main',)][0] // 10**8 if got else 0


class Load:
    """Pushes of one service after the other until it is stopped."""

    def __init__(self, s, service):
        self.s, self.service = s, service
        self.sent, self.stopping, self.bad = 0, False, []
        self.thread = threading.Thread(target=self.go)
        self.thread.start()

    def go(self):
        while not self.stopping:
            status = push(self.s, self.service, NOW - 100)
            if status != 200:
                self.bad.append(status)
                return
            self.sent += 1

    def stop(self):
        self.stopping = True
        self.thread.join()
        same(f'pushes meanwhile: {self.service}', self.bad, [])


def backup(kiln, s, folder):
    data, to = os.path.join(folder, 'data'), os.path.join(folder, 'copy')
    for service in 'one', 'two':
        same('push', [push(s, service, NOW - d * 86400 - 100) for d in (0, 1, 2)], [200] * 3)
    load = Load(s, 'busy')
    time.sleep(0.5)
    before = load.sent
    r = run(kiln, 'server', 'backup', '--data', data, to)
    after = load.sent + 1  # one may be under way
    same('backup', (r.returncode, r.stdout, r.stderr), (0, '', ''))
    r = run(kiln, 'server', 'check', '--data', data)
    check('check beside a server', r.returncode == 0 and 'no damage found' in r.stdout, r)
    load.stop()
    same('what was sent is there', total(s, 'busy'), load.sent)
    r = run(kiln, 'server', 'backup', '--data', data, to)
    check('an old backup is not overwritten', r.returncode == 2 and 'exists' in r.stderr, r)
    check('nothing half is left', not os.path.exists(to + '.partial'), os.listdir(folder))
    r = run(kiln, 'server', 'check', '--data', to)
    check('the backup is whole', r.returncode == 0 and ' 3 days' in r.stdout, r)
    same('other users of the machine can read nothing', modes(data, to), [])
    # The backup as a server's data.
    with temporary() as other:
        shutil.copytree(to, os.path.join(other, 'data'))
        restored = Server(kiln, other)
        same('restored', (total(restored, 'one'), total(restored, 'two')), (3, 3))
        n = total(restored, 'busy')
        check('what was acknowledged before', before <= n <= after, (before, n, after))
        same('and it goes on', (push(restored, 'one', NOW), total(restored, 'one')), (200, 4))
        restored.stop()


def debug_file(folder):
    """A program that a server keeps as a debug file."""
    path = os.path.join(folder, 'app')
    with open(path + '.c', 'w') as file:
        file.write('int main(void) { return 0; }\n')
    made = run('cc', '-g', '-Wl,--build-id', '-o', path, path + '.c')
    if made.returncode:
        raise RuntimeError(made.stderr)
    with open(path, 'rb') as file:
        return file.read()


def tree(folder):
    """{path: bytes} of the files below a directory."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(where, name), 'rb') as file:
                found[os.path.relpath(os.path.join(where, name), folder)] = file.read()
    return found


def modes(*folders):
    """Paths that others may read."""
    return [path for folder in folders for where, folders, names in os.walk(folder)
            for path in [where, *(os.path.join(where, n) for n in names)] if path != folder and os.lstat(path).st_mode & 0o7]


def other_disk(kiln, s, folder):
    """To a file system that the data is not on."""
    data = os.path.join(folder, 'data')
    if not os.path.isdir('/dev/shm') or os.stat('/dev/shm').st_dev == os.stat(folder).st_dev:
        return skip('/dev/shm is not another disk')
    r = s.ask('POST', '/api/v1/debuginfo/upload', debug_file(folder), {'Content-Type': 'application/octet-stream'})
    same('a debug file', r.status, 200)
    sparse = os.path.join(data, 'debuginfo', 'anonymous', 'aa', 'bb.debug')
    os.makedirs(os.path.dirname(sparse))
    with open(sparse, 'wb') as file:
        file.seek(64 << 20)
        file.write(b'end')
    files = tree(os.path.join(data, 'debuginfo'))
    with tempfile.TemporaryDirectory(prefix='kiln-backup-', dir='/dev/shm') as there:
        to = os.path.join(there, 'copy')
        r = run(kiln, 'server', 'backup', '--data', data, to + '/')
        same('backup to another disk', (r.returncode, r.stdout, r.stderr), (0, '', ''))
        same('its debug files', tree(os.path.join(to, 'debuginfo')) == files, True)
        check('a hole stays one', os.stat(os.path.join(to, 'debuginfo/anonymous/aa/bb.debug')).st_blocks < 1024)
        same('nothing else is left', (os.listdir(there), sorted(os.listdir(to))), (['copy'], ['debuginfo', 'tenants']))
    os.remove(sparse)


def leftovers(kiln, folder):
    """Of a backup that was interrupted: removed. What is not of a backup: not."""
    data, to = os.path.join(folder, 'data'), os.path.join(folder, 'again')
    part = to + '.partial'
    backup = lambda: run(kiln, 'server', 'backup', '--data', data, to)
    for what in 'killed', 'of an earlier version', 'empty':
        if what == 'killed':
            # The directory of a backup that is stopped in the middle.
            process = subprocess.Popen([kiln, 'server', 'backup', '--data', data, to])
            while not os.path.exists(part) and process.poll() is None:
                pass
            process.kill()
            process.wait()
            shutil.rmtree(to, ignore_errors=True)  # it may have been quick
        os.makedirs(part if what != 'of an earlier version' else part + '/tenants/anonymous', exist_ok=True)
        r = backup()
        same(f'after one that was {what}', (r.returncode, r.stderr, os.path.exists(part)), (0, '', False))
        r = run(kiln, 'server', 'check', '--data', to)
        same(f'after one that was {what}: it is whole', r.returncode, 0)
        shutil.rmtree(to)
    os.makedirs(part)
    with open(os.path.join(part, 'thesis.txt'), 'w') as file:
        file.write('mine')
    r = backup()
    check('a directory of somebody else', r.returncode == 2 and 'not an interrupted backup' in r.stderr and
          os.listdir(part) == ['thesis.txt'] and not os.path.exists(to), r)
    os.remove(os.path.join(part, 'thesis.txt'))
    with open(os.path.join(part, 'kiln-backup-is-incomplete'), 'w') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        r = backup()
        check('one that is running', r.returncode == 2 and 'is running' in r.stderr and os.listdir(part), r)
    same('it has ended', (backup().returncode, os.path.exists(part)), (0, False))
    shutil.rmtree(to)


def full_disk(kiln, folder):
    data, disk = os.path.join(folder, 'data'), os.path.join(folder, 'disk')
    os.makedirs(disk)
    if run('unshare', '-m', 'mount', '-t', 'tmpfs', 'none', disk).returncode:
        return skip('no right to mount a file system')
    whole = os.path.join(folder, 'whole')
    same('backup', run(kiln, 'server', 'backup', '--data', data, whole).returncode, 0)
    size = {kind: sum(len(text) for text in tree(os.path.join(whole, kind)).values()) for kind in ('tenants', 'debuginfo')}
    # Too small for the databases; too small for the debug files beside them.
    for size in 32 << 10, size['tenants'] + size['debuginfo'] // 2:
        r = run('unshare', '-m', 'sh', '-c', 'mount -t tmpfs -o size=$1 none "$2" && "$3" server backup --data "$4" "$2/copy"; '
                'echo $?; ls -A "$2"', 'sh', str(size), disk, kiln, data)
        check(f'a full disk of {size} bytes', r.stdout == '2\n' and ('No space' in r.stderr or 'full' in r.stderr) and disk in r.stderr, r)


def damage(kiln, folder):
    """Of the copy: bytes in the middle of a day are overwritten."""
    copy = os.path.join(folder, 'copy', 'tenants', 'anonymous')
    day = sorted(os.listdir(copy))[0]
    with open(os.path.join(copy, day), 'r+b') as file:
        file.seek(4096 * 2)
        file.write(b'damage!!' * 1536)
    r = run(kiln, 'server', 'check', '--data', os.path.join(folder, 'copy'))
    check('damage is found', r.returncode == 1 and day in r.stdout and 'no damage found' not in r.stdout, r)
    with open(os.path.join(copy, 'names.db'), 'wb') as file:
        file.write(b'no database at all' * 100)
    r = run(kiln, 'server', 'backup', '--data', os.path.join(folder, 'copy'), os.path.join(folder, 'rest'))
    check('a backup leaves out what cannot be read', r.returncode == 1 and 'names.db is damaged' in r.stdout and 'not in the backup' in r.stdout and not r.stderr, r)
    same('and has the rest', sorted(os.listdir(os.path.join(folder, 'rest/tenants/anonymous'))), sorted(set(os.listdir(copy)) - {'names.db'}))
    for words, text in [(['check', '--data', folder + '/none'], 'not the data'), (['check', 'x'], 'unexpected argument'),
                        (['backup'], 'no destination'), (['backup', '--data', folder + '/none', folder + '/x'], 'not the data'),
                        (['delete-service'], 'no service'), (['delete-service', 'a', 'b'], 'unexpected argument')]:
        r = run(kiln, 'server', *words)
        check(f'{words}', r.returncode == 2 and text in r.stderr, r)


def deletion(kiln, s):
    url = f'http://127.0.0.1:{s.port}'
    load = Load(s, 'other')
    same('push', [push(s, 'a&b=c', NOW - d * 86400 - 100) for d in (0, 1, 2)], [200] * 3)
    time.sleep(0.3)
    r = run(kiln, 'server', 'delete-service', '--server', url, 'a&b=c')
    same('delete-service', (r.returncode, r.stderr), (0, ''))
    names = s.json('LabelValues', {'name': 'service_name', 'start': RANGE[0], 'end': RANGE[1]})['names']
    check('it is gone, the others are not', 'a&b=c' not in names and {'one', 'two', 'other'} <= set(names), names)
    same('it may come again', (push(s, 'a&b=c', NOW - 50), total(s, 'a&b=c')), (200, 1))
    load.stop()
    same('nothing of others is lost', (total(s, 'other'), total(s, 'one')), (load.sent, 3))
    ask = lambda *a, **k: s.ask(*a, **k).status
    same('not by GET', ask('GET', '/api/v1/services/delete?service_name=one'), 405)
    same('not by a form of a page', ask('POST', '/api/v1/services/delete?service_name=one', b'x', {'Content-Type': 'text/plain'}), 415)
    same('which one?', ask('POST', '/api/v1/services/delete', b'{}', JSON), 400)


def scopes(kiln):
    config = '''
auth:
  - {token: push-token-1, scopes: [push], tenants: [one]}
  - {token: read-token-1, scopes: [read], tenants: [one]}
  - {token: admin-token, scopes: [admin], tenants: [one]}
  - {token: admin-of-two, scopes: [admin], tenants: [two]}
'''
    with temporary() as folder:
        s = Server(kiln, folder, config=config)
        bearer = lambda token: {'Authorization': 'Bearer ' + token}
        s.push([({'__name__': 'process_cpu', 'service_name': 'x'}, cpu_profile(STACKS, NOW))], headers=bearer('push-token-1'))
        delete = lambda headers: s.ask('POST', '/api/v1/services/delete?service_name=x', b'{}', {**JSON, **headers}).status
        there = lambda: bool(s.flame('{service_name="x"}', *RANGE, headers=bearer('read-token-1')))
        same('who may delete', [delete({}), delete(bearer('push-token-1')), delete(bearer('read-token-1'))], [401, 403, 403])
        same('another tenant', [delete(bearer('admin-of-two')), delete({**bearer('admin-of-two'), 'X-Scope-OrgID': 'one'}), there()],
             [200, 403, True])
        same('its own', [delete(bearer('admin-token')), there()], [200, False])
        s.stop()


def main(kiln):
    with temporary() as folder:
        s = Server(kiln, folder)
        backup(kiln, s, folder)
        damage(kiln, folder)
        other_disk(kiln, s, folder)
        leftovers(kiln, folder)
        full_disk(kiln, folder)
        deletion(kiln, s)
        s.stop()
    scopes(kiln)
