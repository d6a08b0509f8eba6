"""The commands that export and serve."""

import socket

import pytest
from commands import Chunks, set_stdin

from keras_transformer.serving import web

# === serve ===


def test_serve_passes_its_flags_on(run_cli, fake_translators, monkeypatch):
    served = []
    monkeypatch.setattr(web, "serve", lambda *given: served.append(given))
    flags = ("--port", 0, "--n-best", 2, "--max-characters", 7)
    code, _, _ = run_cli("serve", "runs/en de", *flags, "--beam-size", 3)
    assert code == 0
    (translator,) = fake_translators
    assert translator.num_translations == 2
    assert translator.search.beam_size == 3
    ((given, name, listening, max_characters, _),) = served
    assert (given, name, max_characters) == (translator, "en-de", 7)
    assert listening.fileno() == -1  # closed


@pytest.mark.parametrize("command", ["serve", "translate", "export"])
def test_one_output_by_default(
    run_cli, fake_translators, monkeypatch, tmp_path, command
):
    monkeypatch.setattr(web, "serve", lambda *given: None)
    monkeypatch.setattr(
        "keras_transformer.export.save_litert", lambda *_, **__: 0
    )
    set_stdin(monkeypatch, Chunks([]))
    flags = {
        "serve": ["--port", 0],
        "export": ["--format", "litert", "--output", tmp_path / "a"],
    }.get(command, [])
    assert run_cli(command, "runs/x", *flags).code == 0
    assert fake_translators[0].num_translations == 1


def test_serve_listens_to_this_computer_only(
    run_cli, fake_translators, monkeypatch
):
    hosts = []
    monkeypatch.setattr(web, "serve", lambda *given: None)
    monkeypatch.setattr(
        web, "listen", lambda *given: hosts.append(given) or socket.socket()
    )
    assert run_cli("serve", "runs/mine").code == 0
    assert hosts == [("127.0.0.1", 8000)]


def test_serve_refuses_a_port_before_it_opens_the_run(run_cli, any_run):
    code, _, err = run_cli("serve", "runs/missing", "--port", 70_000)
    assert code == 2 and "A port is a number" in err
