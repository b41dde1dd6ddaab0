"""Options of llama.cpp by the names of its ``common_params`` (common/common.h), as far as they matter to a server."""

from runners.engines.options import Kind, Option

KV_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL")
TASKS = ("generate", "embed", "rerank")
SPECULATION = (
    "NONE", "DRAFT_SIMPLE", "DRAFT_EAGLE3", "DRAFT_MTP", "NGRAM_SIMPLE", "NGRAM_MAP_K", "NGRAM_MAP_K4V", "NGRAM_MOD",
    "NGRAM_CACHE",
)  # fmt: skip

#: ``task`` is the one word that is not llama.cpp's: it sets ``embedding`` and ``pooling_type`` together.
OPTIONS = (
    Option("n_parallel", Kind.INTEGER, "requests served at once (slots)", least=1, most=256),
    Option("n_ctx", Kind.INTEGER, "tokens of context, shared by all slots; 0: as the model says", least=0),
    Option("n_batch", Kind.INTEGER, "most tokens of one step, over all requests", least=1),
    Option("n_ubatch", Kind.INTEGER, "most tokens computed at once within a step", least=1),
    Option("n_predict", Kind.INTEGER, "most tokens of an answer; -1: no limit", least=-1),
    Option("cont_batching", Kind.SWITCH, "let requests join a running batch"),
    Option("cache_prompt", Kind.SWITCH, "reuse the KV cache of a common prefix"),
    Option(
        "cache_ram_mib", Kind.INTEGER, "memory for prompts of slots that were given away, MiB; -1: no limit", least=-1
    ),
    Option("cache_idle_slots", Kind.SWITCH, "keep the prompts of idle slots in that memory"),
    Option("n_cache_reuse", Kind.INTEGER, "shortest piece of a cached prompt that is shifted into place", least=0),
    Option("slot_prompt_similarity", Kind.NUMBER, "how alike a prompt must be to choose its slot", least=0, most=1),
    Option("ctx_shift", Kind.SWITCH, "drop the oldest tokens where the context is full"),
    Option("swa_full", Kind.SWITCH, "keep a full cache for sliding-window attention"),
    Option("cache_type_k", Kind.CHOICE, "how keys are stored in the KV cache", KV_TYPES),
    Option(
        "cache_type_v", Kind.CHOICE, "how values are stored in the KV cache; quantized needs flash attention", KV_TYPES
    ),
    Option("flash_attn_type", Kind.CHOICE, "flash attention", ("AUTO", "ENABLED", "DISABLED")),
    Option("kv_unified", Kind.SWITCH, "one KV buffer for all slots"),
    Option("cpuparams.n_threads", Kind.INTEGER, "CPU threads of decoding; else those of the recipe", least=1),
    Option("cpuparams_batch.n_threads", Kind.INTEGER, "CPU threads of prefill; else those of the recipe", least=1),
    Option("n_threads_http", Kind.INTEGER, "threads that speak HTTP; -1: its own choice", least=-1),
    Option("n_gpu_layers", Kind.INTEGER, "layers on the GPU; -1: all", least=-1),
    Option("main_gpu", Kind.INTEGER, "the GPU that is used, where it is one", least=0),
    Option("split_mode", Kind.CHOICE, "how a model is split over GPUs", ("NONE", "LAYER", "ROW", "TENSOR")),
    Option("no_kv_offload", Kind.SWITCH, "keep the KV cache in main memory"),
    Option(
        "load_mode", Kind.CHOICE, "how the file is read", ("AUTO", "NONE", "MMAP", "MLOCK", "MMAP_MLOCK", "DIRECT_IO")
    ),
    Option("numa", Kind.CHOICE, "placement on several memory nodes", ("DISABLED", "DISTRIBUTE", "ISOLATE", "NUMACTL")),
    Option("moe_cache_size", Kind.INTEGER, "experts kept at hand", least=0),
    Option("warmup", Kind.SWITCH, "one empty run before it is ready"),
    Option("speculative.types", Kind.CHOICES, "how tokens are guessed ahead", SPECULATION),
    Option("speculative.draft.mparams.path", Kind.MODEL, "the draft model, a file or a name as for the model"),
    Option("speculative.draft.n_max", Kind.INTEGER, "most tokens drafted at once", least=1),
    Option("speculative.draft.n_min", Kind.INTEGER, "fewest tokens worth a check", least=0),
    Option("speculative.draft.p_min", Kind.NUMBER, "probability below which drafting stops", least=0, most=1),
    Option("speculative.draft.cpuparams.n_threads", Kind.INTEGER, "CPU threads of the draft model", least=1),
    Option("speculative.ngram_simple.size_n", Kind.INTEGER, "tokens that must recur", least=1),
    Option("speculative.ngram_simple.size_m", Kind.INTEGER, "tokens drafted then", least=1),
    Option("speculative.ngram_simple.min_hits", Kind.INTEGER, "how often they must have recurred", least=1),
    Option("speculative.ngram_map_k.size_n", Kind.INTEGER, "tokens that must recur", least=1),
    Option("speculative.ngram_map_k.size_m", Kind.INTEGER, "tokens drafted then", least=1),
    Option("speculative.ngram_map_k.min_hits", Kind.INTEGER, "how often they must have recurred", least=1),
    Option("speculative.ngram_mod.n_match", Kind.INTEGER, "tokens that must recur", least=1),
    Option("speculative.ngram_mod.n_max", Kind.INTEGER, "most tokens drafted then", least=1),
    Option("speculative.ngram_mod.n_min", Kind.INTEGER, "fewest tokens drafted then", least=0),
    Option("chat_template", Kind.TEXT, "how chats become a prompt, in Jinja on one line; else the model's own"),
    Option("task", Kind.CHOICE, "what it serves", TASKS),
)
