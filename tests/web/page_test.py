#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws in the page of samples/web with the mouse, in headless Chromium, and compares each score with hg-run's.

page_test.py --page FOLDER --model digits.hgm --hg-run HG_RUN --work FOLDER [--random N] [--screenshot FILE]

FOLDER is the output of samples/web/build. The page is served once so that threads may share memory, and once by plain http.server,
where it runs without threads. Exits with 77 without Chromium.
"""
import argparse
import base64
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def line(*corners, steps=12):
    return [(a[0] + (b[0] - a[0]) * i / steps, a[1] + (b[1] - a[1]) * i / steps)
            for a, b in zip(corners, corners[1:]) for i in range(steps + 1)]


def arc(x, y, rx, ry, begin, end, steps=24):
    """An arc around (x, y) between two angles in degrees: 0 is to the right, 90 is down."""
    angles = [math.radians(begin + (end - begin) * i / steps) for i in range(steps + 1)]
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


# Strokes in a square of 1 x 1, and the digit that they draw.
DRAWINGS = [
    (0, [arc(0.5, 0.5, 0.24, 0.36, -90, 270)]),
    (1, [line((0.4, 0.3), (0.55, 0.14), (0.55, 0.86))]),
    (2, [arc(0.5, 0.33, 0.2, 0.19, -180, 40) + line((0.65, 0.45), (0.3, 0.85), (0.72, 0.85))]),
    (3, [arc(0.48, 0.32, 0.19, 0.18, -150, 90) + arc(0.48, 0.68, 0.21, 0.18, -90, 150)]),
    (4, [line((0.45, 0.14), (0.28, 0.55), (0.72, 0.55)), line((0.62, 0.35), (0.55, 0.88))]),
    (7, [line((0.28, 0.16), (0.72, 0.16), (0.45, 0.86)), line((0.35, 0.5), (0.68, 0.5))]),
]


class Browser:
    """Chromium, controlled by the DevTools protocol through two pipes."""

    def __init__(self, program, profile):
        to_read, self.to = os.pipe()
        self.of, to_write = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        os.set_inheritable(to_read, True)
        os.set_inheritable(to_write, True)
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec 3<&{to_read} 4>&{to_write}; exec "$@"', "sh", program, "--headless=new", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
             f"--user-data-dir={profile}", "--window-size=900,760", "about:blank"],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.buffer, self.events = 0, b"", []
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") != self.number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def receive(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.of, 1 << 16)
            if not piece:
                raise RuntimeError("Chromium has ended")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']['text']}")
        return result["result"].get("value")

    def wait_for(self, expression, what, seconds=60):
        end = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            if time.monotonic() > end:
                state = self.evaluate("document.getElementById('state')?.textContent")
                raise RuntimeError(f"{what} did not come within {seconds} s; the page says: {state}; {self.events[-5:]}")
            time.sleep(0.05)
        return value

    def mouse(self, kind, x, y):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=int(kind != "mouseReleased"),
                  clickCount=1)

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(20)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()


def draw(browser, strokes):
    browser.evaluate("document.getElementById('clear').click()")
    assert browser.evaluate("[...document.querySelectorAll('.share')].every((s) => s.textContent === '')")
    box = browser.evaluate("(({x, y, width, height}) => [x, y, width, height])"
                           "(document.getElementById('paper').getBoundingClientRect())")
    for stroke in strokes:
        points = [(box[0] + x * box[2], box[1] + y * box[3]) for x, y in stroke]
        browser.mouse("mousePressed", *points[0])
        for point in points[1:]:
            browser.mouse("mouseMoved", *point)
        browser.mouse("mouseReleased", *points[-1])
    browser.wait_for("!waits && !again && +document.body.dataset.answered === asked", "an answer")
    return browser.evaluate("""({
        pixels: document.body.dataset.pixels.split(' ').map(Number),
        scores: [...document.querySelectorAll('.row')].map((row) => +row.dataset.score),
        shares: [...document.querySelectorAll('.share')].map((share) => parseFloat(share.textContent)),
        widths: [...document.querySelectorAll('.bar')].map((bar) => parseFloat(bar.style.width)),
        best: document.querySelector('.best .digit').textContent})""")


def native_scores(options, pixels):
    """hg-run's scores of the same 64 numbers."""
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 8, 8), }"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    image = options.work / "web_image.npy"
    image.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<64f", *pixels))
    subprocess.run([options.hg_run, options.model, "--input", image, "--output-dir", options.work / "web_out"], check=True,
                   stdout=subprocess.DEVNULL)
    return struct.unpack("<10f", (options.work / "web_out/output_0.npy").read_bytes()[-40:])


def check(options, browser, strokes, digit):
    page = draw(browser, strokes)
    native = native_scores(options, page["pixels"])
    error = max(abs(a - b) / max(1, abs(b)) for a, b in zip(page["scores"], native))
    assert error <= 1e-5, f"the page says {page['scores']}, hg-run {native}"
    top = max(native)
    powers = [math.exp(score - top) for score in native]
    for power, share, width in zip(powers, page["shares"], page["widths"]):
        percent = 100 * power / sum(powers)
        assert abs(share - percent) <= 0.06 and abs(width - percent) <= 0.01, (page, percent)
    assert page["best"] == str(native.index(top)), page
    if digit is not None:
        assert page["best"] == str(digit), f"a drawn {digit} is read as {page['best']}: {page['pixels']}"
    return error


def random_strokes(numbers):
    return [[(numbers.random(), numbers.random()) for _ in range(numbers.randint(1, 6))]
            for _ in range(numbers.randint(1, 3))]


def serve(command):
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return server, server.stdout.readline()


def main():
    parser = argparse.ArgumentParser()
    for name in ("page", "model", "hg-run", "work"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    parser.add_argument("--random", type=int, default=20)
    parser.add_argument("--screenshot", type=pathlib.Path)
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        print("there is no Chromium")
        return 77
    servers = {
        True: [sys.executable, ROOT / "samples/web/serve", options.page, "0"],
        False: [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", options.page],
    }
    (options.work / "web_out").mkdir(parents=True, exist_ok=True)
    numbers = random.Random(1)
    browser = Browser(program, options.work / "chromium")
    try:
        for shares_memory, command in servers.items():
            server, said = serve(command)
            try:
                address = said[said.index("http://"):].split()[0].rstrip(")/")
                browser.call("Page.navigate", url=address + "/index.html")
                threads = int(browser.wait_for("document.body?.dataset.ready", "the network"))
                assert browser.evaluate("crossOriginIsolated") == shares_memory
                assert threads == (min(4, len(os.sched_getaffinity(0))) if shares_memory else 1), threads
                errors = [check(options, browser, strokes, digit) for digit, strokes in DRAWINGS]
                errors += [check(options, browser, random_strokes(numbers), None) for _ in range(options.random)]
                ms = browser.evaluate("document.getElementById('state').textContent")
                print(f"{threads} threads: {len(DRAWINGS)} digits and {options.random} random drawings, scores within "
                      f"{max(errors):.2g} of hg-run; {ms}")
                if options.screenshot and shares_memory:
                    draw(browser, DRAWINGS[3][1])
                    time.sleep(0.5)
                    shot = browser.call("Page.captureScreenshot", format="png")
                    options.screenshot.write_bytes(base64.b64decode(shot["data"]))
            finally:
                server.terminate()
                server.wait()
    finally:
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
