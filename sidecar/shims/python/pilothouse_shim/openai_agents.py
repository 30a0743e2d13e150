"""A shim for the OpenAI Agents SDK.

    python -m pilothouse_shim.openai_agents [--agent module:build]

`build` gets the brief, and returns an `agents.Agent`. Without it, the agent has the instructions of the brief and a
shell. Every function tool needs an approval. The state of a paused run is the SDK's `RunState`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable
from typing import Any, Literal, cast

import agents
from agents.run import CallModelData, ModelInputData

from . import tools
from .agent import Agent, Capabilities, Completion, Run
from .shim import main

Json = dict[str, Any]
Build = Callable[[Json], "agents.Agent[Any]"]


def default_agent(brief: Json) -> agents.Agent[Any]:
    model = brief.get("modelPreference")
    return agents.Agent(
        name="agent",
        instructions=brief.get("instructions") or None,
        tools=[agents.function_tool(tools.shell)],
        **({"model": model} if model else {}),
    )


class OpenAIAgent(Agent):
    name = "openai"
    version = "1"
    capabilities = Capabilities(pause=True, resume=True, usage=True)

    def __init__(self, build: Build = default_agent) -> None:
        self._build = build
        # The conversation before the current turn, and the state within it.
        self._items: list[Any] = []
        self._state: str | None = None
        self._result: agents.RunResultStreaming | None = None
        self._stopping = False
        self._at_rest = asyncio.Event()
        # Messages that were injected into the turn, with their place in the input.
        self._inserted: list[tuple[int, Json]] = []
        # Arguments that the owner changed, by the id of the call.
        self._changed: dict[str, str] = {}
        # The tool and the arguments of each call of the turn, for its result.
        self._calls: dict[str, tuple[str, Json]] = {}
        self._denied: set[str] = set()

    def checkpoint(self) -> Json:
        return {"runStateJson": self._state, "items": self._items, "inserted": self._inserted, "changed": self._changed}

    async def stop(self) -> None:
        """Waits for the end of the current model call and its tools."""
        self._stopping = True
        if self._result is not None:
            self._result.cancel(mode="after_turn")
            await self._at_rest.wait()

    async def run(self, run: Run) -> Completion | str:
        self._stopping = False
        self._at_rest.clear()
        try:
            return await self._turn(run)
        finally:
            self._result = None
            self._at_rest.set()

    async def _turn(self, run: Run) -> Completion | str:
        if run.checkpoint:
            self._items = run.checkpoint.get("items") or []
            self._state = run.checkpoint.get("runStateJson")
            self._inserted = [(at, item) for at, item in run.checkpoint.get("inserted") or []]
            self._changed = run.checkpoint.get("changed") or {}
        agent = self._governed(self._build(run.brief))
        source: Any
        if run.input is not None:
            self._state, self._inserted, self._changed = None, [], {}
            self._items = [*self._items, {"role": "user", "content": run.input}]
        if self._state is None:
            source = list(self._items)
        else:
            source = await agents.RunState.from_string(agent, self._state)
            await self._approve(run, source)
        while True:
            try:
                result = await self._stream(run, agent, source)
            except agents.MaxTurnsExceeded as error:
                return Completion(str(error), "max_turns")
            if result.interruptions:
                source = result.to_state()
                self._state = source.to_string()
                await self._approve(run, source)
            elif self._stopping and result.final_output is None:
                self._state = result.to_state().to_string()
                self._at_rest.set()
                # The shim cancels this task.
                await asyncio.Event().wait()
            else:
                self._items, self._state = self._with_inserted(result.to_input_list()), None
                self._inserted = []
                late = run.injected()
                if not late:
                    return str(result.final_output or "")
                self._items += [{"role": "user", "content": text} for text in late]
                source = list(self._items)

    async def _stream(self, run: Run, agent: agents.Agent[Any], source: Any) -> agents.RunResultStreaming:
        def with_injected(data: CallModelData[Any]) -> ModelInputData:
            given = data.model_data
            for text in run.injected():
                at = len(given.input) + len(self._inserted)
                self._inserted.append((at, {"role": "user", "content": text}))
            return ModelInputData(input=self._with_inserted(given.input), instructions=given.instructions)

        config = agents.RunConfig(call_model_input_filter=with_injected, tracing_disabled=True)
        limit = (run.brief.get("sessionPolicy") or {}).get("maxTurns") or 1000
        result = agents.Runner.run_streamed(agent, source, run_config=config, max_turns=limit)
        self._result = result
        if self._stopping:
            result.cancel(mode="after_turn")
        async for event in result.stream_events():
            self._report(run, event)
        return result

    def _report(self, run: Run, event: agents.StreamEvent) -> None:
        if event.type == "raw_response_event" and event.data.type == "response.completed":
            response = event.data.response
            if response.usage is not None:
                cached = response.usage.input_tokens_details.cached_tokens or 0
                run.usage(
                    str(response.model),
                    input_tokens=response.usage.input_tokens - cached,
                    output_tokens=response.usage.output_tokens,
                    cached_tokens=cached,
                )
        elif event.type == "run_item_stream_event":
            item = event.item
            if isinstance(item, agents.MessageOutputItem):
                run.say(agents.ItemHelpers.text_message_output(item))
            elif isinstance(item, agents.ToolCallItem):
                call = _fields(item.raw_item)
                name, arguments = str(call.get("name")), _arguments(call.get("arguments"))
                self._calls[_call_id(call)] = (name, arguments)
                run.tool(_call_id(call), name, arguments, "requested")
            elif isinstance(item, agents.ToolCallOutputItem):
                call = _fields(item.raw_item)
                name, arguments = self._calls.pop(_call_id(call), ("tool", {}))
                phase: Literal["completed", "failed"]
                phase = "failed" if _call_id(call) in self._denied else "completed"
                run.tool(_call_id(call), name, arguments, phase, str(item.output))

    async def _approve(self, run: Run, state: agents.RunState[Any]) -> None:
        for item in state.get_interruptions():
            call = _fields(item.raw_item)
            name, arguments = str(item.tool_name), _arguments(call.get("arguments"))
            # In another process, the call was requested before.
            self._calls[_call_id(call)] = (name, arguments)
            approval = await run.approve(_call_id(call), name, arguments)
            if not approval.approved:
                self._denied.add(_call_id(call))
                state.reject(item, rejection_message=approval.reason)
                continue
            if approval.arguments != arguments:
                self._changed[_call_id(call)] = json.dumps(approval.arguments)
            state.approve(item, always_approve=approval.always)
        self._state = state.to_string()

    def _with_inserted(self, items: list[Any]) -> list[Any]:
        items = list(items)
        for at, item in self._inserted:
            items.insert(at, item)
        return items

    def _governed(self, agent: agents.Agent[Any]) -> agents.Agent[Any]:
        """The same agent, whose function tools need an approval and take changed arguments."""
        return agent.clone(tools=[self._governed_tool(tool) for tool in agent.tools])

    def _governed_tool(self, tool: agents.Tool) -> agents.Tool:
        if not isinstance(tool, agents.FunctionTool):
            return tool
        invoke = tool.on_invoke_tool

        async def with_changed(context: Any, arguments: str) -> Any:
            return await invoke(context, self._changed.get(context.tool_call_id, arguments))

        tool.needs_approval = True
        tool.on_invoke_tool = with_changed
        return tool


def _fields(item: Any) -> Json:
    return cast(Json, item if isinstance(item, dict) else item.model_dump())


def _call_id(call: Json) -> str:
    return str(call.get("call_id") or call.get("id"))


def _arguments(text: Any) -> Json:
    try:
        parsed = json.loads(text or "{}")
    except (TypeError, ValueError):
        return {"arguments": str(text)}
    return parsed if isinstance(parsed, dict) else {"arguments": parsed}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--agent", metavar="MODULE:BUILD")
    own, rest = parser.parse_known_args()
    build = tools.load(own.agent)
    main(OpenAIAgent(cast(Build, build) if build else default_agent), rest)
