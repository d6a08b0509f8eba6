"""The worker processes of a pipeline on DirectRunner."""

import os
import signal
import subprocess
import time


def workers_of(process):
    """Returns the worker processes that a job has started."""
    table = subprocess.check_output(["ps", "-Aww", "-o", "pid=,ppid=,args="])
    rows = [row.split(maxsplit=2) for row in table.decode().splitlines()]
    family = [str(process.pid)]
    for parent in family:  # also of a shell that it started
        family += [row[0] for row in rows if row[1] == parent]
    return [
        int(pid)
        for pid, _, command in rows
        if pid in family and "sdk_worker_main" in command
    ]


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def kill_a_worker(command, has_started):
    """Starts a job, and kills a worker of it as soon as it has started.

    Waits until all of its processes have ended, and checks what it says.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for(lambda: has_started() or process.poll() is not None)
    workers = workers_of(process)
    assert len(workers) >= 2
    os.kill(workers[-1], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"Start the same command again" in errors
    # The others end by themselves.
    wait_for(lambda: not any(map(is_running, workers)))
