"""The router: an HTTP/1.1 reverse proxy that chooses an upstream for each request and passes bytes on as they come.

The next upstream is asked only where nothing of an answer has gone to the client: two answers are never mixed.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from runners.router import confidence, prefill
from runners.router.client import Client, Request
from runners.router.counts import Counts
from runners.router.policies import DECISIONS, Choice, chooser, to_large, to_small
from runners.router.prompts import body_of, prompt_of
from runners.router.settings import DECODE, LARGE, PREFILL, SMALL, Policy, Settings
from runners.router.upstream import Gone, Upstream

_PAGE_S = 5.0
_BACKLOG = 1024


class Router:
    def __init__(self, settings: Settings, upstreams: Sequence[Upstream]) -> None:
        self._settings = settings
        self._upstreams = upstreams
        self._choose = chooser(settings)
        self._counts = Counts(settings.policy.value, upstreams, 0 if settings.policy.chooses_models else None)
        self._counts.decisions.update(dict.fromkeys(DECISIONS[settings.policy], 0))

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """``port`` 0 takes a free one. Raises OSError."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: Client(self._serve), host, port, backlog=_BACKLOG)

    async def _serve(self, request: Request, client: Client) -> None:
        path = request.path.partition("?")[0]
        if request.method == "HEAD":
            client.answer(501, "this router passes no HEAD on: ask with GET")
            client.close()
        elif request.method == "GET" and path == "/health":
            client.answer(200, b'{"status":"ok"}')
        elif request.method == "GET" and path == "/metrics":
            page = self._counts.page(await self._pages())
            client.answer(200, page.encode(), "text/plain; version=0.0.4")
        else:
            await self._route(request, client)

    async def _route(self, request: Request, client: Client) -> None:
        body = body_of(request.body) if request.method == "POST" else None
        prompt = prompt_of(body)
        if not prompt or body is None:  # a list of models, a count of tokens
            await self._forward(request, body, Choice(tuple(range(len(self._upstreams))), ""), client)
            return
        if self._choose is not None:
            choice = self._choose(prompt, [upstream.in_flight for upstream in self._upstreams])
        elif self._settings.policy is Policy.DISAGGREGATED:
            choice = await self._prefilled(request, body)
        else:
            choice = await self._by_confidence(request, body, client)
        self._counts.decisions[choice.decision] += 1
        if self._counts.sent_on is not None and choice.order[:1] == (LARGE,):
            self._counts.sent_on += 1
        if not client.answered:
            await self._forward(request, body, choice, client)

    async def _by_confidence(self, request: Request, body: dict[str, Any], client: Client) -> Choice:
        """Asks the small model, holds its answer back until it is whole, and sends it where it is sure enough."""
        upstream, answer, content = self._upstreams[SMALL], bytearray(), bytearray()
        asked = self._bytes(request, body, upstream, confidence.asking(request.path, self._renamed(body, upstream)))
        self._counts.requests[upstream.name] += 1
        try:
            kept = await upstream.ask(asked, answer.extend, body=content.extend)
        except Gone:
            self._counts.failures[upstream.name] += 1
            return to_large("small_failed")
        mean = confidence.mean_logprob(bytes(content))
        if mean is None:
            return to_large("unknown")
        if mean < self._settings.min_logprob:
            return to_large("unsure")
        client.pass_on(bytes(answer))
        if not kept:
            client.close()
        return to_small("sure")

    async def _prefilled(self, request: Request, body: dict[str, Any]) -> Choice:
        """Has the prompt read, and the cache kept where the engine that answers finds it; else that one reads it."""
        upstream, head = self._upstreams[PREFILL], bytearray()
        asked = self._bytes(request, body, upstream, prefill.asking(self._renamed(body, upstream)))
        self._counts.requests[upstream.name] += 1
        try:
            await upstream.ask(asked, head.extend)
        except Gone:
            self._counts.failures[upstream.name] += 1
        read = head[len("HTTP/1.1 ") :].startswith(b"200")
        return Choice((DECODE,), "prefilled" if read else "prefill_failed")

    async def _forward(self, request: Request, body: dict[str, Any] | None, choice: Choice, client: Client) -> None:
        said = []
        for upstream in (self._upstreams[index] for index in choice.order):
            if choice.decision:
                self._counts.requests[upstream.name] += 1
            try:
                if not await upstream.ask(self._bytes(request, body, upstream), client.pass_on, client.comes_from):
                    client.close()
                return
            except Gone as error:
                self._counts.failures[upstream.name] += 1
                said.append(f"{upstream.name} {error}")
            if client.answered:
                self._counts.broken[upstream.name] += 1
                client.close(broken=True)
                return
        client.answer(502, f"no upstream answered: {'; '.join(said)}")

    def _renamed(self, body: dict[str, Any], upstream: Upstream) -> dict[str, Any]:
        return body if not upstream.model or body.get("model") == upstream.model else body | {"model": upstream.model}

    def _bytes(
        self, request: Request, body: dict[str, Any] | None, upstream: Upstream, content: bytes | None = None
    ) -> bytes:
        """``content`` in the place of the body; else it goes as it came, but for the model's name."""
        if content is None:
            renamed = body if body is None else self._renamed(body, upstream)
            content = request.body if renamed is body or renamed is None else orjson.dumps(renamed)
        return request.to_upstream(upstream.where.authority, content)

    async def _pages(self) -> dict[str, str]:
        """The metrics pages of the upstreams that have one."""
        pages = await asyncio.gather(*(self._page(upstream) for upstream in self._upstreams))
        return {upstream.name: page for upstream, page in zip(self._upstreams, pages, strict=True) if page}

    async def _page(self, upstream: Upstream) -> str:
        answer, content = bytearray(), bytearray()
        request = Request("GET", "/metrics").to_upstream(upstream.where.authority, b"")
        apart = Upstream(upstream.name, upstream.where)  # no request of a client is in flight
        try:
            async with asyncio.timeout(_PAGE_S):
                await apart.ask(request, answer.extend, body=content.extend)
        except (Gone, TimeoutError):
            return ""
        for idle in apart.idle:
            idle.close()
        return content.decode(errors="replace") if b" 200 " in answer.split(b"\r\n", 1)[0] else ""
