"""Drives an agent of any SDK for Pilothouse.

A shim is a program that serves the wire protocol of `docs/writing-a-shim.md`. Implement `Agent`, and call `main`:

- `agent` defines the interface of an agent, and the run that it gets for each turn
- `shim` is the state of the protocol: spawn, pause, resume, kill, decisions
- `server` is the HTTP and WebSocket server on loopback
- `openai_agents` and `adk` are shims for the OpenAI Agents SDK and the Agent Development Kit of Google
"""

from .agent import Agent, Approval, Capabilities, Choice, Completion, Option, Run
from .shim import main, serve

__all__ = ["Agent", "Approval", "Capabilities", "Choice", "Completion", "Option", "Run", "main", "serve"]
__version__ = "0.1.0"
