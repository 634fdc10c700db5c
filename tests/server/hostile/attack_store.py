"""What services, days, clocks and disks do to the store."""
import glob
import gzip
import json
import os
import random
import shutil
import sqlite3
import struct
import subprocess
import threading
import time
import zlib

from clients import push_body
from crowd import AUTH, BAD, CPU, GOOD, HOUR, JSON, PROTO, PUSH, QUERIER, Crowd, at_once, bearer, labels_of, last_hour
from faults import BROKEN, FULL, READ_ONLY, Faults
from harness import Profile, cpu_profile, field, message, packed, temporary, until
from scenario import Skip, scenario

DAY = 24 * HOUR
MAINTENANCE = 37  # seconds: maintenance runs every 30, and closes what it finds
SAMPLES = 'process_cpu:samples:count:cpu:nanoseconds'
OCTETS = {'Content-Type': 'application/octet-stream'}


def ordinary(n, seed):
    """A profile of n stacks, as of a service under load, without a time."""
    choose = random.Random(seed)
    p = Profile([('samples', 'count'), ('cpu', 'nanoseconds')], ('cpu', 'nanoseconds', 10**7), duration=10**10)
    m = p.mapping(0x400000, 0x500000, 0, '/bin/app', 'abcdef')
    for i in choose.sample(range(1133), n):
        ids = [p.location([(p.function(f'fn{i * 7 % 400 + d * 13}', 'a.c'), 1, 0)], m, 0x400000 + i * 7 % 400 + d * 13) for d in range(8)]
        p.sample(ids + [p.location([(p.function(f'leaf{i}', 'a.c'), 1, 0)], m, 0x480000 + i)], [choose.randrange(1, 50), choose.randrange(1, 10**9)])
    return p.bytes()


def fresh_rows(data, hour):
    """{(tenant, service): rows of the hour that are not closed}"""
    found = {}
    for path in glob.glob(f'{data}/tenants/*/2*.db'):
        db = sqlite3.connect(f'file:{path}?mode=ro', uri=True, timeout=10)
        for name, rows in db.execute('select name, (select count(*) from fresh where service = s.id and hour = ?) from service s', (hour,)):
            found[path.split('/')[-2], name] = found.get((path.split('/')[-2], name), 0) + rows
        db.close()
    return found


