"""The HTTP and WebSocket server of a shim, on loopback. It supports the requests of the sidecar only."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .shim import Shim

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#: In bytes: the limit of a request (S2's limit of a state).
_MAX_BODY = 50 * 1024 * 1024


class Refused(Exception):
    """An error response of the protocol."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(str(body))
        self.status, self.body = status, body


class Server:
    def __init__(self, shim: Shim) -> None:
        self._shim = shim

    async def serve(self, port: int) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", port)
        async with server:
            await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            # The other side has gone, or does not speak HTTP.
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Handles one request. Returns whether another one may follow."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = {}
        for line in head[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        if length > _MAX_BODY:
            _respond(writer, 413, {"code": "invalid_state", "message": "the body is too large"})
            return False
        body = await reader.readexactly(length)
        path = target.split("?", 1)[0].strip("/")
        if not self._is_authorized(headers):
            _respond(writer, 401, {"code": "invalid_state", "message": "the token is missing or wrong"})
        elif path == "events" and "websocket" in headers.get("upgrade", "").lower():
            await self._events(reader, writer, headers)
            return False
        elif method == "GET" and path == "health":
            _respond(writer, 200, self._shim.health())
        elif method == "POST":
            status, answer = await self._call(path, body)
            _respond(writer, status, answer)
        else:
            _respond(writer, 404, {"code": "capability_unsupported", "capability": path})
        await writer.drain()
        return headers.get("connection", "").lower() != "close"

    def _is_authorized(self, headers: dict[str, str]) -> bool:
        given = headers.get("authorization", "").removeprefix("Bearer ")
        return not self._shim.token or hmac.compare_digest(given.encode(), self._shim.token.encode())

    async def _call(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        try:
            parsed = json.loads(body or b"{}")
            if not isinstance(parsed, dict):
                raise ValueError("the body is no object")
            return 200, await self._shim.call(path, parsed)
        except Refused as refused:
            return refused.status, refused.body
        except (ValueError, KeyError, TypeError) as error:
            return 400, {"code": "provider_unavailable", "message": f"{type(error).__name__}: {error}", "retryable": False}

    async def _events(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]
    ) -> None:
        key = headers["sec-websocket-key"] + _MAGIC
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        writer.write(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        self._shim.connected()
        # The first of the two that ends, ends the connection.
        tasks = [asyncio.create_task(self._send(writer)), asyncio.create_task(_read(reader, writer))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        while True:
            message = await self._shim.next_message()
            writer.write(_frame(0x1, message.encode()))
            await writer.drain()


def _respond(writer: asyncio.StreamWriter, status: int, answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


def _frame(opcode: int, payload: bytes) -> bytes:
    length = len(payload)
    if length < 126:
        head = struct.pack("!BB", 0x80 | opcode, length)
    elif length < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 126, length)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 127, length)
    return head + payload


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers pings, and returns when the other side closes."""
    while True:
        first, second = await reader.readexactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", await reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await reader.readexactly(8))
        mask = await reader.readexactly(4) if second & 0x80 else b"\0\0\0\0"
        payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(await reader.readexactly(length)))
        opcode = first & 0x0F
        if opcode == 0x8:
            writer.write(_frame(0x8, payload[:2]))
            return
        if opcode == 0x9:
            writer.write(_frame(0xA, payload))
