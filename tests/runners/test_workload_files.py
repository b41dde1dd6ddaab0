import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runners.sources import Agents, Conversations, Length, PromptFile, Shape
from runners.spec import Load, RunSpec, SpecError, Target, Workload
from runners.strict_json import build
from runners.workload_files import FileKind, look, sealed, uses

LISTED = Length(Shape.FILE, file="l.txt")


def spec(workload: Workload) -> RunSpec:
    return RunSpec(Target("http://127.0.0.1:9"), workload, Load(requests=1))


def test_every_file_that_a_workload_names_is_found_with_its_field_and_kind() -> None:
    agents = Workload(10, LISTED, tokenizer="t.json", source=Agents(LISTED, LISTED))
    assert [(use.field, use.name, use.kind) for use in uses(agents)] == [
        ("workload.output_tokens.file", "l.txt", "lengths"),
        ("workload.source.calls.file", "l.txt", "lengths"),
        ("workload.source.result_tokens.file", "l.txt", "lengths"),
        ("workload.tokenizer", "t.json", "tokenizer"),
    ]
    assert uses(Workload(source=Conversations(LISTED, file="c.json")))[0].kind is FileKind.CHATS
    assert not uses(Workload(source=Conversations()))


def test_a_specification_is_sealed_with_the_hash_of_its_files_and_refuses_others(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'"one"')
    asked = spec(Workload(source=PromptFile(str(path))))
    kept = sealed(asked)
    assert kept.files == {str(path): hashlib.sha256(b'"one"').hexdigest()}
    assert RunSpec.from_json(kept.to_json()) == kept
    path.write_bytes(b'"two"')
    with pytest.raises(SpecError, match="SHA-256 differs"):
        sealed(kept)
    path.unlink()
    with pytest.raises(SpecError, match=r"workload\.source\.file: .* cannot be read"):
        sealed(asked)


def test_what_is_in_a_file_is_told(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("Timestamp,Request tokens,Response tokens\n5,10,2\n9,30,4\n")
    assert look(str(trace), FileKind.BURSTGPT) == {
        "entries": 2, "span_s": 4, "mean_input_tokens": 20, "mean_output_tokens": 3,
    }  # fmt: skip
    with pytest.raises(SpecError, match="line 1"):
        look(str(trace), FileKind.LENGTHS)


def test_file_names_are_relative_to_the_folder_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "p.jsonl").write_bytes(b'"one"')
    asked = replace(spec(Workload(source=PromptFile("p.jsonl"))), files={"p.jsonl": "0" * 64})
    (tmp_path / "spec.json").write_text(json.dumps(asked.to_json()))

    def bench(out: str, files: str) -> str:
        command = [
            sys.executable,
            "-m",
            "runners",
            "bench",
            "--spec",
            str(tmp_path / "spec.json"),
            "--progress",
            "json",
        ]
        ended = subprocess.run(
            [*command, "--files", str(tmp_path / files), "--out", str(tmp_path / out)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 2
        return str(json.loads(ended.stdout.splitlines()[-1])["text"])

    assert "SHA-256 differs" in bench("one", "files")
    assert "--files" in bench("two", "nowhere")


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"seed": 2**63}, "workload.seed: too large"),
        ({"temperature": 10**400}, "workload.temperature: too large"),
        ({"tokenizer": "a\x00"}, "workload.tokenizer: it holds a character"),
        ({"models": [{"name": "\udc00"}]}, r"workload.models\[0\].name: it holds a character"),
    ],
)
def test_what_nothing_can_store_is_no_specification(workload: object, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        build(Workload, workload, "workload")
