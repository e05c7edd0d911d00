"""All the servers of one host: HTTP and HTTPS, SMTP, POP3, IMAP with and without TLS, FTP and SSH."""

from __future__ import annotations

import asyncio
import random
import re
import ssl
import threading
from functools import partial
from typing import Any

import asyncssh
from aiohttp import web
from aiosmtpd.smtp import SMTP
from common import begin, close, lognormal_bytes, own_random, say, stop_of_loop
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer


class Mailboxes:
    """Mailboxes over POP3 (RFC 1939) and IMAP (RFC 3501), as far as our clients use them; mails are drawn at random."""

    def __init__(self, work: dict[str, Any]):
        self._work, self._opened = work, 0

    def _open(self) -> tuple[random.Random, list[bytes]]:
        """Draw the mailbox of one login: its random generator and its mails, mostly none."""
        self._opened += 1
        rng = own_random(self._work, self._opened)
        count = 0 if rng.random() < 0.6 else 1 + int(rng.expovariate(1.0))
        sizes = [lognormal_bytes(rng, 1800, 1.0, 300, 60_000) for _ in range(count)]
        return rng, [b"Subject: x\r\n\r\n" + (b"y" * 70 + b"\r\n") * (size // 72 + 1) for size in sizes]

    async def pop3(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rng, messages = self._open()
        sizes = [(i + 1, len(text)) for i, text in enumerate(messages)]
        writer.write(b"+OK POP3 server ready <%d.%d@example.org>\r\n" % (rng.randrange(10**6), 7))
        try:
            while line := await reader.readline():
                command, _, argument = line.decode().strip().partition(" ")
                command = command.upper()
                await asyncio.sleep(rng.expovariate(1 / 0.004))
                if command == "STAT":
                    writer.write(b"+OK %d %d\r\n" % (len(messages), sum(map(len, messages))))
                elif command == "LIST":
                    writer.write(b"+OK\r\n" + b"".join(b"%d %d\r\n" % each for each in sizes) + b".\r\n")
                elif command == "UIDL":
                    writer.write(b"+OK\r\n" + b"".join(b"%d %032d\r\n" % each for each in sizes) + b".\r\n")
                elif command == "RETR":
                    text = messages[int(argument) - 1]
                    writer.write(b"+OK %d octets\r\n" % len(text) + text + b".\r\n")
                else:
                    writer.write(b"+OK\r\n")
                await writer.drain()
                if command == "QUIT":
                    break
        except ConnectionError:
            pass
        finally:
            await close(writer)

    async def imap(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (rng, messages), capabilities = self._open(), b"IMAP4rev1 LITERAL+ IDLE NAMESPACE"
        writer.write(b"* OK [CAPABILITY " + capabilities + b"] IMAP server ready\r\n")
        try:
            while line := await reader.readline():
                tag, _, rest = line.strip().partition(b" ")
                command = rest.split(b" ")[0].upper()
                await asyncio.sleep(rng.expovariate(1 / 0.004))
                if command == b"CAPABILITY":
                    writer.write(b"* CAPABILITY " + capabilities + b"\r\n")
                elif command in (b"SELECT", b"EXAMINE"):
                    writer.write(b"* FLAGS (\\Seen \\Deleted)\r\n* %d EXISTS\r\n* 0 RECENT\r\n" % len(messages))
                    writer.write(b"* OK [UIDVALIDITY 1]\r\n")
                elif command == b"SEARCH":
                    writer.write(b"* SEARCH" + b"".join(b" %d" % (i + 1) for i in range(len(messages))) + b"\r\n")
                elif command == b"FETCH":
                    number = int((re.search(rb"FETCH (\d+)", rest) or [b"", b"1"])[1])
                    text = messages[number - 1] if b"RFC822" in rest else b"z" * rng.randint(400, 2500) + b"\r\n"
                    writer.write(b"* %d FETCH (RFC822 {%d}\r\n" % (number, len(text)) + text + b")\r\n")
                elif command == b"LOGOUT":
                    writer.write(b"* BYE\r\n")
                writer.write(tag + b" OK done\r\n")
                await writer.drain()
                if command == b"LOGOUT":
                    break
        except ConnectionError:
            pass
        finally:
            await close(writer)


class Swallow:
    """A handler that accepts every mail and discards it."""

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        return "250 Message accepted for delivery"


async def page(request: web.Request) -> web.StreamResponse:
    """Answer with the requested number of bytes after the requested delay (ms), chunked for sizes divisible by 3."""
    size, wait_ms = int(request.query["bytes"]), int(request.query["wait"])
    await request.read()
    await asyncio.sleep(wait_ms / 1000)
    headers = {"Server": "server/2.2", "ETag": "x" * (size % 40), "Cache-Control": "max-age=3600"}
    if size % 3:
        return web.Response(body=bytes(size), headers=headers, content_type="text/html")
    response = web.StreamResponse(headers=headers)
    response.enable_chunked_encoding()
    await response.prepare(request)
    for start in range(0, size, 8192):
        await response.write(bytes(min(8192, size - start)))
    await response.write_eof()
    return response


def serve_ftp(folder: str) -> None:
    authorizer = DummyAuthorizer()
    authorizer.add_anonymous(folder)
    handler = type("Handler", (FTPHandler,), {"authorizer": authorizer, "banner": "FTP server ready"})
    FTPServer(("0.0.0.0", 21), handler).serve_forever(handle_exit=False)


class SshServer(asyncssh.SSHServer):
    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return True


async def command(process: asyncssh.SSHServerProcess) -> None:
    """Answer a command: a number gets so many bytes of output; any other text is echoed."""
    try:
        if process.command and process.command.isdigit():
            process.stdout.write("o" * int(process.command))
        else:
            while typed := await process.stdin.read(16):
                process.stdout.write(typed)
    except asyncssh.Error:
        pass
    process.exit(0)


async def main() -> None:
    work = begin()
    style = random.Random(work["style"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(work["certificate"])
    if style.random() < 0.4:
        tls.maximum_version = ssl.TLSVersion.TLSv1_2
    application = web.Application(client_max_size=1 << 24)
    application.router.add_route("*", "/{path:.*}", page)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    for port, encrypted in ((80, False), (8080, False), (443, True)):
        await web.TCPSite(runner, "0.0.0.0", port, ssl_context=tls if encrypted else None, backlog=512).start()
    boxes = Mailboxes(work)
    for port, act in ((110, boxes.pop3), (143, boxes.imap)):
        await asyncio.start_server(act, "0.0.0.0", port)
    for port, act in ((995, boxes.pop3), (993, boxes.imap)):
        await asyncio.start_server(act, "0.0.0.0", port, ssl=tls)
    mail = partial(SMTP, Swallow(), hostname="mail.example.org", enable_SMTPUTF8=style.random() < 0.5)
    loop = asyncio.get_running_loop()
    for port in (25, 587):
        await loop.create_server(partial(mail, tls_context=tls), "0.0.0.0", port)
    await loop.create_server(mail, "0.0.0.0", 465, ssl=tls)
    key = asyncssh.generate_private_key("ssh-ed25519")
    await asyncssh.listen("0.0.0.0", 22, server_factory=SshServer, server_host_keys=[key], process_factory=command)
    threading.Thread(target=serve_ftp, args=(work["content"],), daemon=True).start()
    stopped = stop_of_loop()
    say("ready")
    await stopped.wait()


asyncio.run(main())
