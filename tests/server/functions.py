"""A function over time: /api/v1/functions/series, SelectSeries with a stack trace selector, kiln query function."""
import json
import os
import pty
import subprocess
import time

from harness import CPU, Server, check, cpu_profile, profile, same, temporary

T = int(time.time()) // 3600 * 3600 - 7200  # an hour's beginning
PATH = '/api/v1/functions/series'
# {stack: samples of 10 ms}; the third calls itself
FIRST = {('main', 'a', 'x'): 3, ('main', 'b'): 7, ('main', 'a', 'b', 'a'): 2}
SECOND = {('main', 'b', 'x'): 4, ('other',): 1}
ALL = f'{CPU}{{service_name="shop"}}'


def labels(pod):
    return {'__name__': 'process_cpu', 'service_name': 'shop', 'pod': pod}


def ask(s, function='a', query=ALL, start=T, end=T + 3599, **more):
    parameters = {'query': query, 'from': start, 'until': end, 'step': 300, **({'function': function} if function else {}), **more}
    r = s.ask('GET', PATH, query=[(k, v) for k, vs in parameters.items() for v in (vs if isinstance(vs, list) else [vs])])
    return r.status, json.loads(r.plain)


def columns(answer):
    """{labels: [(seconds after T, self, total, all), in samples]}"""
    return {tuple((x['name'], x['value']) for x in one.get('labels', [])): [
        (t / 1000 - T, *(v / 10**7 for v in rest)) for t, *rest in zip(one['times'], one['self'], one['total'], one['all'])]
        for one in answer.get('series', [])}


