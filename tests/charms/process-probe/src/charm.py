#!/usr/bin/env python3
"""Prints what it sees of its own process, and ends as its action requests."""

import atexit
import faulthandler
import gc
import json
import locale
import logging
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings

import probe_library

# what differs between two runs
OF_RUN = ("JUJU_CONTEXT_ID", "JUJU_ACTION_UUID", "JUJU_ACTION_TAG")


def read(path):
    with open(path) as file:
        return file.read()


def stream(file):
    attributes = ("name", "mode", "encoding", "errors", "line_buffering", "write_through", "newlines")
    return [type(file).__name__] + [repr(getattr(file, name, None)) for name in attributes] + [
        type(file.buffer).__name__,
        file.buffer.raw.seekable(),
        file.buffer.raw.closefd,
        os.get_inheritable(file.fileno()),
    ]


def open_files():
    found = {}
    for number in sorted(os.listdir("/proc/self/fd"), key=int):
        # the folder itself is closed again
        if os.path.exists("/proc/self/fd/" + number):
            found[number] = os.readlink("/proc/self/fd/" + number).split(":")[0]
    return found


def logging_age():
    """The seconds since logging was imported, as its records show them."""
    return logging.makeLogRecord({}).relativeCreated / 1000


def process_age():
    """The seconds since this process was forked, and the steps of that clock."""
    fields = read("/proc/self/stat").rpartition(")")[2].split()
    step = 1 / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[22 - 3]) * step + step


def event_loops():
    # imported after the modules were listed
    import asyncio

    return type(asyncio.get_event_loop_policy()).__name__


def prctl(option):
    import ctypes

    value = ctypes.c_int(-1)
    returned = ctypes.CDLL(None).prctl(option, ctypes.byref(value), 0, 0, 0)
    return [returned, value.value]


