"""Protocols as state machines without input or output: the time is an argument, messages and events are results."""

from netrepro.protocols.machine import Event, Machine, Send, drive

__all__ = ["Event", "Machine", "Send", "drive"]
