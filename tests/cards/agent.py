"""Agent in the guest: takes requests from the second serial line, one JSON object per line, and answers each.

A request is {"id", "command", "timeout"} with a bash command, or {"id", "get"} with a path of the router's API. An
answer is {"id", "status", "out"}. Requests run concurrently. Frequent queries use the API: where every instruction is
emulated, starting a program takes a second.
"""

import http.client
import json
import os
import socket
import subprocess
import threading
import tty

line = os.open("/dev/ttyS1", os.O_RDWR | os.O_NOCTTY)
tty.setraw(line)
lock = threading.Lock()


def say(answer: dict) -> None:
    text = json.dumps(answer).encode() + b"\n"
    with lock:
        while text:
            text = text[os.write(line, text):]


class Router(http.client.HTTPConnection):
    """The router's API."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(30)
        self.sock.connect("/run/router.sock")


def get(request: dict) -> None:
    router = Router("ashlar")
    try:
        router.request("GET", request["get"])
        answer = router.getresponse()
        status, out = answer.status, answer.read()
    except OSError as e:
        status, out = 0, str(e).encode()
    router.close()
    say({"id": request["id"], "status": status, "out": out.decode(errors="replace")})


def run(request: dict) -> None:
    try:
        done = subprocess.run(["bash", "-c", request["command"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=request["timeout"], cwd="/run")
        status, out = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, out = 124, late.stdout or b""
    say({"id": request["id"], "status": status, "out": out.decode(errors="replace")})


say({"id": 0, "status": 0, "out": ""})
rest = b""
while True:
    rest += os.read(line, 65536)
    *whole, rest = rest.split(b"\n")
    for text in whole:
        request = json.loads(text)
        threading.Thread(target=get if "get" in request else run, args=(request,), daemon=True).start()
