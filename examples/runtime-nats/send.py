#!/usr/bin/env python3
"""send.py ID…: sends an order with each id to the subject samples.orders. Creates the stream if it is missing."""

import argparse
import asyncio
import json

import nats
from nats.js.errors import BadRequestError


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nats-url", default="nats://127.0.0.1:4222")
    # Within its window (2 minutes by default), JetStream itself drops a message with a known id.
    parser.add_argument("--window", type=float, default=120, help="window of a created stream in seconds")
    parser.add_argument("ids", nargs="*")
    options = parser.parse_args()
    broker = await nats.connect(options.nats_url)
    stream = broker.jetstream()
    try:
        await stream.add_stream(name="samples", subjects=["samples.>"], duplicate_window=options.window)
    except BadRequestError as error:
        print(f"the stream samples is kept as it is: {error.description}")
    for id in options.ids:
        await stream.publish("samples.orders", json.dumps({"id": id}).encode(), headers={"Nats-Msg-Id": id})
    await broker.close()


asyncio.run(main())
