"""What `serve` opens, and the flags that it passes on."""

import pytest
from commands import check_error

from keras_transformer import web
from keras_transformer.decoding.settings import BeamSearch


@pytest.fixture
def served(monkeypatch):
    calls = []
    monkeypatch.setattr(web, "serve", lambda *given: calls.append(given))
    return calls


def test_serve_passes_its_flags_on(run_cli, opened, served, folder):
    flags = ("--port", 0, "--n-best", 2, "--max-characters", 7)
    flags += ("--allowed-hosts", "pc", "--allowed-hosts", "pc.example")
    assert run_cli("serve", folder, *flags).code == 0
    assert opened.pop().translator.workers == served.pop()[0].workers == 1
    flags += ("--workers", 3)
    assert run_cli("serve", folder, *flags, "--beam-size", 3).code == 0
    (call,) = opened
    assert call.options["num_translations"] == 2
    assert call.options["search"] == BeamSearch(3)
    ((translator, name, listening, max_characters, hosts, note),) = served
    assert note == ""
    assert hosts == ["127.0.0.1", "pc", "pc.example"]
    assert (translator, name, max_characters) == (call.translator, "run", 7)
    assert listening.fileno() == -1  # closed
    assert translator.workers == 3


def test_a_pattern_of_hosts(run_cli, opened, folder):
    flags = ("--port", 0, "--allowed-hosts", "*.example")
    result = run_cli("serve", folder, *flags)
    check_error(result, "--allowed-hosts", "*.example")


def test_a_saved_model_has_the_name_above_its_version(
    run_cli, opened, served, exported
):
    assert run_cli("serve", exported, "--port", 0).code == 0
    assert run_cli("serve", exported.parent, "--port", 0).code == 0
    assert [name for _, name, *_ in served] == ["en-de", "en-de"]


def test_the_included_model_has_a_note(run_cli, opened, served):
    assert run_cli("serve", "en-de", "--port", 0).code == 0
    ((_, name, *_, note),) = served
    assert name == "en-de" and "numbers" in note
