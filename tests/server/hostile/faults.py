"""Builds faults.c and changes what it does to a server that runs."""
import errno
import os
import struct
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


class Faults:
    """environment: of the server. Attributes of the file are nanoseconds, microseconds and errno."""

    def __init__(self, folder):
        self.file, library = os.path.join(folder, 'faults'), os.path.join(folder, 'faults.so')
        built = subprocess.run(['cc', '-shared', '-fPIC', '-O1', '-w', os.path.join(HERE, 'faults.c'), '-o', library, '-ldl'],
                               capture_output=True, text=True)
        if built.returncode:
            raise RuntimeError(built.stderr)
        self.environment = {'LD_PRELOAD': library, 'KILN_TEST_FAULTS': self.file}
        self.clock_offset = self.sync_delay = self.write_delay = self.write_error = 0
        with open(self.file, 'wb') as file:
            file.write(bytes(32))

    def set(self, **values):
        for name, value in values.items():
            assert hasattr(self, name)
            setattr(self, name, value)
        # In place: the server has it mapped.
        with open(self.file, 'r+b', 0) as file:
            file.write(struct.pack('<qqqq', self.clock_offset, self.sync_delay, self.write_delay, self.write_error))

    def clear(self):
        self.set(clock_offset=0, sync_delay=0, write_delay=0, write_error=0)


READ_ONLY, FULL, BROKEN = errno.EROFS, errno.ENOSPC, errno.EIO
