"""An agent of NIXL: the source writes a megabyte into the sink's memory and reads it back.

Usage: nixl_agent.py source|sink FOLDER. They exchange their descriptions through files in FOLDER.
"""
import os
import sys
import time

import numpy as np

try:
    from nixl_cu13._api import nixl_agent, nixl_agent_config
except ImportError:
    from nixl_cu12._api import nixl_agent, nixl_agent_config

SECONDS = 120


def until(what, ready):
    end = time.monotonic() + SECONDS
    while not (value := ready()):
        if time.monotonic() > end:
            sys.exit(f"no {what} within {SECONDS} s")
        time.sleep(0.002)
    return value


class Files:
    def __init__(self, folder):
        self.folder = folder

    def put(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "wb") as file:
            file.write(data)
        os.rename(path + ".new", path)

    def take(self, name):
        path = os.path.join(self.folder, name)
        until(name, lambda: os.path.exists(path))
        with open(path, "rb") as file:
            return file.read()


def move(agent, kind, near, far, other, note):
    """Returns when the transfer is done."""
    handle = agent.initialize_xfer(kind, near, far, other, note)
    state = agent.transfer(handle)
    end = time.monotonic() + SECONDS
    while state != "DONE":
        if state == "ERR" or time.monotonic() > end:
            sys.exit(f"{kind}: state {state}")
        state = agent.check_xfer_state(handle)


def main():
    role, folder = sys.argv[1:]
    other = {"source": "sink", "sink": "source"}[role]
    files = Files(folder)
    agent = nixl_agent(role, nixl_agent_config(backends=["UCX"]))
    wanted = np.arange(1 << 18, dtype=np.uint32) * 2654435761
    data = wanted.copy() if role == "source" else np.zeros_like(wanted)
    agent.register_memory([(data.ctypes.data, data.nbytes, 0, role)], mem_type="DRAM")
    near = agent.get_xfer_descs([(data.ctypes.data, data.nbytes, 0)], mem_type="DRAM")
    files.put(f"{role}.agent", agent.get_agent_metadata())
    files.put(f"{role}.memory", agent.get_serialized_descs(near))
    agent.add_remote_agent(files.take(f"{other}.agent"))
    far = agent.deserialize_descs(files.take(f"{other}.memory"))
    if role == "source":
        move(agent, "WRITE", near, far, other, b"written")
        data[:] = 0
        move(agent, "READ", near, far, other, b"read")
        files.put("end", b"")
    else:
        notes = until("note", lambda: agent.get_new_notifs().get(other))
        if notes[0] != b"written":
            sys.exit(f"notes {notes}")
        files.take("end")
    wrong = int((data != wanted).sum())
    print(f"{role}: {wrong} wrong")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
