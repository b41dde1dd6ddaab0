"""Options of ``vllm serve`` by their own names, without the dashes before them (of vLLM 0.32)."""

from runners.engines.options import Kind, Option

_DTYPES = ("auto", "bfloat16", "float16", "float32")
_KV_DTYPES = (
    "auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_per_token_head", "int8_per_token_head",
    "int4_per_token_head", "nvfp4",
)  # fmt: skip

OPTIONS = (
    Option("served-model-name", Kind.TEXT, "the name that requests give; else the model's"),
    Option("tokenizer", Kind.TEXT, "its tokenizer, where it is not the model's"),
    Option("revision", Kind.TEXT, "branch, tag or commit of a model that is fetched"),
    Option("dtype", Kind.CHOICE, "number format of weights and activations", _DTYPES),
    Option("quantization", Kind.TEXT, "how the weights are quantized, where the checkpoint does not say"),
    Option(
        "load-format",
        Kind.CHOICE,
        "how weights are read; dummy: random ones",
        ("auto", "safetensors", "pt", "dummy", "gguf", "tensorizer", "runai_streamer", "fastsafetensors"),
    ),
    Option("hf-overrides", Kind.OBJECT, "fields of the model's config.json to replace"),
    Option("seed", Kind.INTEGER, "seed of dummy weights and sampling", least=0),
    Option("max-model-len", Kind.INTEGER, "longest prompt and answer together, tokens", least=1),
    Option("max-num-seqs", Kind.INTEGER, "most requests served at once", least=1),
    Option("max-num-batched-tokens", Kind.INTEGER, "most tokens of one step, over all requests", least=1),
    Option("long-prefill-token-threshold", Kind.INTEGER, "from how many tokens a prompt counts as long", least=0),
    Option("scheduling-policy", Kind.CHOICE, "who goes first", ("fcfs", "priority")),
    Option("enable-chunked-prefill", Kind.SWITCH, "compute long prompts in pieces beside decoding"),
    Option("enable-prefix-caching", Kind.SWITCH, "reuse the KV blocks of a common prefix"),
    Option("enable-prompt-tokens-details", Kind.SWITCH, "say in the usage how many prompt tokens were cached"),
    Option("block-size", Kind.INTEGER, "tokens of a KV block", least=1),
    Option("num-gpu-blocks-override", Kind.INTEGER, "KV blocks, whatever the memory allows", least=1),
    Option("gpu-memory-utilization", Kind.NUMBER, "share of the memory of a GPU that is taken", least=0.01, most=1),
    Option("kv-cache-memory-bytes", Kind.INTEGER, "bytes of KV cache for each GPU", least=1),
    Option("kv-cache-dtype", Kind.CHOICE, "number format of the KV cache", _KV_DTYPES),
    Option("cpu-offload-gb", Kind.NUMBER, "weights kept in main memory, GiB for each GPU", least=0),
    Option("enforce-eager", Kind.SWITCH, "no CUDA graphs and no compilation: quicker to start"),
    Option("compilation-config", Kind.OBJECT, "how the model is compiled"),
    Option("tensor-parallel-size", Kind.INTEGER, "accelerators that share each layer", least=1),
    Option("pipeline-parallel-size", Kind.INTEGER, "accelerators that take layers in turn", least=1),
    Option("data-parallel-size", Kind.INTEGER, "copies that share the requests", least=1),
    Option("enable-expert-parallel", Kind.SWITCH, "whole experts on each accelerator"),
    Option("distributed-executor-backend", Kind.CHOICE, "how workers are run", ("mp", "ray", "uni")),
    Option("speculative-config", Kind.OBJECT, "how tokens are guessed ahead"),
    Option("kv-transfer-config", Kind.OBJECT, "how KV caches go from engine to engine"),
    Option("enable-lora", Kind.SWITCH, "serve adapters beside the model"),
    Option("lora-modules", Kind.TEXTS, "adapters, each as name=folder or name=SmolLM2-135M-Instruct:LORA"),
    Option("max-loras", Kind.INTEGER, "adapters in one batch", least=1),
    Option("max-lora-rank", Kind.INTEGER, "largest rank of an adapter", least=1),
    Option("runner", Kind.CHOICE, "what it serves", ("auto", "generate", "pooling")),
    Option("max-logprobs", Kind.INTEGER, "most log-probabilities that a request may ask for", least=-1),
    Option("limit-mm-per-prompt", Kind.OBJECT, "most pictures and the like of a prompt"),
    Option("reasoning-parser", Kind.TEXT, "which model's reasoning is cut out of answers"),
    Option("tool-call-parser", Kind.TEXT, "which model's tool calls are read"),
    Option("enable-auto-tool-choice", Kind.SWITCH, "let the model choose tools"),
    Option("async-scheduling", Kind.SWITCH, "plan a step while the last one is computed"),
)
