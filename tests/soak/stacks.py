"""Prints what every thread of a session is doing: for a test that hangs."""
import os
import shutil
import subprocess


def processes(session):
    """(pid, name) of the processes of a session."""
    for entry in os.listdir('/proc'):
        try:
            with open(f'/proc/{entry}/stat') as file:
                name, rest = file.read().rsplit(')', 1)
        except (OSError, ValueError):
            continue
        if int(rest.split()[3]) == session:
            yield int(entry), name.split('(', 1)[1]


def kernel_view(pid):
    """What the kernel says of each thread; some of it takes privileges."""
    for task in sorted(os.listdir(f'/proc/{pid}/task'), key=int):
        parts = []
        for part in ('comm', 'wchan', 'syscall', 'stack'):
            try:
                with open(f'/proc/{pid}/task/{task}/{part}') as file:
                    parts.append(' '.join(file.read().split()))
            except OSError as error:
                parts.append(f'({part}: {error.strerror})')
        print(f'  thread {task}: ' + ' | '.join(parts), flush=True)


def show(session):
    for pid, name in list(processes(session)):
        print(f'process {pid} {name}:', flush=True)
        try:
            kernel_view(pid)
        except OSError:
            continue  # it has ended
        if not shutil.which('gdb'):
            print('  no gdb: no user-space stacks')
            continue
        try:
            done = subprocess.run(['gdb', '-nx', '-batch', '-p', str(pid), '-ex', 'thread apply all bt 30'],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            lines = [line for line in done.stdout.splitlines() if line.startswith(('#', 'Thread'))]
            print('\n'.join('  ' + line for line in lines) or '  gdb: ' + done.stderr[-300:], flush=True)
        except subprocess.TimeoutExpired:
            print('  gdb: no answer')
