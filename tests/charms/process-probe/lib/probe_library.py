"""A library of the charm. Its state must not be shared between runs."""

from os import getpid, register_at_fork, stat, urandom
from time import monotonic, time

VERSION = 1
FUNCTIONS = ("getpid", "register_at_fork", "stat", "urandom", "monotonic", "time")
calls = []


def call():
    calls.append(None)
    return len(calls)
