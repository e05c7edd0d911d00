"""Protocols as state machines without input or output: the time is an argument, messages and events come out."""

from netrepro.protocols.machine import Event, Machine, Send, drive

__all__ = ["Event", "Machine", "Send", "drive"]
