"""Programs that run inside a node, and the connection to the launcher that starts them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pickle
import select
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from netrepro.emulation.network import RunningProgram, checked_words
from netrepro.errors import NetreproError

_LAUNCHER = Path(__file__).with_name("launcher.py")


def errno_text(number: int) -> str:
    """Return the errno's name and its meaning, such as "ENOENT: No such file or directory"."""
    return f"{errno.errorcode.get(number, number)}: {os.strerror(number)}"


def last_line(complaints: IO[bytes]) -> str:
    """Return the last line that a process has written to the file, or ""."""
    complaints.seek(0)
    return (complaints.read().decode(errors="replace").strip().splitlines() or [""])[-1]


class LauncherConnection:
    """A launcher process, and the requests to it, one at a time.

    folder : path for files of guests, without subfolders; a user of it creates it and calls remove_at_end. at_end :
    an ExitStack that `close` closes first.
    """

    def __init__(self, tier: str):
        self._lock, self._owner = threading.Lock(), os.getpid()
        self._why_ended = "it was ended from outside"
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the launcher
        self._removed = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  read when it ends
        self.folder = Path(tempfile.gettempdir(), f"netrepro-{uuid.uuid4().hex[:12]}")
        self.at_end = contextlib.ExitStack()
        self._stream, theirs = socket.socketpair()
        with theirs:
            passed = theirs.fileno(), self._removed.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LAUNCHER), tier, *map(str, (*passed, os.getpid()))],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                start_new_session=True,  # Ctrl-C is for the caller, who then closes this connection
            )
        try:
            opened, _ = self._answer()
        except BaseException:
            self.close()
            raise
        if "errno" in opened:
            self.close()
            raise NetreproError(
                f"no namespaces on tier {tier}: {errno_text(opened['errno'])}", "see what `netrepro doctor` says"
            )
        self.first_process: int = opened["process"]  # first process of the network; id outside the namespaces

    def ask(self, what: str, descriptors: Sequence[int] = (), **request: Any) -> tuple[dict, list[int]]:
        """Send the launcher a request; return its answer and the file descriptors that came with it.

        what : name of a method of launcher.Launcher. Raises NetreproError where the launcher has ended or the request
        fails. An interrupt (Ctrl-C) ends the network, because the next request would take the late answer for its own.
        """
        payload = pickle.dumps({"ask": what, **request})
        message = struct.pack("=I", len(payload)) + payload
        with self._lock:
            try:
                answer, received = self._exchange(message, descriptors)
            except NetreproError:
                raise
            except BaseException:
                self._why_ended = "a request to it was interrupted"
                with contextlib.suppress(OSError):
                    self._stream.shutdown(socket.SHUT_RDWR)
                raise
        if "failed" in answer:
            raise NetreproError(f"the emulated network failed to {what}: {answer['failed']}", "build it again")
        return answer, received

    @property
    def process(self) -> int:
        """The id of the process that outlives the network and removes the paths of remove_at_end."""
        return self._process.pid

    def remove_at_end(self, things: Iterable[str | Path]) -> None:
        """Register folders and control groups that the launcher removes when the network ends."""
        for thing in things:
            self._removed.write(f"{thing}\n".encode())

    def _exchange(self, message: bytes, descriptors: Sequence[int]) -> tuple[dict, list[int]]:
        try:
            sent = socket.send_fds(self._stream, [message[:4]], descriptors) if descriptors else 0
            self._stream.sendall(message[sent:])
        except OSError:
            raise self._ended() from None
        return self._answer()

    def _answer(self) -> tuple[dict, list[int]]:
        received, descriptors = bytearray(), []
        length = 4
        while len(received) < length:
            try:
                part, came, _, _ = socket.recv_fds(self._stream, length - len(received), 4)
            except OSError:
                raise self._ended() from None
            for descriptor in came:
                os.set_inheritable(descriptor, False)
            if not part:
                raise self._ended()
            received += part
            descriptors += came
            if len(received) == 4 and length == 4:
                length += struct.unpack("=I", received)[0]
        try:
            answer = dict(json.loads(received[4:]))
        except (TypeError, ValueError, RecursionError):  # a guest that is root there can write to us in its place
            raise NetreproError(
                "the emulated network answers in a way that it has not", "see which program inside does this"
            ) from None
        return answer, descriptors

    def _ended(self) -> NetreproError:
        why = ("" if self._complaints.closed else last_line(self._complaints)) or self._why_ended
        return NetreproError(f"the emulated network has ended: {why}", "build it again")

    def close(self) -> None:
        """End the launcher and everything inside; return once its processes and the registered paths are gone.

        Do nothing in a forked copy of the process that built the network.
        """
        if os.getpid() != self._owner:
            return
        self.at_end.close()
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)  # a mere close has no effect while a fork holds a copy
        self._stream.close()
        try:
            self._process.wait()
        finally:
            self._complaints.close()
            self._removed.close()


def has_ended(told_by: int, timeout_s: float | None) -> bool:
    """Wait at most `timeout_s` (None: without limit) for a guest's end; tell whether it has ended.

    told_by : file descriptor that receives the guest's exit status.
    """
    ended = select.poll()  # select() does not take descriptors beyond 1023
    ended.register(told_by, select.POLLIN)
    return bool(ended.poll(None if timeout_s is None else max(timeout_s, 0.0) * 1e3))


