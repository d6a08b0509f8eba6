"""The commands that export and serve."""

import socket

import pytest

from keras_transformer.showing import web

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


@pytest.mark.parametrize(("beam_size", "shown"), [(2, 2), (4, 4), (8, 4)])
def test_serve_shows_four_outputs_or_as_many_as_there_are(
    run_cli, fake_translators, monkeypatch, beam_size, shown
):
    monkeypatch.setattr(web, "serve", lambda *given: None)
    flags = ("--port", 0, "--beam-size", beam_size)
    assert run_cli("serve", "runs/x", *flags).code == 0
    assert fake_translators[0].num_translations == shown


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
