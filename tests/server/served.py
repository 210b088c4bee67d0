# SPDX-License-Identifier: Apache-2.0
"""A server of samples as a process, and its clients."""
import contextlib
import http.client
import json
import re
import signal
import socket
import struct
import subprocess


class Served:
    """`name`: the model that metric() is about."""

    def __init__(self, program, *options, name="m"):
        self.name = name
        self.process = subprocess.Popen([program, "--port=0", *options], stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+)$", self.process.stdout.readline().strip())[1])

    def open(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, headers or {})
        return connection

    def call(self, method, path, body=None, headers=None):
        with contextlib.closing(self.open(method, path, body, headers)) as connection:
            response = connection.getresponse()
            return response.status, response.read(), response.headers

    def get(self, path):
        status, body, _ = self.call("GET", path)
        return status, json.loads(body) if body[:1] == b"{" else body.decode()

    def raw(self, data):
        """A connection that has sent these bytes."""
        connection = socket.create_connection(("127.0.0.1", self.port), 60)
        connection.sendall(data)
        return connection

    def metric(self, name):
        return float(re.search(rf'^hologram_{name}{{model="{self.name}"}} (\S+)$', self.get("/metrics")[1], re.M)[1])

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        assert code == 0 and "stopped" in self.process.stdout.read(), code


def close_by_reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
