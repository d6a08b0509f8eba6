import marian_folder
import pytest
from commands import check_error
from fake_hub import FakeHub

import keras_transformer as kt


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    """A folder as Hugging Face has it. Tests must not change it."""
    folder = tmp_path_factory.mktemp("models") / "marian"
    marian_folder.write_folder(folder)
    return folder


def test_import_prints_what_it_found(run_cli, marian, tmp_path):
    path = tmp_path / "new" / "run"
    path.mkdir(parents=True)  # an empty one will do
    code, out, err = run_cli(
        "import", marian, "--output", path, "--target-language", "fra"
    )
    assert (code, err) == (0, "")
    found = dict(line.split(": ", 1) for line in out.splitlines()[:5])
    found = {name: value.strip() for name, value in found.items()}
    run, expected = kt.Run.open(path), kt.convert.read(marian, None, "fra")
    assert run.tokenizer.files() == expected.tokenizer.files()
    assert run.search == expected.search and run.request == {}
    size = f"{run.config.num_parameters:,} parameters"
    assert found["model"].endswith(size)
    assert found["languages"] == "en to fra"
    assert found["search"] == "beam 1, score log P / n^0.8"
    assert "position_layout halves" in found["not the paper's"]
    assert "bad_words_ids=[1, 2]" in out
    assert out.endswith(f"The run is in {path}\n")


def test_an_import_that_fails_leaves_no_run(
    run_cli, marian, monkeypatch, tmp_path
):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kt.Run, "save_checkpoint", fail)
    result = run_cli("import", marian, "--output", tmp_path / "run")
    check_error(result, "No space left")
    assert not any(tmp_path.iterdir())


def test_the_run_of_a_model_by_name(run_cli, marian, monkeypatch, tmp_path):
    path, cache = tmp_path / "run", tmp_path / "cache"
    flags = ("--output", path, "--revision", "v1")
    hub = FakeHub(monkeypatch, cache)
    hub.models["opus/en-mul@v1"] = marian
    code, out, err = run_cli("import", "opus/en-mul", *flags)
    assert (code, err) == (0, "")
    weights = f"{hub.commit('opus/en-mul@v1')}/model.safetensors\n"
    assert f"weights:          {cache}/opus/en-mul/{weights}" in out
    assert kt.Run.open(path).languages == ("en", "mul")
