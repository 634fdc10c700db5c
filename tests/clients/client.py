"""A service with Pyroscope's Python SDK: client.py URL NAME"""
import sys
import time

import pyroscope

pyroscope.configure(application_name=sys.argv[2], server_address=sys.argv[1], sample_rate=100,
                    upload_interval=1, tags={'region': 'eu', 'host.name': 'h1'})


def burn(seconds):
    end, n = time.time() + seconds, 0
    while time.time() < end:
        for i in range(1000):
            n += i * i


end = time.time() + 4
while time.time() < end:
    with pyroscope.tag_wrapper({'controller': 'slow'}):
        burn(.2)
    burn(.1)
pyroscope.shutdown()
