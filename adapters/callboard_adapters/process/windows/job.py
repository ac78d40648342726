"""A Windows job object: a process that was put into it, and everything that comes of that process, ends with it.

No child leaves a job that does not allow it, whatever console, group or parent it has, and the kernel ends the job when
the last handle to it goes: a host that is killed takes its runs along.
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"

import ctypes
import weakref
from ctypes import wintypes

_KILL_ON_JOB_CLOSE = 0x2000
_BASIC_ACCOUNTING = 1  # JobObjectBasicAccountingInformation
_EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation
_SET_QUOTA_AND_TERMINATE = 0x0100 | 0x0001  # what AssignProcessToJobObject asks of a process handle
_EXIT_CODE = 1  # of a process that was ended: what Popen.kill gives, and the task manager

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
_kernel32.CreateJobObjectW.argtypes = (wintypes.LPVOID, wintypes.LPCWSTR)
_kernel32.CreateJobObjectW.restype = wintypes.HANDLE
_kernel32.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
_kernel32.QueryInformationJobObject.argtypes = (
    wintypes.HANDLE,
    ctypes.c_int,
    wintypes.LPVOID,
    wintypes.DWORD,
    wintypes.LPVOID,
)
_kernel32.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
_kernel32.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
_kernel32.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
_kernel32.OpenProcess.restype = wintypes.HANDLE
_kernel32.CloseHandle.argtypes = (wintypes.HANDLE,)


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("per_process_user_time", ctypes.c_int64),
        ("per_job_user_time", ctypes.c_int64),
        ("flags", wintypes.DWORD),
        ("minimum_working_set", ctypes.c_size_t),
        ("maximum_working_set", ctypes.c_size_t),
        ("active_processes", wintypes.DWORD),
        ("affinity", ctypes.c_size_t),
        ("priority_class", wintypes.DWORD),
        ("scheduling_class", wintypes.DWORD),
    )


class _ExtendedLimits(ctypes.Structure):
    _fields_ = (("basic", _BasicLimits), ("io", ctypes.c_uint64 * 6), ("memory", ctypes.c_size_t * 4))


class _Accounting(ctypes.Structure):
    _fields_ = (
        ("times", ctypes.c_int64 * 4),
        ("page_faults", wintypes.DWORD),
        ("total", wintypes.DWORD),
        ("active", wintypes.DWORD),
        ("terminated", wintypes.DWORD),
    )


class Job:
    """A new, empty job, which ends what is in it when it is closed or forgotten. Methods raise OSError."""

    def __init__(self) -> None:
        handle = _kernel32.CreateJobObjectW(None, None)
        if not handle:
            raise ctypes.WinError(ctypes.get_last_error())
        self._handle = handle
        self._close = weakref.finalize(self, _kernel32.CloseHandle, handle)
        limits = _ExtendedLimits()
        limits.basic.flags = _KILL_ON_JOB_CLOSE
        _check(_kernel32.SetInformationJobObject(handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)))

    def add(self, pid: int) -> None:
        """Put a process into the job. Whoever calls holds a handle to it, so its number is not somebody else's."""
        process = _kernel32.OpenProcess(_SET_QUOTA_AND_TERMINATE, False, pid)
        _check(process)
        try:
            _check(_kernel32.AssignProcessToJobObject(self._handle, process))
        finally:
            _kernel32.CloseHandle(process)

    def active(self) -> int:
        """How many processes of the job are alive; 0 once it has been closed."""
        if not self._close.alive:
            return 0
        seen = _Accounting()
        size = ctypes.sizeof(seen)
        _check(_kernel32.QueryInformationJobObject(self._handle, _BASIC_ACCOUNTING, ctypes.byref(seen), size, None))
        return int(seen.active)

    def terminate(self) -> None:
        """End every process of the job at once. The kernel does it; `active` says when it is done."""
        if self._close.alive:
            _check(_kernel32.TerminateJobObject(self._handle, _EXIT_CODE))

    def close(self) -> None:
        """Give the job up, and with it what is still in it. Repeatable."""
        self._close()


def _check(result: int | None) -> None:
    if not result:
        raise ctypes.WinError(ctypes.get_last_error())
