#!/usr/bin/env python3
"""Writes the profiles in inputs/: small, deterministic, and full of what reports trip over.

usage: make_profiles.py [DIRECTORY]
"""
import os
import random
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from pprof_writer import Profile, gz  # noqa: E402

CPU = [('samples', 'count'), ('cpu', 'nanoseconds')]
HEAP = [('alloc_objects', 'count'), ('alloc_space', 'bytes'),
        ('inuse_objects', 'count'), ('inuse_space', 'bytes')]
MS = 1_000_000


class Program:
    """A made-up program: function i has a name, a file and a place; calls get lines."""

    def __init__(self, profile, names, mapping, base=0x400000):
        self.p, self.names, self.m, self.base = profile, names, mapping, base

    def frame(self, i, line=0, inlined=(), column=0, address=None):
        """The call at a line of function i; `inlined` are the calls folded into it."""
        chain = [*inlined, (i, line)]
        lines = []
        for j, at in chain:
            name, file, start = self.names[j % len(self.names)]
            lines.append((self.p.function(name, file, start), start + at, column))
        if address is None:
            address = self.base + i * 0x400 + line * 0x10 + len(inlined)
        return self.p.location(lines, self.m, address)


SERVICE = [
    ('main', 'src/main.c', 10), ('server_run', 'src/server.c', 40),
    ('worker_loop', 'src/worker.c', 20), ('handle_request', 'src/handler.c', 100),
    ('parse_headers', 'src/http/parse.c', 55), ('route_match', 'src/http/route.c', 30),
    ('json_encode', 'src/json/encode.c', 12), ('json_escape', 'src/json/encode.c', 80),
    ('db_query', 'src/db/query.c', 200), ('db_row_decode', 'src/db/row.c', 33),
    ('hash_lookup', 'src/util/hash.c', 5), ('memcpy', '', 0),
    ('malloc', '/usr/src/libc/malloc.c', 3200), ('compress_block', 'src/zip/block.c', 60),
    ('crc32_update', 'src/zip/crc.c', 8), ('log_write', 'src/log.c', 17),
    ('tls_write', '/usr/include/tls.h', 300), ('epoll_wait', '', 0),
]


def cpu(seed=1, scale=1.0, extra=False):
    rnd = random.Random(seed)
    p = Profile(CPU, ('cpu', 'nanoseconds', 10 * MS), time=1_700_000_000_123_456_789 + seed,
                duration=30_000_000_000, comments=['made for the tests', 'second comment'],
                doc='https://example.com/doc')
    exe = p.mapping(0x400000, 0x500000, 0, '/opt/service/bin/service', 'abcdef0123456789')
    libc = p.mapping(0x7f0000000000, 0x7f0000200000, 0x26000, '/usr/lib/libc.so.6', '0badcafe',
                     (1, 0, 0, 0))
    a = Program(p, SERVICE, exe)
    c = Program(p, SERVICE, libc, 0x7f0000000000)
    top = [a.frame(2, 7), a.frame(1, 12), a.frame(0, 3)]
    for k in range(60):
        stack = [a.frame(3, rnd.choice([5, 9, 31]))] + top
        kind = rnd.randrange(7 if extra else 6)
        if kind == 0:
            stack = [a.frame(4, rnd.choice([1, 2, 3]), inlined=[(10, 2)])] + stack
        elif kind == 1:
            stack = [a.frame(7, rnd.randrange(4)), a.frame(6, 15, inlined=[(7, 1), (6, 4)])] + stack
        elif kind == 2:
            stack = [c.frame(11, 0), a.frame(9, 8), a.frame(8, rnd.choice([17, 23]))] + stack
        elif kind == 3:
            stack = [a.frame(14, 2), a.frame(13, 9), a.frame(16, 4), a.frame(15, 6)] + stack
        elif kind == 4:
            stack = [c.frame(12, 44), c.frame(11, 0, address=0x7f0000001234)] + stack
        elif kind == 5:
            stack = [c.frame(17, 0)] + top
        else:
            stack = [a.frame(10, 3), a.frame(5, rnd.randrange(3))] + stack
        n = int(rnd.choice([1, 2, 3, 5, 8, 13, 40]) * scale) + rnd.randrange(3)
        labels = []
        if kind != 5:
            labels.append(('endpoint', rnd.choice(['/users', '/orders', '/health', '/search?q=a b'])))
            labels.append(('region', rnd.choice(['eu-west', 'us-east'])))
        if kind in (2, 3):
            labels.append(('request', rnd.choice([512, 4096, 1 << 20, 3 << 20]), 'bytes'))
        if kind == 4:
            labels.append(('thread', rnd.choice([101, 102, 103])))
        p.sample(stack, [n, n * 10 * MS + k * 1013], labels)
    return p


