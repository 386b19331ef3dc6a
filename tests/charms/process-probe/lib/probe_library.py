"""A library of the charm. Its state must not be shared between runs."""

VERSION = 1
calls = []


def call():
    calls.append(None)
    return len(calls)
