"""Backup, check and deletion, while the server is written to."""
import os
import shutil
import subprocess
import threading
import time

from harness import Server, check, cpu_profile, same, temporary

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
    check('check beside a server', r.returncode == 0 and 'nothing is wrong' in r.stdout, r)
    load.stop()
    same('what was sent is there', total(s, 'busy'), load.sent)
    r = run(kiln, 'server', 'backup', '--data', data, to)
    check('an old backup is not overwritten', r.returncode == 2 and 'exists' in r.stderr, r)
    check('nothing half is left', not os.path.exists(to + '.partial'), os.listdir(folder))
    r = run(kiln, 'server', 'check', '--data', to)
    check('the backup is whole', r.returncode == 0 and ' 3 days' in r.stdout, r)
    # The backup as a server's data.
    with temporary() as other:
        shutil.copytree(to, os.path.join(other, 'data'))
        restored = Server(kiln, other)
        same('restored', (total(restored, 'one'), total(restored, 'two')), (3, 3))
        n = total(restored, 'busy')
        check('what was acknowledged before', before <= n <= after, (before, n, after))
        same('and it goes on', (push(restored, 'one', NOW), total(restored, 'one')), (200, 4))
        restored.stop()


def damage(kiln, folder):
    """Of the copy: bytes in the middle of a day are overwritten."""
    copy = os.path.join(folder, 'copy', 'tenants', 'anonymous')
    day = sorted(os.listdir(copy))[0]
    with open(os.path.join(copy, day), 'r+b') as file:
        file.seek(4096 * 2)
        file.write(b'damage!!' * 1536)
    r = run(kiln, 'server', 'check', '--data', os.path.join(folder, 'copy'))
    check('damage is found', r.returncode == 1 and day in r.stdout and 'nothing is wrong' not in r.stdout, r)
    for words, text in [(['check', '--data', folder + '/none'], 'not the data'), (['check', 'x'], 'too much'),
                        (['backup'], 'where to'), (['backup', '--data', folder + '/none', folder + '/x'], 'not the data'),
                        (['delete-service'], 'which service'), (['delete-service', 'a', 'b'], 'too much')]:
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
        deletion(kiln, s)
        s.stop()
    scopes(kiln)
