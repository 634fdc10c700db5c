"""Writes pprof profiles (profile.proto) for tests, without any dependency.

Two levels: varint/field/message build raw bytes, right or wrong; Profile
interns strings and numbers everything by itself.
"""
import gzip
import io
import struct
import zlib


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """A varint field for an int, a length-delimited one for bytes; nothing for 0."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value) if value else b''


def message(*pairs):
    return b''.join(field(number, value) for number, value in pairs)


def packed(number, values):
    return field(number, b''.join(varint(v) for v in values)) if values else b''


def gz(data):
    """The same bytes in, the same bytes out: no time stamp."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode='wb', mtime=0, compresslevel=9) as file:
        file.write(data)
    return buffer.getvalue()


def gzip_bomb(size):
    """A gzip file of about a thousandth of size that inflates to size zeros: whole MiB."""
    block_size = 1 << 20
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = stream.compress(bytes(block_size)) + stream.flush(zlib.Z_FULL_FLUSH)
    block = stream.compress(bytes(block_size)) + stream.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    for _ in range(size // block_size):
        crc = zlib.crc32(bytes(block_size), crc)
    return (b'\x1f\x8b\x08' + bytes(7) + first + block * (size // block_size - 1) + stream.flush() +
            struct.pack('<II', crc, size & 0xffffffff))


class Profile:
    """types: [(type, unit)]; period: (type, unit, value). mapping, function and location
    return ids, the same one for the same arguments."""

    def __init__(self, types, period=None, time=0, duration=0, comments=(), default='',
                 drop='', keep='', doc=''):
        self.strings = {'': 0}
        self.functions, self.locations, self.mappings = {}, {}, {}
        self.samples = []
        self.types = [(self.string(t), self.string(u)) for t, u in types]
        self.period = period and (self.string(period[0]), self.string(period[1]), period[2])
        self.time, self.duration = time, duration
        self.comments = [self.string(c) for c in comments]
        self.default = self.string(default)
        self.drop, self.keep, self.doc = map(self.string, (drop, keep, doc))

    def string(self, text):
        return self.strings.setdefault(text, len(self.strings))

    def mapping(self, start, limit, offset=0, file='', build_id='', flags=(1, 1, 1, 1)):
        key = (start, limit, offset, self.string(file), self.string(build_id), *flags)
        return self.mappings.setdefault(key, len(self.mappings) + 1)

    def function(self, name, file='', start=0, system=None):
        key = (self.string(name), self.string(name if system is None else system),
               self.string(file), start)
        return self.functions.setdefault(key, len(self.functions) + 1)

    def location(self, lines, mapping=0, address=0, folded=0):
        """lines: [(function id, line, column)], the innermost inlined call first"""
        key = (mapping, address, tuple(lines), folded)
        return self.locations.setdefault(key, len(self.locations) + 1)

    def sample(self, stack, values, labels=(), squares=0):
        """stack: location ids, leaf first; labels: [(key, text)] or [(key, number, unit)];
        squares: the sum of the squared weights of its events (kiln's field 1000)"""
        encoded = []
        for label in labels:
            if isinstance(label[1], str):
                encoded.append((self.string(label[0]), self.string(label[1]), 0, 0))
            else:
                unit = self.string(label[2]) if len(label) > 2 else 0
                encoded.append((self.string(label[0]), 0, label[1], unit))
        self.samples.append((stack, values, encoded, squares))

    def bytes(self):
        out = [field(1, message((1, t), (2, u))) for t, u in self.types]
        for stack, values, labels, squares in self.samples:
            out.append(field(2, packed(1, stack) + packed(2, values) + b''.join(
                field(3, message((1, k), (2, s), (3, n), (4, u))) for k, s, n, u in labels) + field(1000, squares)))
        for (start, limit, offset, file, build, *flags), i in self.mappings.items():
            out.append(field(3, message((1, i), (2, start), (3, limit), (4, offset), (5, file),
                                        (6, build), *zip((7, 8, 9, 10), flags))))
        for (mapping, address, lines, folded), i in self.locations.items():
            out.append(field(4, message((1, i), (2, mapping), (3, address)) + b''.join(
                field(4, message((1, f), (2, line), (3, column))) for f, line, column in lines)
                + message((5, folded))))
        for (name, system, file, start), i in self.functions.items():
            out.append(field(5, message((1, i), (2, name), (3, system), (4, file), (5, start))))
        out += [field(6, text.encode('utf-8', 'surrogateescape')) for text in self.strings]
        out.append(message((7, self.drop), (8, self.keep), (9, self.time), (10, self.duration)))
        if self.period:
            out.append(field(11, message((1, self.period[0]), (2, self.period[1]))))
            out.append(field(12, self.period[2]))
        out += [field(13, c) for c in self.comments]
        out.append(message((14, self.default), (15, self.doc), (1000, int(any(s[3] for s in self.samples)))))
        return b''.join(out)
