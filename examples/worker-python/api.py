"""Client of the GraphQL API: sends the operations of operations.graphql, and repeats them while the server is away."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Any, AsyncIterator

from aiohttp import ClientError
from gql import Client, GraphQLRequest, gql
from gql.transport.aiohttp import AIOHTTPTransport
from gql.transport.aiohttp_websockets import AIOHTTPWebsocketsTransport
from gql.transport.exceptions import TransportError, TransportQueryError, TransportServerError

OPERATIONS = gql((Path(__file__).parent / "operations.graphql").read_text())
LONGEST_PAUSE = 10.0
# Codes of errors[] after which the same request may succeed (docs/errors.md).
RETRYABLE = {"OVERLOADED", "SHUTTING_DOWN", "STREAM_UNAVAILABLE", "SHARD_UNAVAILABLE", "TIMEOUT"}
log = logging.getLogger("worker")


class Refused(Exception):
    """The server refused a request, and would refuse a repeat."""


class Unavailable(Exception):
    """The server could not carry out a request; a repeat may succeed."""


class Api:
    """Sends operations to one server. Every operation of the worker may be sent again: execute has a dedup key, events
    have ids, and leases have tokens."""

    def __init__(self, url: str) -> None:
        self.url = url
        token = os.environ.get("NOETL_TOKEN")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def send(self, operation: str, **variables: Any) -> dict[str, Any]:
        """Returns the result of the operation's first root field; repeats the operation until the server responds."""
        pause = 0.2
        while True:
            try:
                async with Client(transport=AIOHTTPTransport(self.url, headers=self.headers, timeout=20)) as session:
                    result = await session.execute(self.request(operation, variables))
                payloads: list[dict[str, Any]] = [payload or {} for payload in result.values()]
                for payload in payloads:
                    check(payload)
                return payloads[0]
            except (TransportError, ClientError, OSError, asyncio.TimeoutError, Unavailable) as error:
                stop_if_permanent(error)
                log.warning("%s failed, next attempt in %.1f s: %s", operation, pause, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def follow(self, start: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Yields the items of the live events until the connection ends."""
        url = self.url.replace("http", "ws", 1)
        # The server sends a heartbeat every 10 seconds, so a connection without one for 30 seconds is dead.
        transport = AIOHTTPWebsocketsTransport(url, headers=self.headers, receive_timeout=30)
        async with Client(transport=transport) as session:
            async for item in session.subscribe(self.request("Follow", {"start": start})):
                yield item["events"]

    @staticmethod
    def request(operation: str, variables: dict[str, Any]) -> GraphQLRequest:
        return GraphQLRequest(OPERATIONS, operation_name=operation, variable_values=variables)


def check(payload: dict[str, Any]) -> None:
    """Raises the first error of a payload or of one of its items."""
    for part in [payload, *payload.get("results", []), *payload.get("rejected", [])]:
        for error in part.get("userErrors", []):
            message = f"{error['code']}: {error['message']}"
            raise Unavailable(message) if error["retryable"] else Refused(message)


def stop_if_permanent(error: Exception) -> None:
    """Raises Refused if a repeat of the request can't succeed."""
    if isinstance(error, TransportQueryError):
        codes = {(fault.get("extensions") or {}).get("code") for fault in error.errors or []}
        if not codes <= RETRYABLE:
            raise Refused(str(error)) from error
    if isinstance(error, TransportServerError) and 400 <= (error.code or 0) < 500:
        raise Refused(str(error)) from error