def facts():
    own, parent = os.getpid(), os.getppid()
    lines = dict(line.split(":", 1) for line in read("/proc/self/status").splitlines())
    shown = [text for text in read("/proc/self/environ").split("\0") if text]
    frame, stack = sys._getframe(), []
    while frame:
        stack.append([frame.f_code.co_filename, frame.f_code.co_name])
        frame = frame.f_back
    main = sys.modules["__main__"]
    return {
        "argv": sys.argv,
        "orig_argv": getattr(sys, "orig_argv", None),
        "flags": repr(sys.flags),
        "executable": sys.executable,
        "path": sys.path,
        "main": sorted(vars(main)),
        "file": __file__,
        "spec": repr(__spec__),
        "loader": [type(__loader__).__name__, __loader__.name, __loader__.path],
        "package": repr(__package__),
        "environ": {name: value for name, value in os.environ.items() if name not in OF_RUN},
        "all of environ is shown": sorted(shown) == sorted("=".join(item) for item in os.environ.items()),
        "the environment of children": sorted(subprocess.check_output(["env", "-0"]).decode().split("\0"))
        == sorted(shown + [""]),
        "cmdline": read("/proc/self/cmdline"),
        "comm": read("/proc/self/comm"),
        "exe": os.readlink("/proc/self/exe"),
        "cwd": os.getcwd(),
        "parent": read("/proc/%d/comm" % parent),
        "leads its group": os.getpgrp() == own,
        "in the group of its parent": os.getpgrp() == parent,
        "leads its session": os.getsid(0) == own,
        "in the session of its parent": os.getsid(0) == os.getsid(parent),
        "files": open_files(),
        "status": {
            name: lines[name]
            for name in ("Umask", "SigPnd", "SigBlk", "SigIgn", "SigCgt", "Threads", "NoNewPrivs", "Seccomp", "CapEff", "Uid", "Gid")
        },
        "limits": read("/proc/self/limits"),
        "oom": read("/proc/self/oom_score_adj"),
        "nice": os.nice(0),
        "handlers": [repr(signal.getsignal(number)).split(" at ")[0] for number in range(1, 65)],
        "streams": [stream(file) for file in (sys.stdin, sys.stdout, sys.stderr)],
        "original streams": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__],
        "stack": stack,
        "excepthook": sys.excepthook is sys.__excepthook__,
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), len(gc.callbacks)],
        "warnings": repr(warnings.filters),
        "modules": sorted(sys.modules),
        "importers": [[path, type(importer).__name__] for path, importer in sorted(sys.path_importer_cache.items())],
        "finders": [len(sys.meta_path), len(sys.path_hooks)],
        "at exit": atexit._ncallbacks(),
        "faults": faulthandler.is_enabled(),
        "recursion": sys.getrecursionlimit(),
        "switches": sys.getswitchinterval(),
        "tracing": [sys.gettrace() is None, sys.getprofile() is None, sys.breakpointhook is sys.__breakpointhook__],
        "locale": [locale.setlocale(locale.LC_ALL), sys.getfilesystemencoding(), locale.getpreferredencoding()],
        "time zone": time.tzname,
        "event loops": event_loops(),
        "functions": [type(vars(probe_library)[name]).__name__ for name in probe_library.FUNCTIONS],
        "process": {
            name: read("/proc/self/" + name)
            for name in ("cgroup", "loginuid", "personality", "coredump_filter", "timers", "timerslack_ns")
            if os.path.exists("/proc/self/" + name)
        },
        "namespaces": sorted(os.readlink("/proc/self/ns/" + name) for name in os.listdir("/proc/self/ns")),
        "root": os.readlink("/proc/self/root"),
        "terminal": read("/proc/self/stat").rpartition(")")[2].split()[7 - 3],
        "scheduler": [os.sched_getscheduler(0), sorted(os.sched_getaffinity(0)), os.getpriority(os.PRIO_PGRP, 0)],
        # the signal at the death of the parent, dumpable, subreaper, keepcaps
        "prctl": [prctl(2), prctl(3), prctl(37), prctl(7)],
        "shared memory": [line.split()[-1] for line in read("/proc/self/maps").splitlines() if line.split()[1][1:4:2] == "ws"],
        "children": [resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt == 0, time.process_time() < 60],
        "main thread is the process": threading.main_thread().native_id == own,
        "handlers of logging": len(logging.getLogger().handlers),
        "logging began in this process": logging_age() <= process_age(),
        "library-calls": probe_library.call(),
        "version": probe_library.VERSION,
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "threads": [thread.name for thread in threading.enumerate()],
        "main thread": threading.main_thread() is threading.current_thread(),
    }


def end(how):
    print("out " + how)
    print("err " + how, file=sys.stderr)
    if how == "return":
        atexit.register(print, "at exit", end="")
    elif how == "code":
        sys.exit(3)
    elif how == "text":
        sys.exit("a text")
    elif how == "raise":
        raise ValueError("a value")
    elif how == "interrupt":
        raise KeyboardInterrupt
    elif how == "at once":
        os._exit(4)
    elif how == "thread":
        threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
    elif how == "warn":
        warnings.warn("a warning", stacklevel=1)
    elif how == "close":
        os.close(1)
    elif how == "group":
        sys.stdout.flush()
        os.killpg(0, signal.SIGTERM)
        time.sleep(60)
    else:
        sys.stdout.flush()
        os.kill(os.getpid(), getattr(signal, how))


def main():
    name = os.environ.get("JUJU_ACTION_NAME")
    if name == "facts":
        print(json.dumps({"facts": facts(), "random": random.random()}))
    elif name == "end":
        end(subprocess.check_output(["action-get", "how"]).decode().strip())
    elif name == "wait":
        with open("waiting", "a") as file:
            file.write("%d\n" % os.getpid())
        while not os.path.exists("go"):
            time.sleep(0.01)
        subprocess.check_call(["action-set", "ended=yes"])
    elif os.environ.get("JUJU_HOOK_NAME") == "start":
        subprocess.check_call(["status-set", "active"])
    elif os.environ.get("JUJU_HOOK_NAME") == "config-changed":
        with open("changed", "a") as file:
            file.write("%d\n" % os.getpid())


if __name__ == "__main__":
    main()
