import pytest
from commands import write_run
from fake_translator import FakeTranslator

import keras_transformer as kt
from keras_transformer.decoding.settings import BeamSearch


@pytest.fixture
def saves(monkeypatch):
    """Replaces the exports; holds the arguments of each call."""
    calls = []
    names = ("litert", "ctranslate2", "argos", "huggingface")
    for name in ("save", *(f"save_{name}" for name in names)):

        def save(translator, path, *values, name=name, **options):
            calls.append((name, translator, path, *values, *options.values()))

        monkeypatch.setattr(kt.export, name, save)
    return calls


def test_export_passes_its_flags_on(run_cli, saves, opened, folder, tmp_path):
    other = write_run(tmp_path / "other")
    flags = "--beam-size 3 --n-best 2 --checkpoint 1 --dtype float16"
    flags += " --signatures translate_prefix translate_nbest"
    output = tmp_path / "exported" / "1"
    code, out, err = run_cli(
        "export", folder, other, "--output", output, *flags.split()
    )
    assert (code, err) == (0, "")
    ((paths, options, translator),) = opened
    assert paths == [folder, other]
    assert options == dict(
        checkpoint="1",
        dtype="float16",
        num_translations=2,
        search=BeamSearch(3),
        target_language=None,
        tag=None,
        task=None,
        shortlist=True,
    )
    names = ["translate_prefix", "translate_nbest"]
    assert saves == [("save", translator, output, names)]
    start = f"{output} is a model for Tensor"
    assert out.startswith(start)


@pytest.mark.parametrize("name", ["litert", "ctranslate2"])
def test_a_shortlist(
    run_cli, saves, opened, folder, tmp_path, monkeypatch, name
):
    monkeypatch.setattr(FakeTranslator, "tokenizer", None, raising=False)
    file = tmp_path / "pairs.tsv"
    file.write_text("a dog\tein Hund\n")
    lexicon = tmp_path / "lex.s2t.gz"
    for function in ("make_shortlist", "read_lexicon"):

        def make(tokenizer, data, function=function):
            return function, data if data == str(lexicon) else [*data]

        monkeypatch.setattr(kt.export, function, make)
    command = ["export", folder, "--output", tmp_path / "a", "--format", name]
    for data in file, lexicon:
        assert run_cli(*command, "--shortlist", data).code == 0
    assert [call[-1] for call in saves] == [
        ("make_shortlist", [("a dog", "ein Hund")]),
        ("read_lexicon", str(lexicon)),
    ]
    command[-1] = "huggingface"
    assert run_cli(*command, "--shortlist", file).code == 2


def test_export_warns_of_a_folder_that_is_not_a_version(
    run_cli, saves, opened, folder, tmp_path
):
    output = tmp_path / "exported"
    code, _, err = run_cli("export", folder, "--output", f"{output}/")
    assert code == 0
    assert err.startswith("keras-transformer: warning: TensorFlow Serving ")
    assert err.endswith(f"version number, such as {output}/1\n")


@pytest.mark.parametrize(
    ("name", "dtype", "system"),
    [
        ("litert", "int8", "LiteRT"),
        ("ctranslate2", "int8", "CTranslate2"),
        ("argos", "int8", "Argos Translate"),
        ("huggingface", "float16", "Hugging Face"),
    ],
)
def test_other_formats(
    run_cli, saves, opened, folder, name, dtype, system, tmp_path
):
    output = tmp_path / ("a.argosmodel" if name == "argos" else "en-de")
    command = ["export", folder, "--output", output, "--format", name]
    code, out, err = run_cli(*command)
    assert (code, err) == (0, "")
    start = f"{output} is a model for {system}. docs/{name}.md"
    assert out.startswith(start)
    assert run_cli(*command, "--dtype", dtype).code == 0
    assert [(call[0], call[2:]) for call in saves] == [
        (f"save_{name}", (output, "float32")),
        (f"save_{name}", (output, dtype)),
    ]
    # Whatever is written, the model is opened in float32.
    assert [call.options["dtype"] for call in opened] == [None, None]