def exit_status(told_by: int) -> int:
    """Return the exit status of an ended guest, negative for a signal. It can be read only once."""
    told = os.read(told_by, 4)
    # No status means that the whole network has ended, which ends its guests by SIGKILL.
    return struct.unpack("=i", told)[0] if told else -signal.SIGKILL


class Guest(RunningProgram):
    """A program inside a node, used like subprocess.Popen; it ends with the network at the latest.

    place : index of the node's namespace. descriptors : its file descriptors from 0 on. namespaces : indices of the
    namespaces that it may enter. stdin, stdout, stderr : our ends of its streams. Raises NetreproError for a program
    that cannot be started.
    """

    def __init__(
        self,
        launcher: LauncherConnection,
        place: int,
        args: Sequence[str],
        descriptors: Sequence[int],
        *,
        text: bool = True,
        nice: int = 0,
        control_group: str = "",
        namespaces: Sequence[int] = (),
        terminal: bool = False,
        environment: dict[str, str] | None = None,
        folder: str | None = None,
        stdin: IO | None = None,
        stdout: IO | None = None,
        stderr: IO | None = None,
    ):
        environment = dict(os.environ) if environment is None else environment
        self.args, self.returncode = checked_words(args), None
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._launcher, self._text = launcher, text
        self._returncode_lock = threading.Lock()
        self._pending: memoryview | None = None  # input that is not written yet; _came: output so far
        self._came: dict[str, bytearray] = {}
        self._status, status = os.pipe()
        try:
            answer, _ = launcher.ask(
                "spawn",
                (*descriptors, status),
                place=place,
                command=self.args,
                environment=environment,
                folder=folder or os.getcwd(),  # noqa: PTH109
                nice=nice,
                control_group=control_group,
                namespaces=list(namespaces),
                terminal=terminal,
            )
        except BaseException:
            os.close(self._status)
            raise
        finally:
            os.close(status)
        if "errno" in answer:
            os.close(self._status)
            # If PATH has a folder that this user may not search, the kernel reports a missing program as EACCES.
            is_there = answer["errno"] != errno.ENOENT
            if answer["errno"] == errno.EACCES and "/" not in self.args[0]:
                is_there = shutil.which(self.args[0], path=environment.get("PATH")) is not None
            if answer["where"] == "program" and not is_there:
                raise NetreproError(f"no program {args[0]!r} on this machine", "install it, or give its path")
            raise NetreproError(
                f"{args[0]!r} cannot be started: {errno_text(answer['errno'])}", f"check the {answer['where']}"
            )
        self.pid: int = answer["guest"]

    returncode: int | None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or None while the program runs."""
        return self._wait(0)

    def poll_for(self, seconds: float) -> int | None:
        """Wait at most so many seconds for the end; return the exit status, or None if the program still runs."""
        return self._wait(seconds)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the exit status. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        status = self._wait(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and has_ended(self._status, timeout):
            with self._returncode_lock:  # not held while waiting, so that another thread can end it
                if self.returncode is None:
                    self.returncode = exit_status(self._status)
        return self.returncode

    def communicate(self, input: str | bytes | None = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Write `input` and read all output until the end, like subprocess.Popen.communicate.

        subprocess.TimeoutExpired has the output so far; the next call goes on, and returns all output.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._pending is None:
            self._pending = memoryview(input.encode() if isinstance(input, str) else input or b"")
        with selectors.DefaultSelector() as waiting:
            if self.stdin and not self.stdin.closed:
                waiting.register(self.stdin, selectors.EVENT_WRITE, "stdin")
            for name, stream in (("stdout", self.stdout), ("stderr", self.stderr)):
                if stream:
                    self._came.setdefault(name, bytearray())
                if stream and not stream.closed:
                    waiting.register(stream, selectors.EVENT_READ, name)
            while waiting.get_map():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0.0, *self._output())
                for key, _ in waiting.select(left):
                    if self._passed_on(key.fd, key.data):
                        waiting.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]
        try:
            self.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0, *self._output()) from None
        return self._output()

    def _passed_on(self, descriptor: int, name: str) -> bool:
        """Write or read one part of a stream; tell whether the stream is done."""
        if name != "stdin":
            part = os.read(descriptor, 65536)
            self._came[name] += part
            return not part
        assert self._pending is not None
        try:
            self._pending = self._pending[os.write(descriptor, self._pending[:4096]) if self._pending else 0 :]
        except BrokenPipeError:
            self._pending = self._pending[:0]
        return not self._pending

    def _output(self) -> tuple[Any, Any]:
        streams = [bytes(self._came[name]) if name in self._came else None for name in ("stdout", "stderr")]
        if self._text:
            streams = [each.decode(errors="replace") if each is not None else None for each in streams]  # type: ignore[misc]
        return streams[0], streams[1]

    def send_signal(self, number: int) -> None:
        self._signal(number)

    def _signal(self, number: int, to_all: bool = False) -> None:
        if number not in signal.valid_signals():
            raise NetreproError(f"no signal {number!r}", "give one of the module signal, such as signal.SIGTERM")
        if self.poll() is None:
            self._launcher.ask("signal", guest=self.pid, number=int(number), all=to_all)

    def kill_all(self) -> None:
        """End the program and its process group now, by SIGKILL; processes that called setsid go on."""
        self._signal(signal.SIGKILL, to_all=True)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __del__(self) -> None:
        if hasattr(self, "pid"):
            os.close(self._status)

    def __enter__(self) -> Guest:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream:
                stream.close()
        self.wait()
