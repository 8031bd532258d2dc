"""python -m gshmem -n N [--] ARGUMENTS...: N processes of this Python with these arguments, as the PEs of one job.

ARGUMENTS are those of Python: a script, -m MODULE or -c CODE, and what follows. The job is on this host. When a process
fails, the others are ended, and its status is the launcher's.
"""
import os
import secrets
import signal
import socket
import subprocess
import sys
import time


def free_port() -> int:
    """A port that nothing uses, and that the kernel gives nobody before PE 0 listens there."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as bounds:
        first = int(bounds.read().split()[0])
    while True:
        port = 1024 + secrets.randbelow(max(first - 1024, 1024))
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def start(pes: int, arguments: list[str]) -> list[subprocess.Popen[bytes]]:
    """The processes of a job; `arguments` are those of Python."""
    job = dict(os.environ, GSHMEM_BOOTSTRAP="uid", GSHMEM_UID_ADDRESS=f"127.0.0.1:{free_port()}", GSHMEM_UID_SIZE=str(pes),
               GSHMEM_UID_SECRET=secrets.token_hex(16), LOCAL_WORLD_SIZE=str(pes))
    return [subprocess.Popen([sys.executable, *arguments], env=dict(job, GSHMEM_UID_RANK=str(pe), LOCAL_RANK=str(pe)))
            for pe in range(pes)]


def poll(processes: list[subprocess.Popen[bytes]]) -> tuple[bool, int]:
    """Does one still run, and the status of one that has failed, else 0.

    A signal comes before a status: the others fail because that process is gone.
    """
    codes = [process.poll() for process in processes]
    return None in codes, min(filter(None, codes), key=lambda code: code > 0, default=0)


def run(pes: int, arguments: list[str]) -> int:
    """The status of the first process that fails, else 0."""
    processes = start(pes, arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    status = 0
    try:
        running, status = poll(processes)
        while running and not status:
            time.sleep(0.01)
            running, status = poll(processes)
        grace = time.monotonic() + 5  # the others have a reason to tell, too
        while running and time.monotonic() < grace:
            time.sleep(0.01)
            running, _ = poll(processes)
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return status if status >= 0 else 128 - status


def mistake_in(given: list[str]) -> str:
    """What is wrong with a command line; empty: nothing."""
    if given[:1] != ["-n"]:
        return f"'{given[0]}' comes first instead of -n N" if given else "-n N is missing"
    if not given[1:2] or not given[1].isdigit() or int(given[1]) < 1:
        return f"-n takes the number of PEs, 1 at least, instead of {repr(given[1]) if given[1:] else 'nothing'}"
    if not given[2:] or given[2:] == ["--"]:
        return "nothing is to be run: a script, -m MODULE or -c CODE is missing"
    return ""


def main() -> int:
    given = sys.argv[1:]
    if given[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    mistake = mistake_in(given)
    if mistake:
        print(f"python -m gshmem: {mistake}\n\n{__doc__}", file=sys.stderr)
        return 2
    return run(int(given[1]), given[3:] if given[2] == "--" else given[2:])


if __name__ == "__main__":
    sys.exit(main())
