"""A Llama-style decoder in plain torch: random weights, a key-value cache of fixed slots, greedy."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

#: (hidden, intermediate, layers, heads, key-value heads, vocabulary) as of Llama 3.2 1B, 3B and Llama 3.1 8B.
SIZES = {
    "tiny": (64, 128, 2, 4, 2, 512),
    "1b": (2048, 8192, 16, 32, 8, 128_256),
    "3b": (3072, 8192, 28, 24, 8, 128_256),
    "8b": (4096, 14_336, 32, 32, 8, 128_256),
}


def config_of(size: str, context: int):  # type: ignore[no-untyped-def]
    """transformers' LlamaConfig of a size."""
    from transformers import LlamaConfig

    hidden, intermediate, layers, heads, kv_heads, vocabulary = SIZES[size]
    return LlamaConfig(
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        vocab_size=vocabulary,
        max_position_embeddings=context,
    )


@dataclass
class _Layer:
    qkv: torch.Tensor
    out: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


class Llama:
    """Serves ``slots`` requests at once; see batching.Model. Norms have weights of 1, which changes no cost."""

    def __init__(self, config, slots: int, context: int, device: str) -> None:  # type: ignore[no-untyped-def]
        self.slots, self.context = slots, context
        self.vocabulary = config.vocab_size
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._width = config.hidden_size // self._heads
        self._eps = config.rms_norm_eps
        self._device = torch.device(device)
        self._type = torch.bfloat16 if self._device.type == "cuda" else torch.float32
        hidden, inner = config.hidden_size, config.intermediate_size
        qkv = (self._heads + 2 * self._kv_heads) * self._width
        self._embedding = self._random(self.vocabulary, hidden)
        self._layers = [
            _Layer(self._random(qkv, hidden), self._random(hidden, hidden), self._random(2 * inner, hidden),
                   self._random(hidden, inner))
            for _ in range(config.num_hidden_layers)
        ]  # fmt: skip
        self._head = self._random(self.vocabulary, hidden)
        shape = (config.num_hidden_layers, 2, slots, self._kv_heads, context, self._width)
        self._cache = torch.zeros(shape, dtype=self._type, device=self._device)
        self._cos, self._sin = self._rotations()
        self._length = [0] * slots
        self._last = [0] * slots

    @property
    def parameters(self) -> int:
        layers = sum(sum(part.numel() for part in vars(layer).values()) for layer in self._layers)
        return layers + self._embedding.numel() + self._head.numel()

    @torch.inference_mode()
    def prefill(self, slot: int, tokens: Sequence[int]) -> int:
        count = len(tokens)
        x = self._embedding[torch.tensor(tokens, device=self._device)][None]
        positions = torch.arange(count, device=self._device)
        for i, layer in enumerate(self._layers):
            q, k, v = self._project(layer, x, positions[None])
            self._cache[i, 0, slot, :, :count], self._cache[i, 1, slot, :, :count] = k[0], v[0]
            share = self._heads // self._kv_heads
            k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = self._rest(layer, x, mixed.transpose(1, 2).reshape(1, count, -1))
        token = int(self._next(x[:, -1:])[0])
        self._length[slot], self._last[slot] = count, token
        return token

    @torch.inference_mode()
    def decode(self, slots: Sequence[int]) -> list[int]:
        """All slots up to the last one that is in use take part: a view of the cache, no copy."""
        batch = max(slots) + 1
        rows = torch.arange(batch, device=self._device)
        at = torch.tensor(self._length[:batch], device=self._device)
        x = self._embedding[torch.tensor(self._last[:batch], device=self._device)][:, None]
        longest = max(self._length[slot] for slot in slots) + 1
        seen = (torch.arange(longest, device=self._device)[None] <= at[:, None])[:, None, None]
        at = at.clamp(max=self.context - 1)
        for i, layer in enumerate(self._layers):
            q, k, v = self._project(layer, x, at[:, None])
            keys, values = self._cache[i]
            keys[rows, :, at], values[rows, :, at] = k[:, :, 0], v[:, :, 0]
            keys, values = keys[:batch, :, :longest], values[:batch, :, :longest]
            q = q.reshape(batch, self._kv_heads, -1, self._width)  # heads that share a key stand together
            mixed = functional.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
            x = self._rest(layer, x, mixed.reshape(batch, 1, -1))
        tokens = self._next(x).tolist()
        for slot in slots:
            self._length[slot] += 1
            self._last[slot] = tokens[slot]
        return [tokens[slot] for slot in slots]

    def _random(self, rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, dtype=self._type, device=self._device) * columns**-0.5

    def _rotations(self) -> tuple[torch.Tensor, torch.Tensor]:
        steps = torch.arange(0, self._width, 2, device=self._device) / self._width
        angles = torch.arange(self.context, device=self._device)[:, None] / 500_000.0**steps
        angles = torch.cat((angles, angles), -1)
        return angles.cos().to(self._type), angles.sin().to(self._type)

    def _norm(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self._eps)).to(self._type)

    def _project(
        self, layer: _Layer, x: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values as [batch, heads, tokens, width]; ``positions`` as [batch, tokens]."""
        batch, count, _ = x.shape
        mixed = functional.linear(self._norm(x), layer.qkv).view(batch, count, -1, self._width).transpose(1, 2)
        q, k, v = mixed.split((self._heads, self._kv_heads, self._kv_heads), 1)
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        return _rotate(q, cos, sin), _rotate(k, cos, sin), v

    def _rest(self, layer: _Layer, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        x = x + functional.linear(mixed, layer.out)
        gate, up = functional.linear(self._norm(x), layer.gate_up).chunk(2, -1)
        return x + functional.linear(functional.silu(gate) * up, layer.down)

    def _next(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(self._norm(x[:, -1]), self._head).argmax(-1)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin
