"""Functions as metrics: /metrics/functions has what /api/v1/functions/series answers; tenants, odd names, bounds."""
import json
import os
import re
import shutil
import subprocess
import time

from harness import CPU, Server, check, cpu_profile, profile, same, skip, temporary, until

HEAP = 'memory:inuse_space:bytes:space:bytes'
ALLOC = 'memory:alloc_space:bytes:space:bytes'
MEMORY = [('alloc_space', 'bytes'), ('inuse_space', 'bytes')]
CONFIG = '''
auth:
  - {token: all-of-one, scopes: [push, read], tenants: [one]}
  - {token: all-of-two, scopes: [push, read], tenants: [two]}
  - {token: all-of-all, scopes: [push, read, admin], tenants: ["*"]}
rules:
  - {query: 'CPU{service_name=~"shop|bank"}', function: [json_parse, nobody], by: [region, host.name], labels: {team: x}, tenant: one, window: 10s}
  - {query: 'CPU{service_name="shop"}', function_regex: '^json_', by: [region], tenant: one, window: 10s}
  - {query: 'CPU', function_regex: '^json_parse$', by: [region], tenant: one, window: 10s}
  - {query: 'HEAP{}', function: make, tenant: one, window: 10s}
  - {query: 'ALLOC{}', function: make, tenant: one, window: 10s}
  - {query: 'CPU{service_name="odd"}', function_regex: '.', tenant: one, window: 10s}
  - {query: 'CPU{}', function_regex: '^f', tenant: two, window: 10s, limit: 5}
'''.replace('CPU', CPU).replace('HEAP', HEAP).replace('ALLOC', ALLOC)
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs')
METRIC = re.compile(r'(?<![\w:$])(kiln_\w+|process_\w+)(?![\w:])')
LINE = re.compile(r'(\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\} (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def bearer(token):
    return {'Authorization': 'Bearer ' + token}


def labels(service, region, name='process_cpu', **more):
    return {'__name__': name, 'service_name': service, 'region': region, **more}


def read(text):
    """{(metric, labels): value}"""
    values = {}
    for line in text.splitlines():
        if line.startswith('#'):
            continue
        found = LINE.match(line)
        check('a line of a series', found, line)
        key = found[1], tuple((k, v.replace('\\n', '\n').replace('\\"', '"').replace('\\\\', '\\')) for k, v in LABEL.findall(found[2]))
        check('no series twice', key not in values, key)
        values[key] = float(found[3])
    return values


def shown(s, token='all-of-one'):
    r = s.ask('GET', '/metrics/functions', headers=bearer(token))
    same('its type', (r.status, r.getheader('Content-Type')), (200, 'text/plain; version=0.0.4; charset=utf-8'))
    return r.plain.decode()


def fill(s, now):
    """Every second has another value, so that a window tells itself."""
    series = []
    for i, at in enumerate(range(now - 110, now + 60)):
        stacks = {('main', 'json_parse', 'read'): i + 1, ('main', 'json_parse'): 2, ('main', 'json_write'): 3, ('main', 'other'): 4}
        series.append((labels('shop', 'eu', **{'host.name': 'a'}), cpu_profile(stacks, at)))
        if i % 2:
            series.append((labels('bank', 'us'), cpu_profile({('main', 'json_parse'): i + 5}, at)))
        series.append((labels('shop', 'eu', 'memory'), profile(MEMORY, ('space', 'bytes', 524288), {('main', 'make'): [1000 * i, 10**6 + i], ('main', 'keep'): [1, 5]}, at)))
    for i in range(0, len(series), 200):
        same('push', s.push(series[i:i + 200], headers=bearer('all-of-one')).status, 200)
    odd = {('main', 'a"b\\c\nd'): 3, ('main', '\u00e4\u4e2d'): 2, ('main', 'x' * 5000): 1}
    same('push', s.push([(labels('odd', 'eu'), cpu_profile(odd, at)) for at in range(now - 110, now + 60, 2)], headers=bearer('all-of-one')).status, 200)
    many = {('main', f'f{i}'): i + 1 for i in range(50)}
    same('push', s.push([(labels('many', 'eu'), cpu_profile(many, at)) for at in range(now - 110, now + 60, 2)], headers=bearer('all-of-two')).status, 200)


def api(s, function, query, end, group):
    r = s.ask('GET', '/api/v1/functions/series', headers=bearer('all-of-one'), query=[
        ('query', query), ('function', function), ('from', end - 10), ('until', end - 1), ('step', 10), *(('groupBy', g) for g in group)])
    return {tuple((x['name'], x['value']) for x in one.get('labels', [])): (one['total'][0], one['self'][0], one['all'][0])
            for one in json.loads(r.plain).get('series', []) if one['times'][:1] == [(end - 10) * 1000]}


def as_the_api(s, now):
    """The values are those of one of the windows, and the rule's own."""
    values = read(shown(s))
    for what, metric, query, function, group, per in [
            ('CPU time', 'cpu_cores', CPU + '{service_name=~"shop|bank"}', 'json_parse', ['service_name', 'region', 'host.name'], 10 * 10**9),
            ('CPU time by a pattern', 'cpu_cores', CPU + '{service_name="shop"}', 'json_write', ['service_name', 'region'], 10 * 10**9),
            ('memory in use', 'bytes', HEAP + '{}', 'make', ['service_name'], 1), ('allocations', 'bytes_per_second', ALLOC + '{}', 'make', ['service_name'], 10)]:
        names = [g.replace('.', '_') for g in group]
        got = {}
        for (name, pairs), value in values.items():
            pairs = dict(pairs)
            if pairs['function'] != function or not name.endswith(metric) or metric == 'bytes' and pairs['profile_type'] != HEAP or ('team' in pairs) != ('host.name' in group):
                continue
            same(f'{what}: labels', (pairs['tenant'], pairs['profile_type'].split(':')[0] in ('process_cpu', 'memory')), ('one', True))
            key = tuple((g, pairs[n]) for g, n in sorted(zip(group, names)) if n in pairs)
            got.setdefault(key, {})[name] = value
        got = {key: tuple(round(v[f'kiln_function_{kind}{metric}'] * per) for kind in ('', 'self_', 'service_')) for key, v in got.items()}
        windows = {end: {k: tuple(round(x) for x in v) for k, v in api(s, function, query, end, group).items()} for end in range(now // 10 * 10 - 100, int(time.time()), 10)}
        close = lambda a, b: a.keys() == b.keys() and all(abs(x - y) <= 1e-8 * abs(y) + 1 for k in a for x, y in zip(a[k], b[k]))
        check(f'{what}: as the API answers', got and any(close(got, w) for w in windows.values()), (got, windows))
    same('who is nobody is zero', {v for (name, pairs), v in values.items() if dict(pairs)['function'] == 'nobody' and name == 'kiln_function_cpu_cores'}, {0.0})
    functions = {dict(pairs)['function'] for _, pairs in values}
    check('odd names', {'a"b\\c\nd', '\u00e4\u4e2d', 'x' * 5000, 'json_write'} <= functions and 'other' not in functions, [f[:50] for f in functions])


def refusals(kiln):
    query = f"query: '{CPU}{{}}'"
    with temporary() as folder:
        for what, text, words in [
                ('no query', '{function: a}', 'rules: query is missing'), ('no function', f'{{{query}}}', 'function or function_regex is missing'), ('no type', "{query: '{a=\"b\"}', function: a}", 'must begin with'),
                ('a bad selector', f"{{query: '{CPU}{{a=', function: a}}", 'query:'), ('counts', "{query: 'process_cpu:samples:count:cpu:nanoseconds{}', function: a}", 'CPU time'),
                ('a bad pattern', f"{{{query}, function_regex: '('}}", 'function_regex:'), ('a label of the server', f'{{{query}, function: a, labels: {{function: b}}}}', "'function' is set"),
                ('labels that are one', f'{{{query}, function: a, by: [a.b, a-b]}}', "'a_b' is given twice"), ('a short window', f'{{{query}, function: a, window: 1s}}', 'window: must be'),
                ('no series', f'{{{query}, function: a, limit: 0}}', 'limit: must be'), ('a tenant that is none', f'{{{query}, function: a, tenant: ../x}}', 'not a tenant name'),
                ('many', ', '.join(f'{{{query}, function: a}}' for _ in range(101)), 'at most')]:
            with open(folder + '/kiln.yaml', 'w') as file:
                file.write(f'data: {folder}/data\nlisten: 127.0.0.1:0\nrules: [{text}]\n')
            got = subprocess.run([kiln, 'server', '--config', folder + '/kiln.yaml'], capture_output=True, text=True, timeout=20)
            check(f'refused: {what}', got.returncode == 2 and 'kiln.yaml:' in got.stderr and words in got.stderr, (got.returncode, got.stderr))


def documents(known):
    """What docs/ has for Prometheus and Grafana can be read, and asks only for metrics that there are."""
    used = set()
    with open(os.path.join(DOCS, 'grafana', 'kiln.json')) as file:
        dashboard = json.load(file)
    for panel in dashboard['panels']:
        if panel['type'] == 'row':
            continue
        same(f'{panel["title"]}: the data source is a variable', {t['datasource']['uid'] for t in [panel, *panel['targets']]}, {'${datasource}'})
        used |= {name for t in panel['targets'] for name in METRIC.findall(t['expr'])}
    same('ids of panels', len({p['id'] for p in dashboard['panels']}), len(dashboard['panels']))
    used |= {name for v in dashboard['templating']['list'] for name in METRIC.findall(v.get('definition', ''))}
    rules = os.path.join(DOCS, 'prometheus', 'kiln-rules.yaml')
    with open(rules) as file:
        used |= {name for line in file if not line.lstrip().startswith(('#', 'summary')) for name in METRIC.findall(line)}
    # With ClickHouse, and while something is scraped, only.
    elsewhere = {'kiln_store_spool_bytes', 'kiln_store_spool_limit_bytes', 'kiln_scrape_up'}
    same('metrics that there are not', used - known - elsewhere, set())
    promtool = shutil.which('promtool')
    if not promtool:
        return skip('no promtool (Debian: prometheus)')
    got = subprocess.run([promtool, 'check', 'rules', '--lint-fatal', rules], capture_output=True, text=True)
    check('promtool takes the rules', got.returncode == 0, got.stdout + got.stderr)


def main(kiln):
    refusals(kiln)
    with temporary() as folder:
        now = int(time.time())
        s = Server(kiln, folder, config=CONFIG.replace('rules:', 'x:').split('x:')[0])
        same('no rules', shown(s), '')
        fill(s, now)
        s.stop()
        s.write(CONFIG)
        s.start()
        metrics = lambda: s.ask('GET', '/metrics', headers=bearer('all-of-one')).plain.decode()
        count = lambda name: float(re.search(rf'(?m)^{name} (\S+)$', metrics())[1])
        check('all rules are evaluated', until(lambda: count('kiln_rules_evaluated_total') >= 7, 120), metrics()[-300:])
        as_the_api(s, now)
        same('none failed', count('kiln_rules_failed_total'), 0)
        other = read(shown(s, 'all-of-two'))
        same('only those of a tenant', {dict(pairs)['tenant'] for _, pairs in other}, {'two'})
        same('and the largest functions', sorted(dict(pairs)['function'] for name, pairs in other if name == 'kiln_function_cpu_cores'), [f'f{i}' for i in range(45, 50)])
        same('an administrator sees all', {dict(pairs)['tenant'] for _, pairs in read(shown(s, 'all-of-all'))}, {'one', 'two'})
        same('nobody sees nothing', s.ask('GET', '/metrics/functions').status, 401)
        promtool = shutil.which('promtool')
        if promtool:
            for what, text in ('functions', shown(s, 'all-of-all')), ('metrics', metrics()):
                got = subprocess.run([promtool, 'check', 'metrics'], input=text, capture_output=True, text=True)
                # 3: it would have other names, such as those of kiln_http_answers_total's neighbors.
                check(f'promtool reads {what}', got.returncode in (0, 3) and 'error while linting' not in got.stderr, got.stderr[-500:])
        else:
            skip('no promtool (Debian: prometheus)')
        documents(set(re.findall(r'(?m)^# TYPE (\S+)', metrics() + shown(s, 'all-of-all'))))
        same('it stops', s.stop(), 0)