def heap():
    rnd = random.Random(2)
    p = Profile(HEAP, ('space', 'bytes', 524288), time=1_700_000_100_000_000_000,
                default='inuse_space', drop='malloc_hook.*|xmalloc',
                keep='xmalloc_kept')
    exe = p.mapping(0x400000, 0x500000, 0, '/opt/service/bin/service', 'abcdef0123456789')
    a = Program(p, SERVICE, exe)
    hook = p.location([(p.function('malloc_hook_alloc', 'src/hook.c', 1), 9, 0)], exe, 0x480000)
    top = [a.frame(2, 7), a.frame(1, 12), a.frame(0, 3)]
    for k in range(40):
        size = rnd.choice([16, 48, 64, 512, 1024, 4096, 65536, 1048576, 3 << 20])
        n = rnd.randrange(1, 300)
        live = rnd.choice([0, n, n // 2])
        leaf = rnd.choice([4, 6, 8, 13, 15])
        stack = [a.frame(leaf, k % 5, inlined=[(10, 1)] if k % 3 == 0 else ())]
        stack += [a.frame(3, 5 + k % 2)] + top
        if k % 4 == 0:
            stack = [hook] + stack
        p.sample(stack, [n, n * size + k, live, live * size + (k if live else 0)],
                 [('bytes', size, 'bytes')])
    return p


def contention():
    rnd = random.Random(3)
    p = Profile([('contentions', 'count'), ('delay', 'nanoseconds')],
                ('contentions', 'count', 1), duration=10_000_000_000)
    exe = p.mapping(0x400000, 0x500000, 0, 'service', '')
    a = Program(p, SERVICE, exe)
    lock = p.location([(p.function('sync.(*Mutex).Unlock', '/go/src/sync/mutex.go', 200), 212, 0)],
                      exe, 0x470000)
    for k in range(20):
        n = rnd.randrange(1, 5000)
        p.sample([lock, a.frame(rnd.choice([8, 10, 15]), k % 3), a.frame(3, 1), a.frame(0, 3)],
                 [n, n * rnd.randrange(900, 2_000_000)])
    return p


def recursion():
    rnd = random.Random(4)
    p = Profile(CPU, ('cpu', 'nanoseconds', MS))
    m = p.mapping(0x1000, 0x9000, 0, '/bin/recurse', 'r')
    names = [(n, 'r.c', 10 * i + 1) for i, n in enumerate(
        ['main', 'walk', 'visit', 'leaf', 'even', 'odd'])]
    a = Program(p, names, m, 0x1000)
    for depth in range(1, 25):
        walk = [a.frame(1 + i % 2, 1 + i % 3) for i in range(depth)]
        p.sample([a.frame(3, depth % 4)] + walk + [a.frame(0, 1)], [depth, depth * MS + depth])
        swap = [a.frame(4 + i % 2, 2, inlined=[(5 - i % 2, 1)]) for i in range(depth % 7)]
        n = rnd.randrange(1, 90)
        p.sample(swap + walk[:2] + [a.frame(0, 2)], [n, n * MS + 7 * depth])
    return p


def addresses():
    rnd = random.Random(5)
    p = Profile(CPU, ('cpu', 'nanoseconds', MS), time=1_600_000_000_000_000_000)
    maps = [p.mapping(0x400000, 0x480000, 0, '/opt/bin/stripped', 'aa11', (0, 0, 0, 0)),
            p.mapping(0x7f1000000000, 0x7f1000100000, 0x1000, '/usr/lib/libfoo.so.1', '', (0, 0, 0, 0)),
            p.mapping(0xffffffff80000000, 0xffffffffff000000, 0, '[kernel.kallsyms]', '', (0, 0, 0, 0)),
            p.mapping(0x7fff00000000, 0x7fff00002000, 0, '[vdso]', '', (0, 0, 0, 0))]
    bases = [0x400000, 0x7f1000000000, 0xffffffff80000000, 0x7fff00000000]
    known = p.function('known', 'k.c', 3)
    for k in range(30):
        stack = []
        for depth in range(rnd.randrange(1, 7)):
            m = rnd.randrange(4)
            address = bases[m] + rnd.randrange(12) * 0x10
            lines = [(known, 5, 0)] if m == 1 and address & 0x10 else []
            stack.append(p.location(lines, maps[m], address))
        n = rnd.randrange(1, 50)
        p.sample(stack, [n, n * MS + k])
    return p


def units():
    """Types in units that scale, do not scale, or are not units at all."""
    p = Profile([('wall', 'microseconds'), ('memory', 'kilobytes'), ('io', 'widgets'),
                 ('cost', 'mGCU'), ('time', 'seconds'), ('plain', '')],
                ('wall', 'microseconds', 100), default='memory')
    m = p.mapping(0x1000, 0x9000, 0, '/bin/units', 'u')
    names = [(f'unit_{i}', 'u.c', i) for i in range(8)]
    a = Program(p, names, m, 0x1000)
    for i in range(1, 8):
        v = 7 ** i
        p.sample([a.frame(i, 1), a.frame(0, i % 3)],
                 [v * 1000, v * 3, v, v * 1001, v % 90000 + 1, v * 13])
    return p


def tags():
    rnd = random.Random(7)
    p = Profile([('samples', 'count')], ('cpu', 'nanoseconds', MS))
    m = p.mapping(0x1000, 0x9000, 0, '/bin/tags', 't')
    a = Program(p, [(f'tagged_{c}', f'{c}.c', 1) for c in 'abcdef'], m, 0x1000)
    for k in range(50):
        labels = [('user', rnd.choice(['alice', 'bob', 'çelik', 'a"b', '', 'x\\y']))]
        if k % 2:
            labels.append(('user', 'second'))
        labels.append(('latency', rnd.choice([1, 20, 999, 1500, 60000, 3_600_000]), 'ms'))
        if k % 3 == 0:
            labels.append(('size', rnd.choice([-5, 1, 1023, 1024, 1536, 1 << 30]), 'bytes'))
        if k % 4 == 0:
            labels.append(('size', 2, 'kilobytes'))
        if k % 5 == 0:
            labels.append(('count', rnd.randrange(1, 4)))
        if k % 6 == 0:
            labels.append(('odd', rnd.randrange(1, 4), 'widgets'))
            labels.append(('alignment', 8))
        if k % 7 == 0:
            labels.append(('pprof::skip', 'yes'))
        p.sample([a.frame(rnd.randrange(3), 1), a.frame(3 + rnd.randrange(2), 2), a.frame(5, 0)],
                 [rnd.randrange(1, 100) * 64 + k], labels)
    return p


def odd():
    """No mapping, strange names, zero and negative values, columns, missing lines."""
    p = Profile(CPU, None, duration=-5)
    names = ['', 'plain', 'quote"d', 'back\\slash', 'new\nline', 'tab\there', '<b>html & co</b>',
             'naïve', '日本語', 'bad\udcff\udcfeutf8', 'a' * 120, ' spaces  inside ', 'semi;colon']
    made = []
    for i, name in enumerate(names):
        f = p.function(name, ['', 'dir/f.c', 'C:\\win\\f.c', 'f"q.c'][i % 4], i % 3 * 5)
        made.append(p.location([(f, i % 4 * 11, i % 3 * 4)], 0, 0x10 * i))
    made.append(p.location([], 0, 0))
    made.append(p.location([], 0, 0xdeadbeef))
    made.append(p.location([(p.function('folded', 'f.c', 1), 3, 0)], 0, 0x999, folded=1))
    for i in range(len(made)):
        v = [3, 0, -7, 19, 101, -1][i % 6] * (i + 1)
        p.sample([made[i], made[(i * 5 + 2) % len(made)], made[1]], [v, v * 1000],
                 [('k"ey', 'v"al\\ue')] if i % 2 else [])
    p.sample([], [17, 1700])
    p.sample([made[2], made[2], made[2]], [23, 2300])
    return p


def names():
    """What dot labels shorten: C++, Go, Java, Rust, Objective-C."""
    list_ = [
        '(anonymous namespace)::Foo::Bar', 'void std::vector<int, std::allocator<int> >::push_back(int const&)',
        'std::__cxx11::basic_string<char>::append', 'foo::bar::(anonymous namespace)::baz(int, char)',
        'operator new(unsigned long)', 'foo::Bar::~Bar()', 'a::b::c<d::e>::f<g>(h::i) const',
        'github.com/foo/bar/v2.(*Type).Method', 'github.com/foo/bar.func1.2', 'main.main.func1',
        'runtime.mallocgc', 'gopkg.in/yaml%2ev3.unmarshal', 'example.com/mod/v10/pkg.Do[...]',
        'go.uber.org/zap.(*Logger).Info', 'java.lang.Thread.run', 'com.example.Foo$Bar.lambda$baz$0',
        'com.example.service.UserService.<init>', 'org.apache.Foo.bar(Ljava/lang/String;)V',
        'core::ptr::drop_in_place<alloc::vec::Vec<u8>>', '<alloc::vec::Vec<T> as core::ops::Drop>::drop',
        'tokio::runtime::task::raw::poll::h0123456789abcdef', '-[NSObject description]', '_ZN3foo3barEv',
        'foo(bar)::baz', 'net/http.(*conn).serve', 'type..eq.[2]string', 'vendor/golang.org/x/net.read',
        'x.y.z', 'SomeClass.some_method', 'lib.so!symbol', '[unknown]',
    ]
    p = Profile(CPU, ('cpu', 'nanoseconds', MS), default='samples')
    m = p.mapping(0x1000, 0x90000, 0, '/bin/names', 'n')
    a = Program(p, [(n, f'/build/src/pkg{i % 5}/file{i % 7}.cc', i) for i, n in enumerate(list_)], m, 0x1000)
    for i in range(len(list_)):
        v = 1000 - 29 * i
        p.sample([a.frame(i, 1), a.frame((i * 7 + 1) % len(list_), 2), a.frame(9, 3)], [v, v * MS])
    return p


def wide():
    """Enough nodes for every cut-off, with weights over six orders of magnitude."""
    rnd = random.Random(11)
    p = Profile(CPU, ('cpu', 'nanoseconds', MS), duration=60_000_000_000)
    m = p.mapping(0x400000, 0x900000, 0, '/bin/wide', 'w')
    a = Program(p, [(f'fn_{i:03d}', f'dir{i % 9}/file{i % 23}.c', i) for i in range(220)], m)
    for k in range(220):
        path, at = [0], 0
        for _ in range(rnd.randrange(2, 12)):
            at = min(219, at * 3 + 1 + rnd.randrange(4)) if rnd.random() < .8 else rnd.randrange(220)
            path.append(at)
        v = int(1.06 ** k) + rnd.randrange(40)
        labels = [('shard', f's{rnd.randrange(6)}')] if k % 3 else []
        p.sample([a.frame(i, k % 2) for i in reversed(path)], [v, v * MS + k], labels)
    return p


def empty():
    return Profile(CPU, ('cpu', 'nanoseconds', MS), comments=['nothing here'])


def many_types():
    """Shares heap's stacks but only some of its types, in another unit."""
    p = Profile([('inuse_space', 'kilobytes'), ('extra', 'count')], ('space', 'bytes', 1024))
    m = p.mapping(0x400000, 0x500000, 0, '/opt/service/bin/service', 'abcdef0123456789')
    a = Program(p, SERVICE, m)
    for k in range(6):
        p.sample([a.frame(4 + k % 3, k % 5), a.frame(3, 5), a.frame(0, 3)], [100 + k * 17, k + 1])
    return p


HEAP_TEXT = """heap profile:    7:    90112 [   42:  1048576] @ heap_v2/524288
     3:     4096 [    3:     4096] @ 0x400120 0x400340 0x400010
     1:    65536 [    9:   589824] @ 0x400560 0x400340 0x400010
     2:    16384 [   20:   163840] @ 0x7f0000001230 0x400340 0x400010
     1:     4096 [   10:    40960] @ 0x400120 0x400780

MAPPED_LIBRARIES:
00400000-00500000 r-xp 00000000 08:01 1234 /opt/service/bin/service
7f0000000000-7f0000200000 r-xp 00026000 08:01 99 /usr/lib/libc.so.6
"""

CONTENTION_TEXT = """--- contentionz 1 ---
cycles/second = 2000000000
sampling period = 100
ms since reset = 16502830
discarded samples = 0
  19490304 27 @ 0xbccc97 0xc61202 0x42ed5f 0x42edc1
      768 1 @ 0xbccc97 0xa42dc7 0xa456e4
     5760 2 @ 0xbccc97 0xb82b73 0xb82bcb
   569088 1 @ 0xbccc97 0xb82b73 0x42ed5f
"""

GROWTH_TEXT = """heap profile:     3:  7340032 [     3:  7340032] @ growthz
     1:  1048576 [     1:  1048576] @ 0x400120 0x400340
     1:  2097152 [     1:  2097152] @ 0x400120 0x400560
     1:  4194304 [     1:  4194304] @ 0x400780 0x400340
"""

GOROUTINE_TEXT = """goroutine profile: total 12
7 @ 0x43a1b0 0x4321ab 0x401000
#\t0x43a1af\truntime.gopark+0x1ef\t/go/src/runtime/proc.go:398

4 @ 0x43a1b0 0x44f2c1 0x401000 0x46e1a1
1 @ 0x4699e1 0x401230
"""

THREAD_TEXT = """--- threadz 1 ---

--- Thread 7f7949a45700 (name: main/1) stack: ---
  PC:  0x00bccc97 0x00c61202: foo
       0x0042ed5f 0x0042edc1
--- Thread 7f794ab90700 (name: worker/2) stack: ---
  0x00bccc97 0x00a42dc7 0x00a456e4
--- Thread 7f794ab90701 (name: worker/3) stack: ---
  [same as previous thread]
---- Memory map: ----
00400000-00fcb000: cppbench_server
7f0000000000-7f0000200000: /lib/libc.so.6
"""


def source(name, lines):
    """The text of a made-up source file: every line tells where it is."""
    indents = ['', '    ', '\t', '  \t ', '        ']
    tails = ['', ' // <b> & "c"', ' {', ' }', ' /* \u00fcber */']
    return [f'{indents[i % 5]}{name}_{i}();{tails[i % 7 % 5]}' for i in range(1, lines + 1)]


# Some end before what the profiles name, and some are missing altogether.
SOURCES = {
    'src/main.c': '\n'.join(source('main', 40)) + '\n',
    'src/server.c': '\r\n'.join(source('server', 80)) + '\r\n',
    'src/handler.c': '\n'.join(source('handler', 120)),
    'src/json/encode.c': '\n'.join(source('encode', 90)) + '\n',
    'src/util/hash.c': '\n'.join(source('hash', 8)) + '\n',
    'elsewhere/db/query.c': '\n'.join(source('query', 300)) + '\n',
}


def main():
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, 'inputs')
    os.makedirs(where, exist_ok=True)

    def put(name, data):
        with open(os.path.join(where, name), 'wb') as file:
            file.write(data)

    profiles = {
        'cpu': cpu(), 'cpu-after': cpu(5, 1.4, True), 'heap': heap(), 'contention': contention(),
        'recursion': recursion(), 'addresses': addresses(), 'units': units(), 'tags': tags(),
        'odd': odd(), 'names': names(), 'wide': wide(), 'empty': empty(),
        'heap-kb': many_types(),
    }
    for name, profile in profiles.items():
        put(f'{name}.pb.gz', gz(profile.bytes()))
    put('cpu.pb', profiles['cpu'].bytes())
    for name, text in [('heap.txt', HEAP_TEXT), ('contention.txt', CONTENTION_TEXT),
                       ('growth.txt', GROWTH_TEXT), ('goroutine.txt', GOROUTINE_TEXT),
                       ('threads.txt', THREAD_TEXT)]:
        put(name, text.encode())
    for name, text in SOURCES.items():
        os.makedirs(os.path.dirname(os.path.join(where, name)), exist_ok=True)
        put(name, text.encode())


main()
