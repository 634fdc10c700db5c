"""A Python program with a SIGPROF handler and a profiling timer that runs a subprocess."""
import signal
import subprocess
import time

calls = 0


def on_prof(number, frame):
    global calls
    calls += 1


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))


signal.signal(signal.SIGPROF, on_prof)
signal.setitimer(signal.ITIMER_PROF, 0.005, 0.005)
burn(0.15)
print('handler ran before:', calls >= 3)
print('child:', subprocess.run(['/bin/echo', 'child'], capture_output=True).stdout)
calls = 0
burn(0.15)
signal.setitimer(signal.ITIMER_PROF, 0)  # the interpreter gives its handlers up before it ends
print('handler ran after:', calls >= 3)
print('handler is the program\'s:', signal.getsignal(signal.SIGPROF) is on_prof)