@scenario(3, waits=True, embedded=True)
def closing(ctx):
    """An hour of many replicas with one label set is closed, and does not stop others from being closed."""
    hour = time.time_ns() // HOUR - 3
    pool = [ordinary(480, i) for i in range(12)]
    with Crowd(ctx, {'memory': '32MiB'}, clients=False) as c:
        n, pushed = 3000, []
        for service, token, count in (('crowded', BAD, n), ('later', BAD, 20), ('other', GOOD, 20)):
            for at in range(0, count, 60):
                body = b''.join(push_body(labels_of(service), pool[i % 12] + field(9, hour * HOUR + i * (HOUR // n))) for i in range(at, min(at + 60, count)))
                pushed.append(until(lambda: c.server.post(PUSH, body, {**PROTO, **bearer(token)})[0] == 200, 20))
        ctx.check('setup', all(pushed), f'{len(pushed) - pushed.count(True)} requests were refused for 20 s')
        before = c.server.total('crowded', bearer(BAD), span=6 * 3600)
        yield MAINTENANCE
        data = os.path.join(c.folder.name, 'data')
        closed = until(lambda: not any(fresh_rows(data, hour).values()), 30)
        ctx.check('every hour is closed', closed, fresh_rows(data, hour))
        ctx.same('the sum is the same', c.server.total('crowded', bearer(BAD), span=6 * 3600), before)
        ctx.check('memory', c.server.peak() < ctx.memory, f'{c.server.peak()} MiB')


def many_symbols(i, n):
    strings = [b'', b'samples', b'count', b'cpu', b'nanoseconds', b'a.c'] + [b'generated.Lambda$%d$%d.apply(Ljava/lang/Object;)V' % (i, k) for k in range(n)]
    out = [field(1, message((1, 1), (2, 2))), field(11, message((1, 3), (2, 4))), field(12, 1)]
    for k in range(n):
        out.append(field(5, message((1, k + 1), (2, 6 + k), (3, 6 + k), (4, 5))) + field(4, message((1, k + 1)) + field(4, message((1, k + 1), (2, 1)))))
        if k % 50 == 49:
            out.append(field(2, packed(1, range(k - 48, k + 2)) + packed(2, [1])))
    return b''.join([*out, *(field(6, s) for s in strings), message((9, time.time_ns()), (10, 10**9))])


@scenario(4, measures=False)
def memory_lowered(ctx):
    """A lower limits.memory after a restart: a service may be refused, no day is taken for damaged."""
    with Crowd(ctx, clients=False) as c:
        s, h = c.server, bearer(GOOD)
        for i in range(20):
            s.push([(labels_of('quiet'), cpu_profile({('m', 'x'): 1}, time.time() - i))], headers=h)
        for i in range(6):
            status, data = s.post(PUSH, push_body(labels_of('fat'), many_symbols(i, 20000)), {**PROTO, **h})
            ctx.check('setup', status == 200, (status, data[:100]))
        quiet, fat = 20, s.total('fat', h, SAMPLES)
        for memory in ('32MiB', '16MiB', '128MiB'):
            ctx.same(f'{memory}: stop', s.end()[0], 0)
            s.write(c.configuration(memory=memory))
            s.start()
            ctx.same(f'{memory}: the other service is shown', s.total('quiet', h), quiet * 10**7)
            status, data = s.post(PUSH, push_body(labels_of('fat'), many_symbols(0, 100)), {**PROTO, **h})
            fat += 2 * (status == 200)
            ctx.check(f'{memory}: a push is stored or refused', status in (200, 429), (status, data[:200]))
            status, data = s.post(PUSH, push_body(labels_of('quiet'), cpu_profile({('m', 'x'): 1}, time.time())), {**PROTO, **h})
            quiet += status == 200
            ctx.check(f'{memory}: the other service is stored', status == 200, (status, data[:200]))
            ctx.same(f'{memory}: and shown', s.total('quiet', h), quiet * 10**7)
            damaged = glob.glob(f'{c.folder.name}/data/tenants/*/*damaged*')
            ctx.check(f'{memory}: no day is moved aside', not damaged, damaged)
        ctx.same('with the old limit everything is there', s.total('fat', h, SAMPLES), fat)


@scenario(7)
def symbols_in_use(ctx):
    """Three tenants ask for many services at once whose symbols fill what a service may have: these count for the tenants'
    memory, and something is left for the others."""
    bad = [f'token-of-bad-{i}' for i in range(3)]
    tokens = ''.join(f'  - {{token: {token}, scopes: [push, read], tenants: [bad{i}]}}\n' for i, token in enumerate(bad))
    with Crowd(ctx, settings=AUTH + tokens) as c:
        pushes = [gzip.compress(many_symbols(i, 20000), 1) for i in range(5)]
        services = [(f'fat{k}', bearer(bad[k % 3])) for k in range(24)]
        for service, h in services:
            for profile in pushes:
                c.server.post(PUSH, push_body(labels_of(service), profile), {**PROTO, **h})

        def ask(service, h):
            query = {**last_hour(), 'profileTypeID': SAMPLES, 'labelSelector': '{service_name="%s"}' % service, 'maxNodes': 16}
            return [c.server.post(QUERIER + 'SelectMergeStacktraces', json.dumps(query).encode(), {**JSON, **h})[0] for _ in range(2)]
        with c.attack('queries of many symbols'):
            results = at_once([lambda service=service, h=h: ask(service, h) for service, h in services])
        statuses = {status for result in results for status in result or ['none']}
        ctx.check('they are answered, or refused for memory', statuses <= {200, 429, 504}, statuses)
        ctx.check('some are answered', 200 in statuses, statuses)


def debug_file(folder):
    source, elf = os.path.join(folder, 'd.c'), os.path.join(folder, 'd.elf')
    with open(source, 'w') as file:
        file.write('int f(int x) { return x * 2; } int main(void) { return f(3); }\n')
    if subprocess.run(['cc', '-g', '-Wl,--build-id', '-o', elf, source]).returncode:
        raise Skip('no C compiler')
    with open(elf, 'rb') as file:
        return file.read()


@scenario(5, measures=False, embedded=True)
def backup_to_another_disk(ctx):
    with Crowd(ctx, clients=False) as c:
        elf, other = debug_file(c.folder.name), '/dev/shm'
        if not os.path.isdir(other) or os.stat(other).st_dev == os.stat(c.folder.name).st_dev:
            raise Skip('no second disk')
        s, h = c.server, bearer(GOOD)
        s.push([(labels_of('x'), cpu_profile({('a',): 1}, time.time()))], headers=h)
        ctx.same('upload', s.post('/api/v1/debuginfo/upload', elf, {**OCTETS, **h})[0], 200)
        to = os.path.join(other, f'kiln-backup-{os.getpid()}')
        try:
            run = lambda *words: subprocess.run([ctx.kiln, 'server', *words], capture_output=True, text=True, timeout=60)
            backup = lambda: run('backup', '--data', os.path.join(c.folder.name, 'data'), to)
            r = backup()
            ctx.check('backup', r.returncode == 0, (r.returncode, r.stderr[-300:]))
            r = run('check', '--data', to)
            ctx.check('the backup is whole', r.returncode == 0, r.stdout[-300:] + r.stderr[-300:])
            files = [f for d, _, names in os.walk(to) for f in names if 'debuginfo' in d]
            ctx.check('with the debug file', files, os.listdir(to) if os.path.isdir(to) else 'nothing')
            shutil.rmtree(to, ignore_errors=True)
            # What an earlier backup left when it was killed.
            os.makedirs(to + '.partial/tenants/good', exist_ok=True)
            with open(to + '.partial/tenants/good/2026-01-01.db', 'wb') as file:
                file.write(bytes(4096))
            r = backup()
            ctx.check('an earlier attempt is in the way of nobody', r.returncode == 0 and not os.path.exists(to + '.partial'), (r.returncode, r.stderr[-300:]))
            ctx.same('and leaves nothing in it', run('check', '--data', to).returncode, 0)
        finally:
            shutil.rmtree(to, ignore_errors=True)
            shutil.rmtree(to + '.partial', ignore_errors=True)


@scenario(13)
def debug_file_quota(ctx):
    """Parts of debug files count while they arrive, and those that nobody finishes do not stay in the way."""
    limit = 2 << 20
    with Crowd(ctx, {'debuginfo_size': '1MiB', 'debuginfo_total': '2MiB'}) as c:
        elf, h = debug_file(c.folder.name), {**OCTETS, **bearer(BAD)}

        def part(i, offset, size, data):
            return c.server.post(f'/api/v1/debuginfo/upload?build_id={i:040x}&offset={offset}&size={size}', data, h)[0]

        def used():
            folder = os.path.join(c.folder.name, 'data', 'debuginfo')
            return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files)
        with c.attack('uploads that grow', least=1):
            for i in range(20):
                part(i, 0, 8, b'\x7fELF')
            for i in range(20):
                part(i, 4, 1 << 20, bytes((1 << 20) - 5))
        ctx.check('small beginnings stay within the quota', used() <= limit * 1.1, used())
        with c.attack('uploads begun together', least=1):
            for i in range(100, 120):
                part(i, 0, 1 << 20, b'\x7fELF')
            for i in range(100, 120):
                part(i, 4, 1 << 20, bytes((1 << 20) - 5))
        ctx.check('honest sizes stay within the quota', used() <= limit * 1.1, used())
        status, data = c.server.post('/api/v1/debuginfo/upload', elf, h)
        ctx.check('an honest upload of the same tenant is taken', status == 200, (status, data[:150]))
        status, data = c.server.post('/api/v1/debuginfo/upload', elf, {**OCTETS, **bearer(GOOD)})
        ctx.check('one of another tenant, too', status == 200, (status, data[:150]))


def zeros(size):
    """A section of zeros, as objcopy compressed them once: .zdebug_NAME."""
    deflate = zlib.compressobj(1)
    return b'ZLIB' + size.to_bytes(8, 'big') + b''.join(deflate.compress(bytes(1 << 20)) for _ in range(size >> 20)) + deflate.flush()


@scenario('debug file bombs')
def debug_file_bomb(ctx):
    """A debug file of some MB whose sections are larger than all memory: its names are not found, and that is all."""
    with Crowd(ctx) as c:
        folder, h = c.folder.name, bearer(BAD)
        debug_file(folder)
        with open(f'{folder}/section', 'wb') as file:
            file.write(zeros(900 << 20))
        if subprocess.run(['objcopy', '--remove-section=.debug_str', '--add-section', f'.zdebug_str={folder}/section',
                           f'{folder}/d.elf', f'{folder}/bomb.elf']).returncode:
            raise Skip('no objcopy')
        with open(f'{folder}/bomb.elf', 'rb') as file:
            bomb = file.read()
        status, data = c.server.post('/api/v1/debuginfo/upload', bomb, {**h, **OCTETS})
        ctx.check('upload', status == 200, (status, data[:200]))
        p = Profile([('samples', 'count'), ('cpu', 'nanoseconds')], ('cpu', 'nanoseconds', 1), time=time.time_ns(), duration=10**9)
        p.sample([p.location([], p.mapping(0x400000, 0x500000, 0, '/bin/d', json.loads(data)['buildId']), 0x401139)], [1, 1])
        ctx.check('push', c.server.post(PUSH, push_body(labels_of('x'), p.bytes()), {**PROTO, **h})[0] == 200)
        with c.attack('names of a bomb', memory=400):
            query = json.dumps({**last_hour(), 'profileTypeID': CPU, 'labelSelector': '{}'}).encode()
            results = at_once([lambda: c.server.post(QUERIER + 'SelectMergeStacktraces', query, {**JSON, **h})[0]] * 4)
        ctx.same('queries are answered', results, [200] * 4)


def section(name, kind, flags, address, content, size=None):
    return name, kind, flags, address, content, len(content) if size is None else size


def elf_of(sections, build_id, text=1 << 24):
    """An ELF file with code at 0x401000 of which nothing is there but the sections."""
    note = struct.pack('<III', 4, len(build_id), 3) + b'GNU\0' + build_id
    sections = [section(b'.note.gnu.build-id', 7, 2, 0x400200, note), section(b'.text', 8, 6, 0x401000, b'', text),
                *(section(name, 1, 0, 0, content) for name, content in sections)]
    names = b'\0.shstrtab\0' + b''.join(s[0] + b'\0' for s in sections)
    sections.append(section(b'.shstrtab', 3, 0, 0, names))
    at, body, headers = 64 + 56, b'', bytes(64)
    for name, kind, flags, address, content, size in sections:
        headers += struct.pack('<IIQQQQIIQQ', names.index(b'\0' + name + b'\0') + 1, kind, flags, address, at + len(body), size, 0, 0, 1, 0)
        body += content
    head = b'\x7fELF\2\1\1' + bytes(9) + struct.pack('<HHIQQQIHHHHHH', 2, 62, 1, 0x401000, 64, at + len(body), 0, 64, 56, 1, 64,
                                                        len(sections) + 1, len(sections))
    return head + struct.pack('<IIQQQQQQ', 1, 5, 0, 0x400000, 0x400000, 0x1000 + text, 0x1000 + text, 0x1000) + body + headers


def dwarf_of_units(n, abbreviations=b'\1\x11\0\0\0\0'):
    """n compile units without anything, of which each needs a place in memory."""
    return [(b'.debug_abbrev', abbreviations), (b'.debug_info', (struct.pack('<IHIB', 8, 4, 0, 8) + b'\1') * n)]


def dwarf_of_ranges(n):
    """A unit with n functions, each with the same n ranges."""
    abbreviations = b'\1\x11\1\x11\1\x12\6\0\0' + b'\2\x2e\0\x55\x17\0\0' + b'\0'
    entries = b'\1' + struct.pack('<QI', 0x401000, 1 << 24) + (b'\2' + bytes(4)) * n + b'\0'
    ranges = b''.join(struct.pack('<QQ', 4 * i, 4 * i + 4) for i in range(n)) + bytes(16)
    return [(b'.debug_abbrev', abbreviations), (b'.debug_info', struct.pack('<IHIB', 7 + len(entries), 4, 0, 8) + entries),
            (b'.debug_ranges', ranges)]


def dwarf_of_abbreviations(n):
    """n units, whose abbreviation is the last one of n."""
    def number(i):
        return bytes([i & 127 | 128, i >> 7 & 127 | 128, i >> 14])
    return dwarf_of_units(n, b''.join(number(i + 2) + b'\x11\0\0\0' for i in range(n)) + b'\1\x11\0\0\0\0')


def nameless(build_id, n):
    """A profile of n frames without names."""
    p = Profile([('samples', 'count'), ('cpu', 'nanoseconds')], ('cpu', 'nanoseconds', 1), time=time.time_ns(), duration=10**9)
    m = p.mapping(0x400000, 0x400000 + (1 << 25), 0, '/bin/d', build_id.hex())
    for i in range(n):
        p.sample([p.location([], m, 0x401000 + 3 * i)], [1, 1])
    return p.bytes()


@scenario('debug file bombs')
def dwarf_bombs(ctx):
    """Debug files of some KB to download whose DWARF makes large tables, or work without an end. Another tenant's
    frames get their names meanwhile."""
    bombs = {'units': dwarf_of_units(4000000), 'ranges': dwarf_of_ranges(30000), 'abbreviations': dwarf_of_abbreviations(100000)}
    with Crowd(ctx, {'query_time': '4s'}) as c:
        def upload(token, build_id, content):
            parts = [content[i:i + (16 << 20)] for i in range(0, len(content), 16 << 20)]
            for i, part in enumerate(parts):
                path = f'/api/v1/debuginfo/upload?build_id={build_id.hex()}&offset={i * (16 << 20)}&size={len(content)}'
                status, data = c.server.post(path, gzip.compress(part, 1), {**OCTETS, **bearer(token), 'Content-Encoding': 'gzip'})
                if status != 200:
                    break
            ctx.check('upload', status == 200, (status, data[:200]))

        def names(token, service):
            query = json.dumps({**last_hour(), 'profileTypeID': CPU, 'labelSelector': '{service_name="%s"}' % service}).encode()
            return c.server.post(QUERIER + 'SelectMergeStacktraces', query, {**JSON, **bearer(token)})[0]

        large = b'\xab' * 20
        with c.attack('a large file, twice', memory=500):
            for _ in range(2):
                upload(BAD, large, elf_of([(b'.debug_info', bytes(400 << 20))], large))
        own = b'\xcd' * 20
        upload(GOOD, own, elf_of([(b'.debug_abbrev', b'\1\x11\0\0\0\0'), (b'.debug_info', bytes(12))], own))
        for i, (name, sections) in enumerate(bombs.items()):
            build_id = bytes([i + 1]) * 20
            upload(BAD, build_id, elf_of(sections, build_id))
            c.server.post(PUSH, push_body(labels_of(name), nameless(build_id, 100)), {**PROTO, **bearer(BAD)})
            with c.attack(f'names of {name}', memory=500):
                bad = threading.Thread(target=names, args=(BAD, name))
                bad.start()
                good = []
                while not good or bad.is_alive() and len(good) < 50:
                    c.server.post(PUSH, push_body(labels_of(f'named-{name}-{len(good)}'), nameless(own, 100 + len(good))), {**PROTO, **bearer(GOOD)})
                    good.append(names(GOOD, f'named-{name}-{len(good)}'))
                bad.join(30)
            ctx.same(f"{name}: another tenant's queries for names", set(good), {200})
            ctx.check(f'{name}: the query ends', not bad.is_alive())


@scenario(15, measures=False, waits=True)
def clock_ahead(ctx):
    """A clock that is ahead by more than the retention deletes neither old days nor today, nor what comes then."""
    if ctx.sanitized:
        raise Skip('the sanitizers want to be loaded first')
    with Crowd(ctx, settings=AUTH + 'retention: {age: 5d}\n', clients=False) as c:
        s, h, now = c.server, bearer(GOOD), time.time()
        for d in range(4):
            for k in range(3):
                s.push([(labels_of('x'), cpu_profile({('main', 'f'): 5}, now - d * 86400 - k))], headers=h)
        want = s.total('x', h, span=30 * 86400)
        ctx.same('setup', want, 4 * 3 * 5 * 10**7)
        s.end()
        faults = Faults(c.folder.name)
        faults.set(clock_offset=20 * DAY)
        s.environment = faults.environment
        s.start()
        status = s.push([(labels_of('x'), cpu_profile({('main', 'f'): 5}, time.time()))], headers=h)
        ctx.same('a push is taken', status.status, 200)
        yield MAINTENANCE
        ctx.same('everything is there', s.total('x', h, span=30 * 86400), want + 5 * 10**7)
        s.end()
        s.environment = None
        s.start()
        ctx.same('and when the clock is right again', s.total('x', h, span=30 * 86400), want + 5 * 10**7)


@scenario('odd files', measures=False, embedded=True)
def odd_files(ctx):
    """A pipe, a device and a directory instead of days, and files that are no tenants: nothing waits for them."""
    with Crowd(ctx, clients=False) as c:
        s, h, now = c.server, bearer(GOOD), time.time()
        for d in range(4):
            s.push([(labels_of('v'), cpu_profile({('main', 'f'): 5}, now - d * 86400))], headers=h)
        s.end()
        data = f'{c.folder.name}/data'
        folder = f'{data}/tenants/good'
        days = sorted(f for f in os.listdir(folder) if f.startswith('2') and f.endswith('.db'))
        for name in days[:3]:
            os.rename(f'{folder}/{name}', f'{data}/{name}')
        os.mkfifo(f'{folder}/{days[0]}')
        os.symlink('/dev/zero', f'{folder}/{days[1]}')
        os.mkdir(f'{folder}/{days[2]}')
        os.mkfifo(f'{data}/tenants/pipe')
        with open(f'{data}/tenants/.notes', 'w') as file:
            file.write('a file')

        def run(*words):
            try:
                return subprocess.run([ctx.kiln, 'server', *words], capture_output=True, text=True, timeout=60)
            except subprocess.TimeoutExpired as late:
                return late
        r = run('check', '--data', data)
        ctx.check('check: all three days are told', str(r.stdout).count('not a regular file') == 3, r)
        s.start()
        ctx.same('the day that is left', s.total('v', h, span=10 * 86400), 5 * 10**7)
        r = run('backup', '--data', data, f'{c.folder.name}/copy')
        ctx.check('backup: the day that is left', getattr(r, 'returncode', None) == 1 and
                  [f for f in os.listdir(f'{c.folder.name}/copy/tenants/good') if f.endswith('.db')] == days[3:], r)
        for d in range(4):
            status, answer = s.post(PUSH, push_body(labels_of('v'), cpu_profile({('main', 'f'): 5}, now - d * 86400)), {**PROTO, **h})
            ctx.check(f'a push {d} days ago', status == 200, (status, answer[:200]))
        ctx.same('what was pushed', s.total('v', h, span=10 * 86400), 25 * 10**7)


@scenario(16, measures=False, waits=True, embedded=True)
def other_formats(ctx):
    """A day of a format that this server does not know: the other days are served, closed and backed up."""
    with Crowd(ctx, clients=False) as c:
        s, h, now = c.server, bearer(GOOD), time.time()
        for d in range(4):
            s.push([(labels_of(f'svc{d}'), cpu_profile({('main', 'f'): 5}, now - d * 86400))], headers=h)
        s.end()
        folder = f'{c.folder.name}/data/tenants/good'
        days = sorted(f for f in os.listdir(folder) if f.startswith('2') and f.endswith('.db'))
        for day, version in (days[0], 1), (days[1], 99):
            db = sqlite3.connect(f'{folder}/{day}')
            db.execute(f'PRAGMA user_version={version}')
            db.commit()
            db.close()
        s.start()
        for k in range(5):
            s.push([(labels_of('late'), cpu_profile({('main', 'f'): 5}, now - 3 * 3600 - k))], headers=h)
        whole = {'start': int((now - 10 * 86400) * 1000), 'end': int((now + 3600) * 1000)}
        for method, more in (('LabelValues', {'name': 'service_name'}), ('LabelNames', {}), ('Series', {}), ('ProfileTypes', {}),
                             ('SelectMergeStacktraces', {'profileTypeID': CPU, 'labelSelector': '{}'}),
                             ('SelectSeries', {'profileTypeID': CPU, 'labelSelector': '{}', 'step': 15}),
                             ('SelectMergeProfile', {'profileTypeID': CPU, 'labelSelector': '{}'}), ('GetProfileStats', {})):
            r = s.ask('POST', QUERIER + method, json.dumps({**whole, **more}).encode(), {**JSON, **h})
            ctx.check(f'{method}: answered', r.status == 200, (r.status, r.data[:200]))
            if method in ('LabelValues', 'SelectMergeStacktraces'):
                text = r.data.decode(errors='replace') + str(r.getheaders())
                ctx.check(f'{method}: says which day is missing', days[1][:10] in text, text[:300])
        status, data = s.post(PUSH, push_body(labels_of('svc2'), cpu_profile({('main', 'f'): 5}, now - 2 * 86400)), {**PROTO, **h})
        ctx.check('a push into that day is refused', status != 200 and isinstance(status, int), (status, data[:200]))
        status, data = s.post(PUSH, push_body(labels_of('x'), cpu_profile({('main', 'f'): 5}, now)), {**PROTO, **h})
        ctx.check('a push into today is stored', status == 200, (status, data[:200]))
        hour = int((now - 3 * 3600) * 10**9) // HOUR
        yield MAINTENANCE
        good = [f'{folder}/{d}' for d in days[2:]]

        def fresh():
            rows = 0
            for path in good:
                db = sqlite3.connect(f'file:{path}?mode=ro', uri=True, timeout=10)
                rows += db.execute('select count(*) from fresh where hour <= ?', (hour,)).fetchone()[0]
                db.close()
            return rows
        ctx.check('later days are closed', until(lambda: fresh() == 0, 20), fresh())
        to = os.path.join(c.folder.name, 'copy')
        r = subprocess.run([ctx.kiln, 'server', 'backup', '--data', f'{c.folder.name}/data', to], capture_output=True, text=True, timeout=60)
        copied = [f for f in os.listdir(to + '/tenants/good')] if os.path.isdir(to) else []
        ctx.check('a backup has the other days', r.returncode in (0, 1) and set(days[2:]) <= set(copied), (r.returncode, r.stderr[-200:], copied))


def series_profile(n, strings):
    """n series, made by a text label of the samples, and strings that nothing refers to."""
    p = Profile([('samples', 'count'), ('cpu', 'nanoseconds')], ('cpu', 'nanoseconds', 10**7), time=time.time_ns(), duration=10**10)
    m = p.mapping(0x400000, 0x500000, 0, '/bin/app', 'abcdef')
    at = p.location([(p.function('f', 'a.c'), 1, 0)], m, 0x400010)
    for i in range(n):
        p.sample([at], [1, 10**7], [('k', f'v{i}')])
    for i in range(strings):
        p.string(f'{i:x}')
    return p.bytes()


@scenario('many series')
def many_series(ctx):
    """One push of many series, of a profile with many strings or of many services, is stored between the pushes of others."""
    zipped = {**PROTO, **bearer(BAD), 'Content-Encoding': 'gzip'}
    strings = gzip.compress(push_body(labels_of('strings'), series_profile(3000, 200000)), 1)
    series = gzip.compress(push_body(labels_of('series'), series_profile(30000, 0)), 1)
    one = cpu_profile({('main', 'f'): 1}, time.time())
    services = gzip.compress(b''.join(push_body(labels_of(f's{i}'), one) for i in range(10000)), 1)
    with Crowd(ctx) as c:
        for what, body in ('strings', strings), ('series', series), ('services', services):
            with c.attack(what, least=2):
                status, data = c.server.post(PUSH, body, zipped)
            ctx.check(f'{what}: stored', status == 200, (status, data[:200]))
        ctx.same('all series are there', c.server.total('series', bearer(BAD)), 30000 * 10**7)
        ctx.check('memory', c.server.peak() < ctx.memory, f'{c.server.peak()} MiB')


@scenario('pushes of old days')
def old_days(ctx):
    """Pushes of one day each into 31 days, at the same time: others wait for a few of them at most."""
    with Crowd(ctx, {'past': '0'}) as c:
        statuses = set()

        def send(day):
            body = push_body(labels_of('old'), cpu_profile({('main', 'f'): 1}, time.time() - 86400 * day))
            statuses.add(c.server.post(PUSH, body, {**PROTO, **bearer(BAD)})[0])

        def send_all(first):
            end, day = time.monotonic() + 4, first
            while time.monotonic() < end:
                send(day % 31)
                day += 7
        for day in range(31):  # A new file takes a dozen syncs.
            send(day)
        with c.attack('31 days', least=4):
            at_once([lambda k=k: send_all(k) for k in range(24)])
        ctx.same('statuses', statuses, {200})


@scenario('slow disk')
def slow_disk(ctx):
    """While a sync takes a second, nobody waits but those who push."""
    if ctx.sanitized:
        raise Skip('the sanitizers want to be loaded first')
    with temporary() as folder:
        faults = Faults(folder)
        with Crowd(ctx, environment=faults.environment) as c:
            # Over ClickHouse queries wait for what was acknowledged, which is sent from this disk.
            with c.attack('syncs of a second', least=4, skip=('push', 'query') if ctx.remote else ('push',)):
                faults.set(sync_delay=1000000)
                time.sleep(3.5)
                faults.set(sync_delay=0)
            with c.attack('afterwards', least=1.5):
                pass


@scenario('bad disk')
def bad_disk(ctx):
    """A disk that takes no writes: pushes are refused with a reason, everything else goes on, and so do pushes afterwards."""
    if ctx.sanitized:
        raise Skip('the sanitizers want to be loaded first')
    with temporary() as folder:
        faults = Faults(folder)
        with Crowd(ctx, environment=faults.environment, clients=False) as c:
            s, h, stored = c.server, bearer(GOOD), 0
            push = lambda: s.post(PUSH, push_body(labels_of('x'), cpu_profile({('a',): 1}, time.time())), {**PROTO, **h})
            for what, code in ('full', FULL), ('read-only', READ_ONLY), ('broken', BROKEN):
                status, data = push()
                stored += status == 200
                ctx.check(f'{what}: before', status == 200, (status, data[:100]))
                faults.set(write_error=code)
                answers = [push() for _ in range(3)]
                ctx.check(f'{what}: refused with a reason', all(r[0] in (500, 503) and r[1] for r in answers), [(r[0], r[1][:100]) for r in answers])
                ctx.same(f'{what}: queries', s.total('x', h), stored * 10**7)
                ctx.same(f'{what}: health', s.post('/healthz', None, method='GET')[0], 200)
                faults.set(write_error=0)
                ctx.check(f'{what}: goes on', until(lambda: push()[0] == 200, 10))
                stored += 1
            ctx.same('what was acknowledged', s.total('x', h), stored * 10**7)


OLD_FORMAT = '''
CREATE TABLE series_3 AS SELECT * FROM series; DROP TABLE series; DROP TABLE seen;
CREATE TABLE series(id INTEGER PRIMARY KEY, service INTEGER NOT NULL, kind INTEGER NOT NULL, hash INTEGER NOT NULL, labels BLOB NOT NULL);
WITH RECURSIVE c(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM c WHERE x < 150000)
    INSERT INTO series(service, kind, hash, labels) SELECT service, kind, random(), labels || randomblob(300) FROM c, series_3 WHERE x;
DROP TABLE series_3; CREATE INDEX series_hash ON series(service, hash);
CREATE TABLE seen(id INTEGER PRIMARY KEY, hour INTEGER NOT NULL); PRAGMA user_version=2;
'''


@scenario('days of one tenant', embedded=True)
def days_of_one_tenant(ctx):
    """A locked day, a day of the old format and a long deletion of one tenant: the others do not wait."""
    with Crowd(ctx) as c:
        s, h, now = c.server, {**PROTO, **bearer(BAD)}, time.time()
        folder = f'{c.folder.name}/data/tenants/bad'
        path = lambda d: f'{folder}/{time.strftime("%Y-%m-%d", time.gmtime(now - d * 86400))}.db'
        push = lambda d: s.post(PUSH, push_body(labels_of('x'), cpu_profile({('main', 'f'): 1}, now - d * 86400)), h)
        ctx.same('setup', push(0)[0], 200)
        source = sqlite3.connect(path(0), timeout=10)

        def copy_day(d, script=''):
            """A day that the server has not opened."""
            made = sqlite3.connect(path(d) + '.new')
            source.backup(made)
            made.executescript('PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF;' + script)
            made.close()
            os.rename(path(d) + '.new', path(d))
        copy_day(5)
        lock = sqlite3.connect(path(5), isolation_level=None)
        lock.execute('PRAGMA journal_mode=WAL')
        lock.execute('BEGIN IMMEDIATE')
        results = []
        pushes = [threading.Thread(target=lambda: results.append(push(5))) for _ in range(3)]
        with c.attack('a locked day', least=3):
            for t in pushes:
                t.start()
        lock.execute('ROLLBACK')
        for t in pushes:
            t.join()
        ctx.check('pushes into it are stored afterwards', [r[0] for r in results] == [200] * 3, results)
        copy_day(6, OLD_FORMAT)
        with c.attack('a day of the old format', least=1):
            status, data = push(6)
        ctx.check('is migrated', status == 200, (status, data[:200]))
        db = sqlite3.connect(path(6), timeout=10)
        ctx.same('to the new one', db.execute('PRAGMA user_version').fetchone()[0], 3)
        db.close()
        source.execute('WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<60000) '
                       'INSERT INTO fresh SELECT service, hour, series, time + x, 0, head, body || randomblob(600) FROM fresh, c')
        source.commit()
        source.close()
        with c.attack('a deletion', least=1):
            status, data = s.post('/api/v1/services/delete?service_name=x', b'{}', {**JSON, **bearer(BAD)})
        ctx.check('deletes', status == 200 and json.loads(data)['removed'] >= 60001, (status, data[:200]))
        ctx.same('everything', s.services(bearer(BAD), span=10 * 86400), [])
