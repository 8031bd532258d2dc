"""Teams of PEs."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

from . import _memory
from ._library import check, function, integer, raise_fault, require
from ._memory import INT
from ._streams import on_stream

_INVALID = -1
_PREDEFINED = range(4)  # GSHMEM_TEAM_WORLD .. GSHMEMX_TEAM_SAME_MYPE_NODE


def _team_of(call: str, team: Any, argument: str = "team") -> Team:
    """`team`, which is to be one that was not destroyed."""
    if not isinstance(team, Team):
        raise TypeError(f"{call}: {argument} = {team!r} is not a gshmem.Team")
    if team.handle == _INVALID:
        raise ValueError(f"{call}: {team!r} was destroyed")
    if team.handle not in _PREDEFINED and team._job != _memory._job:
        raise ValueError(f"{call}: {team!r} is of a job that finalize() has ended")
    return team


class Team:
    """An ordered set of PEs: WORLD, SHARED, NODE, or of split_strided() and split_2d()."""

    def __init__(self, handle: int, name: str = ""):
        self.handle = handle  #: a gshmem_team_t
        self._name = name
        self._job = _memory._job

    def _handle(self, call: str) -> int:
        require()
        return _team_of(call, self).handle

    def _number(self, what: str, call: str = "") -> int:
        call = call or f"Team.{what}"
        number = function(f"gshmem_team_{what}", ctypes.c_int, ctypes.c_int)(self._handle(call))
        if number < 0:
            raise_fault()
            raise ValueError(f"{call}: {self!r} is not a team of this PE")
        return int(number)

    @property
    def my_pe(self) -> int:
        """The number of this PE in the team."""
        return self._number("my_pe")

    @property
    def n_pes(self) -> int:
        """How many members the team has."""
        return self._number("n_pes")

    def translate_pe(self, pe: int, to: "Team") -> int:
        """The number in `to` of the member that is number `pe` here; -1 where it is no member."""
        call = "Team.translate_pe"
        handle, theirs, pe = self._handle(call), _team_of(call, to, "to").handle, integer(call, "pe", pe, INT)
        return int(function("gshmem_team_translate_pe", ctypes.c_int, *[ctypes.c_int] * 3)(handle, pe, theirs))

    def split_strided(self, start: int, stride: int, size: int) -> Optional["Team"]:
        """Collective over this team: the members start + i * stride, i < size. None on those that are no member."""
        call = "Team.split_strided"
        handle = self._handle(call)
        start, stride, size = (integer(call, name, value, INT)
                               for name, value in (("start", start), ("stride", stride), ("size", size)))
        new = ctypes.c_int32(_INVALID)
        split = function("gshmem_team_split_strided", ctypes.c_int, *[ctypes.c_int] * 4, ctypes.c_void_p, ctypes.c_long,
                         ctypes.c_void_p)
        status = split(handle, start, stride, size, None, 0, ctypes.addressof(new))
        if status:
            check(status, call, self._why_not(start, stride, size))
        return Team(new.value) if new.value != _INVALID else None

    def _why_not(self, start: int, stride: int, size: int) -> str:
        """Why these are no members; empty: they are."""
        last, members = start + stride * (size - 1), range(self.n_pes)
        if size > 0 and start in members and last in members and (stride or size == 1):
            return ""
        return f"start = {start}, stride = {stride}, size = {size} are not {size} of the members 0 .. {len(members) - 1}"

    def split_2d(self, xrange: int) -> tuple["Team", "Team"]:
        """Collective over this team: this PE's row and column where member i is at (i % xrange, i // xrange)."""
        call = "Team.split_2d"
        handle, xrange = self._handle(call), integer(call, "xrange", xrange, INT)
        axes = [ctypes.c_int32(_INVALID), ctypes.c_int32(_INVALID)]
        split = function("gshmem_team_split_2d", ctypes.c_int, ctypes.c_int, ctypes.c_int,
                         *[ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p] * 2)
        x, y = (ctypes.addressof(axis) for axis in axes)
        check(split(handle, xrange, None, 0, x, None, 0, y), call)
        return Team(axes[0].value), Team(axes[1].value)

    def barrier(self, *, stream: Any = None) -> None:
        """Collective: completes this PE's operations, and waits for the members."""
        self._synchronize("Team.barrier", "barrier", stream)

    def sync(self, *, stream: Any = None) -> None:
        """Collective: waits for the members, and completes nothing."""
        self._synchronize("Team.sync", "team_sync", stream)

    def _synchronize(self, call: str, stem: str, stream: Any) -> None:
        handle = self._handle(call)
        if stream is None:
            status = function("gshmem_" + stem, ctypes.c_int, ctypes.c_int)(handle)
        else:
            status = on_stream(stem, ctypes.c_int, ctypes.c_int)(handle, stream)
        check(status, call)

    def destroy(self) -> None:
        """Collective over the members. Never done by the garbage collector. WORLD, SHARED and NODE stay."""
        self._number("n_pes", "Team.destroy")
        if self.handle in _PREDEFINED:
            raise ValueError(f"Team.destroy: {self!r} is predefined, and cannot be destroyed")
        function("gshmem_team_destroy", None, ctypes.c_int)(self.handle)
        self._name, self.handle = str(self.handle), _INVALID
        raise_fault()

    def __repr__(self) -> str:
        return f"<gshmem.Team {self._name or self.handle}>"


WORLD = Team(0, "WORLD")    #: all PEs
SHARED = Team(1, "SHARED")  #: PEs whose memory is mapped here
NODE = Team(2, "NODE")      #: PEs of this host
