"""The command that writes models for other programs."""

import pytest
from commands import check_refused

import keras_transformer as kt
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.startup import available_cores


@pytest.fixture
def save_call(monkeypatch):
    """Replaces the export; holds the arguments of the last call."""
    call = {}

    def save(translator, path, include):
        call.update(translator=translator, path=path)
        call.update(include=include)
        return path

    monkeypatch.setattr("keras_transformer.export.save", save)
    return call


def test_export_passes_its_flags_on(
    run_cli, save_call, fake_translators, trained
):
    flags = ("--beam-size", 3, "--n-best", 2, "--extra-length", 7)
    runs = (trained.run, trained.run)
    code, out, err = run_cli(
        *("export", *runs, "--output", "exported/1", *flags),
        *("--checkpoint", 1, "--signatures", "serving_default", "greedy"),
        *("--dtype", "float16"),
    )
    assert (code, err) == (0, "")
    assert save_call["include"] == ["serving_default", "greedy"]
    paths = [run.path for run in fake_translators[0].runs]
    assert paths == [str(run) for run in runs]
    assert fake_translators[0].dtype == "float16"
    assert save_call["path"] == "exported/1"
    translator = save_call["translator"]
    assert translator.num_translations == 2
    assert translator.search == BeamSearch(3, 0.6, 7, 1.0, "power")
    names = ", ".join(map(str, runs))
    assert out.startswith(f"exporting {names}\nexported/1 holds a SavedModel")


def test_export_writes_all_signatures_and_no_kit_by_default(
    run_cli, save_call, fake_translators, trained, monkeypatch
):
    kits = []

    def write_kit(path, cores):
        kits.append((path, cores))
        return ["a", "b"]

    monkeypatch.setattr(kt.export, "write_kit", write_kit)
    assert run_cli("export", trained.run, "--output", "exported/1").code == 0
    assert save_call["include"] is None  # all
    assert kits == []
    result = run_cli(
        "export", trained.run, "--output", "exported/2", "--serving-kit"
    )
    assert kits == [("exported/2", available_cores())]
    assert result.out.endswith("wrote a\nwrote b\n")


def test_a_kit_that_cannot_be_written_is_refused_before_the_export(
    run_cli, save_call, fake_translators, trained
):
    result = run_cli(
        "export", trained.run, "--output", "exported/x", "--serving-kit"
    )
    check_refused(result, "named by a version number", "exported/x")
    assert not save_call and not fake_translators


def test_export_refuses_what_exists_before_it_opens_the_run(
    run_cli, fake_translators, tmp_path
):
    (tmp_path / "1").symlink_to("nowhere")
    result = run_cli("export", "runs/x", "--output", tmp_path / "1")
    check_refused(result, f"{tmp_path}/1 already exists")
    assert not fake_translators


def test_export_warns_of_a_folder_that_is_not_a_version(
    run_cli, save_call, fake_translators, trained
):
    code, _, err = run_cli("export", trained.run, "--output", "exported/x/")
    assert code == 0
    assert err.startswith("keras-transformer: warning: TensorFlow Serving ")
    assert err.endswith("version number, such as exported/x/1\n")


# === Other formats ===


@pytest.fixture
def saved(monkeypatch):
    """Replaces the exports to other formats; holds their arguments."""
    calls = []
    for name in ("litert", "ctranslate2", "huggingface"):

        def save(translator, path, dtype, name=name):
            calls.append((name, translator, path, dtype))
            return path

        monkeypatch.setattr(kt.export, f"save_{name}", save)
    return calls


@pytest.mark.parametrize(
    ("name", "runs", "dtype", "use"),
    [
        (
            *("litert", "ab", "int8"),
            "LiteRT. Next: keras-transformer translate en-de",
        ),
        (
            *("ctranslate2", "a", "int8"),
            "CTranslate2. Its README.md says how to use it",
        ),
        (
            *("huggingface", "a", "float16"),
            "Hugging Face. Its README.md says how to use it",
        ),
    ],
)
def test_other_formats(
    run_cli, saved, fake_translators, name, runs, dtype, use
):
    command = ["export", *runs, "--output", "en-de", "--format", name]
    code, out, err = run_cli(*command, "--beam-size", 3, "--checkpoint", 7)
    assert (code, err) == (0, "")
    named = ", ".join(runs)
    assert out == f"exporting {named}\nen-de holds a model for {use}\n"
    assert run_cli(*command, "--dtype", dtype, "--n-best", 2).code == 0
    translator, small = fake_translators
    assert saved == [
        (name, translator, "en-de", "float32"),
        (name, small, "en-de", dtype),
    ]
    # Whatever is written, the model is opened in float32.
    assert translator.dtype == small.dtype == "float32"
    assert [run.path for run in translator.runs] == [*runs]
    assert translator.checkpoint == "7" and translator.search.beam_size == 3
    assert small.num_translations == 2


@pytest.mark.parametrize(
    ("name", "system"),
    [("ctranslate2", "CTranslate2"), ("huggingface", "Hugging Face")],
)
def test_formats_without_ensembles(run_cli, any_run, name, system):
    command = ["export", "a", "b", "--output", "c", "--format", name]
    code, _, err = run_cli(*command)
    assert code == 2 and f"{system} has no ensembles. Use --format lit" in err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ["--dtype", "int8"],
            ["--format saved-model must be one of float32, bfloat16, float16."],
        ),
        (
            ["--format", "litert", "--dtype", "bfloat16"],
            ["one of float32, float16, int8.", "--dtype bfloat16"],
        ),
        (
            ["--format", "litert", "--serving-kit"],
            ["--serving-kit is for a SavedModel", "--format litert"],
        ),
        (
            ["--format", "ctranslate2", "--signatures", "serving_default"],
            ["--signatures is for a SavedModel", "--format ctranslate2"],
        ),
    ],
)
def test_options_that_a_format_lacks_are_refused_at_once(
    run_cli, monkeypatch, any_run, flags, words
):
    monkeypatch.setattr(
        "keras_transformer.cli.inference.import_tensorflow_quietly", None
    )
    result = run_cli("export", "missing", "--output", "x", *flags)
    check_refused(result, *words)
