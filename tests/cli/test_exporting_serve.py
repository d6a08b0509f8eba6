"""What `serve` opens: runs and exports, and the signatures of a run."""

import socket

import pytest
from commands import check_refused

from keras_transformer import serving
from keras_transformer.decoding.settings import BeamSearch


@pytest.fixture
def served(monkeypatch):
    calls = []
    monkeypatch.setattr(serving, "serve", lambda *given: calls.append(given))
    return calls


def test_serve_passes_its_flags_on(run_cli, opened, served, folder):
    flags = ("--port", 0, "--n-best", 2, "--max-characters", 7)
    flags += ("--allowed-host", "pc", "--allowed-host", "pc.example")
    assert run_cli("serve", folder, *flags, "--beam-size", 3).code == 0
    (call,) = opened
    assert call.options["num_translations"] == 2
    assert call.options["search"] == BeamSearch(3)
    ((translator, name, listening, max_characters, _, hosts),) = served
    assert hosts == ["pc", "pc.example", "127.0.0.1"]
    assert (translator, name, max_characters) == (call.translator, "run", 7)
    assert listening.fileno() == -1  # closed


def test_serve_listens_to_this_computer_only(
    run_cli, opened, served, folder, monkeypatch
):
    hosts = []
    monkeypatch.setattr(
        serving, "listen", lambda *given: hosts.append(given) or socket.socket()
    )
    assert run_cli("serve", folder).code == 0
    assert hosts == [("127.0.0.1", 8000)]
    assert opened[0].options["num_translations"] == 1


def test_a_saved_model_has_the_name_above_its_version(
    run_cli, served, exported
):
    assert run_cli("serve", exported, "--port", 0).code == 0
    assert run_cli("serve", exported.parent, "--port", 0).code == 0
    for translator, name, _, max_characters, signatures, _ in served:
        assert (name, translator.version) == ("en-de", 1)
        assert max_characters == 2000 and not signatures


def test_a_run_has_the_signatures_of_its_export(run_cli, served, trained):
    assert run_cli("serve", trained.run, "--port", 0).code == 0
    ((translator, *_, signatures, _),) = served
    assert translator.example == "the cat number 0 sleeps"
    run, checkpoint = translator.checkpoints[0]
    assert run.metadata(checkpoint)["example"] == translator.example
    assert list(signatures["score"].inputs) == ["text", "translation"]


@pytest.mark.parametrize("name", ["http://pc", "pc:80", "", "*"])
def test_allowed_hosts_are_names(run_cli, folder, name):
    flags = ("--allowed-host", "pc", "--allowed-host", name)
    result = run_cli("serve", folder, *flags)
    check_refused(result, "--allowed-host", "without scheme and port")
