"""Fetching and sending mail with Python's clients: POP3, IMAP and SMTP; plain, with TLS from the start, or STARTTLS."""

from __future__ import annotations

import asyncio
import imaplib
import poplib
import random
import smtplib
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from common import begin, keep_to_schedule, lognormal_bytes, own_random, say

TIMEOUT_S = 40
KINDS = {"pop3": 28, "pop3s": 14, "imap": 10, "imaps": 18, "smtp": 14, "starttls": 10, "smtps": 6}


class MailClient:
    """One user's mail program."""

    def __init__(self, work: dict[str, Any]):
        self.work = work
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without authorities: nothing is verified
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        self.threads = ThreadPoolExecutor(8)

    async def session(self, number: int) -> None:
        rng = own_random(self.work, number)
        (kind,) = rng.choices(list(KINDS), weights=list(KINDS.values()))
        act = {"pop3": self.pop3, "pop3s": self.pop3, "imap": self.imap, "imaps": self.imap}.get(kind, self.smtp)
        server = rng.choice(self.work["servers"])
        await asyncio.get_running_loop().run_in_executor(self.threads, act, kind, server, rng)

    def pop3(self, kind: str, server: str, rng: random.Random) -> None:
        client = (
            poplib.POP3_SSL(server, timeout=TIMEOUT_S, context=self.tls)
            if kind == "pop3s"
            else poplib.POP3(server, timeout=TIMEOUT_S)
        )
        client.user(f"user{rng.randint(1, 9999)}")
        client.pass_("x" * rng.randint(6, 14))
        messages, _ = client.stat()
        if messages:
            client.list()
            client.uidl()
        for i in range(messages):
            client.retr(i + 1)
            if rng.random() < 0.7:
                client.dele(i + 1)
        client.quit()

    def imap(self, kind: str, server: str, rng: random.Random) -> None:
        client = (
            imaplib.IMAP4_SSL(server, timeout=TIMEOUT_S, ssl_context=self.tls)
            if kind == "imaps"
            else imaplib.IMAP4(server, timeout=TIMEOUT_S)
        )
        client.login(f"user{rng.randint(1, 9999)}", "x" * rng.randint(6, 14))
        client.select("INBOX", readonly=rng.random() < 0.3)
        _, (unseen,) = client.search(None, "UNSEEN")
        for number in unseen.split():
            client.fetch(number.decode(), "(BODY.PEEK[HEADER])")
            if rng.random() < 0.4:
                client.fetch(number.decode(), "(RFC822)")
        for _ in range(int(rng.expovariate(1.0))):
            client.noop()
        client.logout()

    def smtp(self, kind: str, server: str, rng: random.Random) -> None:
        with (
            smtplib.SMTP_SSL(server, 465, timeout=TIMEOUT_S, context=self.tls)
            if kind == "smtps"
            else smtplib.SMTP(server, rng.choice((25, 25, 587)), timeout=TIMEOUT_S)
        ) as client:
            if kind == "starttls":
                client.starttls(context=self.tls)
            for _ in range(1 if rng.random() < 0.85 else 2):
                lines = lognormal_bytes(rng, 1500, 1.0, 200, 60_000) // 70 + 1
                to = [f"user{rng.randint(1, 9999)}@example.org" for _ in range(rng.choice((1, 1, 1, 2, 5)))]
                client.sendmail(f"user{rng.randint(1, 9999)}@example.com", to, ("x" * 68 + "\r\n") * lines)


async def main() -> None:
    work = begin()
    client = MailClient(work)
    say({"failed": await keep_to_schedule(work["begin_s"], work["times_s"], client.session)})


asyncio.run(main())
