"""A tool for agents that have none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

#: Characters of output for the model.
_OUTPUT = 20_000


async def shell(command: str) -> str:
    """Runs a shell command in the working directory, and returns its output and exit status."""
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    text = output.decode(errors="replace")
    return f"{text[:_OUTPUT]}\n[exit status {process.returncode}]"


def load(name: str | None) -> object | None:
    """The object that `module:attribute` names."""
    if name is None:
        return None
    import importlib

    module, _, attribute = name.partition(":")
    found: object = getattr(importlib.import_module(module), attribute)
    return found