def answers(s, what):
    status, got = ask(s)
    same(f'{what}: a function', (status, columns(got)), (200, {(): [(0, 2, 5, 17), (300, 0, 0, 5)]}))
    same(f'{what}: what it is', (got['function'], got['profileTypeID'], got['step'], got['start']), ('a', CPU, 300, T * 1000))
    same(f'{what}: by pod', columns(ask(s, groupBy='pod')[1]), {(('pod', 'a'),): [(0, 2, 5, 12), (300, 0, 0, 5)], (('pod', 'b'),): [(0, 0, 0, 5)]})
    same(f'{what}: of one pod', columns(ask(s, 'x', query=CPU + '{pod="b"}')[1]), {(): [(0, 4, 4, 5)]})
    same(f'{what}: the largest', list(columns(ask(s, 'a', groupBy='pod', limit=1)[1])), [(('pod', 'a'),)])
    same(f'{what}: in one step', columns(ask(s, 'x', step=3600)[1]), {(): [(0, 11, 11, 22)]})
    same(f'{what}: steps from 1970 on', columns(ask(s, start=1, end=T, step=T // 2)[1]), {(): [(0, 2, 5, 22)]})
    same(f'{what}: a range is made of whole steps', columns(ask(s, 'x', start=T + 250, end=T + 260)[1]), {(): [(0, 7, 7, 17)]})
    same(f'{what}: no such function', columns(ask(s, 'nobody')[1]), {(): [(0, 0, 0, 17), (300, 0, 0, 5)]})
    same(f'{what}: no such service', columns(ask(s, query=CPU + '{service_name="none"}')[1]), {})
    same(f'{what}: a call site', columns(ask(s, None, callSite=['main', 'a'])[1]), {(): [(0, 0, 5, 17), (300, 0, 0, 5)]})
    same(f'{what}: a root', columns(ask(s, None, callSite='other')[1])[()][0], (0, 1, 1, 17))
    # As Pyroscope answers: the values of stacks that begin with these frames, at the end of their steps.
    request = {'profileTypeID': CPU, 'labelSelector': '{service_name="shop"}', 'start': T * 1000, 'end': (T + 900) * 1000, 'step': 300}
    points = lambda *site: [[(int(p['timestamp']) / 1000 - T, p.get('value', 0) / 10**7) for p in one['points']]
                            for one in s.json('SelectSeries', {**request, 'stackTraceSelector': {'callSite': [{'name': n} for n in site]}})['series']]
    same(f'{what}: SelectSeries below main;a', points('main', 'a'), [[(0, 5), (300, 0), (600, 0)]])
    same(f'{what}: SelectSeries below main', points('main'), [[(0, 12), (300, 4), (600, 4)]])
    same(f'{what}: SelectSeries of what is no root', points('a'), [[(0, 0), (300, 0), (600, 0)]])
    same(f'{what}: SelectSeries without a call site', points(), [[(0, 12), (300, 5), (600, 5)]])
    got = s.json('SelectSeries', {**request, 'exemplarType': 'EXEMPLAR_TYPE_INDIVIDUAL', 'stackTraceSelector': {'callSite': [{'name': 'main'}, {'name': 'a'}]}})['series'][0]['points']
    same(f'{what}: with exemplars, which are whole profiles', (got[0]['value'], got[0]['exemplars'][0]['value']), (5e7, '120000000'))


def refusals(s):
    for what, parameters, words in [
            ('no query', {'query': ''}, '"query" is required'), ('no type', {'query': '{}'}, 'profile-type'),
            ('a bad type', {'query': 'cpu{}'}, 'query'), ('a bad selector', {'query': CPU + '{a='}, 'parse'),
            ('no function', {'function': None}, '"function" is required'), ('both', {'callSite': 'main'}, 'cannot be combined'),
            ('a step of nothing', {'step': 0}, 'step'), ('a negative step', {'step': -5}, 'step'), ('a step of words', {'step': 'five'}, 'step'),
            ('a tiny step', {'step': 0.0001}, 'step'), ('no number', {'step': 'nan'}, 'step'), ('a huge step', {'step': 1e300}, 'step'),
            ('too many steps', {'step': 0.1}, '35991'), ('a range that ends before it begins', {'start': T, 'end': T - 1}, 'after end'),
            ('a time far away', {'end': '9' * 19}, 'out of range'), ('many labels', {'groupBy': [f'l{i}' for i in range(65)]}, 'group_by'),
            ('a limit of words', {'limit': 'few'}, 'limit'), ('a negative limit', {'limit': -1}, 'limit')]:
        status, got = ask(s, **parameters)
        check(f'refused: {what}', status == 400 and words in got['message'], (status, got))
    same('POST', s.ask('POST', PATH, b'{}', {'Content-Type': 'application/json'}).status, 405)
    same('the largest range', ask(s, start='19700102', end=9 * 10**9, step=10**9)[0], 200)
    status, got = ask(s, start='now-7d', end='now', step='')
    same('a step of its own', (status, got['step']), (200, 3600))


def command(kiln, s):
    run = lambda *words: subprocess.run([kiln, 'query', 'function', *words, '--server', f'http://127.0.0.1:{s.port}', '--from', str(T), '--until', str(T + 3599)],
                                        capture_output=True, text=True)
    got = run('a', '{service_name="shop"}', '--step', '300', '--by', 'pod')
    lines = [line.split() for line in got.stdout.splitlines()]
    same('kiln query function', [line[1:] for line in lines], [['20000000', '50000000', '120000000', 'pod=a'], ['0', '0', '50000000', 'pod=a'], ['0', '0', '50000000', 'pod=b']])
    same('its time', lines[0][0], time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(T)))
    got = run('a', '--json', '--step', '300')
    same('--json', columns(json.loads(got.stdout)), {(): [(0, 2, 5, 17), (300, 0, 0, 5)]})
    got = run('nobody', '{service_name="shop"}')
    check('an unknown function', got.returncode == 0 and 'no samples of "nobody"' in got.stderr, (got.returncode, got.stderr))
    got = run()
    check('no name', got.returncode == 2 and 'no function' in got.stderr, (got.returncode, got.stderr))
    got = run('a', '--step', 'x')
    check('a bad step', got.returncode == 2 and 'step' in got.stderr, (got.returncode, got.stderr))


def amounts(kiln, s):
    """In a terminal: only CPU time is a number of cores."""
    for name, kind, value, want in (('process_cpu', 'cpu', 10**9, '0.1 cores'), ('wall', 'wall', 10**9, '100ms/s'), ('mutex', 'delay', 10**9, '100ms/s')):
        types, period = ([(kind, 'nanoseconds')], (kind, 'nanoseconds', 1))
        same(f'push of {kind}', s.push([({'__name__': name, 'service_name': 'amounts'}, profile(types, period, {('main', 'wait'): [value]}, T + 5))]).status, 200)
        main, terminal = pty.openpty()
        done = subprocess.run([kiln, 'query', 'function', 'wait', '{service_name="amounts"}', '--type', f'{name}:{kind}:nanoseconds:{kind}:nanoseconds', '--step', '10',
                               '--server', f'http://127.0.0.1:{s.port}', '--from', str(T), '--until', str(T + 9)], stdout=terminal, stderr=subprocess.PIPE, text=True)
        os.close(terminal)
        shown = os.read(main, 65536).decode()
        os.close(main)
        check(f'{kind} is shown as {want}', done.returncode == 0 and shown.count(want) == 2, (shown, done.stderr))


def damage(s, folder):
    """A day that cannot be read is named, as in every answer."""
    s.stop()
    tenant = os.path.join(folder, 'data/tenants/anonymous')
    day = sorted(f for f in os.listdir(tenant) if f.endswith('.db') and f[0] == '2')[0]
    with open(os.path.join(tenant, day), 'r+b') as file:
        file.write(b'no database at all' * 10)
    s.start()
    status, got = ask(s)
    check('a damaged day', status == 200 and day[:10] in str(got.get('warnings')), (status, got))


def main(kiln):
    with temporary() as folder:
        s = Server(kiln, folder, config='limits: {query_time: 10s}\n')
        same('push', s.push([(labels('a'), cpu_profile(FIRST, T)), (labels('b'), cpu_profile(SECOND, T + 299.5)), (labels('a'), cpu_profile(SECOND, T + 301))]).status, 200)
        answers(s, 'fresh')
        refusals(s)
        command(kiln, s)
        amounts(kiln, s)
        damage(s, folder)
        s.stop()
