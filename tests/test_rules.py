"""The rules of CONTRIBUTING.md are true."""

import ast

from documents import ROOT, SOURCE_FOLDERS, read, source_tree

PACKAGE = "keras_transformer"


def test_tree_lists_every_file():
    listed, folders = set(), []
    for line in source_tree().splitlines():
        name, text = line.split(maxsplit=1)
        assert text
        depth = (len(line) - len(line.lstrip())) // 2
        folders[depth:] = [name]
        path = "".join(folders)
        assert (ROOT / path).exists(), path
        listed.add(path)
    for folder in SOURCE_FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            if path.name != "__init__.py":
                assert path.relative_to(ROOT).as_posix() in listed


def test_no_file_has_more_than_400_lines():
    for folder in (*SOURCE_FOLDERS, "tests", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            assert len(path.read_text("utf-8").splitlines()) <= 400, path


def test_tests_mirror_the_tree():
    exceptions = read("CONTRIBUTING.md")
    test_files = set()
    for folder in SOURCE_FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            source = path.relative_to(ROOT).as_posix()
            test = path_of_test(source)
            test_files.add(test)
            tested = path.name.startswith("__") or (ROOT / test).exists()
            assert tested or f"`{source}`" in exceptions, source
    for path in (ROOT / "tests").rglob("test_*.py"):
        name = path.relative_to(ROOT).as_posix()
        # A long file may be split: test_training_prepare.py.
        first_part = name.rpartition("_")[0] + ".py"
        mirrored = test_files & {name, first_part}
        assert mirrored or f"`{name}`" in exceptions, name


def path_of_test(source):
    folder, _, name = source.removeprefix("keras_transformer/").rpartition("/")
    return "/".join(filter(None, ("tests", folder, f"test_{name}")))


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            # Modules of ours, or lazy names: both load what they are named.
            yield from (f"{PACKAGE}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def importers(module, pattern):
    """Returns the files that match a pattern and import a module."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob(pattern)
        for name in imported_modules(path)
        if name == module or name.startswith(f"{module}.")
    }


def test_data_flow_one_way():
    users = {
        "train": {"cli", "beam"},
        "export": {"cli"},
        "cli": {"cli", "beam"},
        "beam": {"beam"},
    }
    for imported, rooms in users.items():
        module = f"keras_transformer.{imported}"
        found = importers(module, "keras_transformer/**/*.py")
        # Where they are lazy, and what starts the command line.
        found -= {f"keras_transformer/__{x}__.py" for x in ("init", "main")}
        assert {path.rpartition("/")[0] for path in found} <= {
            f"keras_transformer/{room}" for room in rooms
        }
        if imported in ("cli", "beam"):
            assert not importers(module, "train/**/*.py")
            assert not importers(module, "export/**/*.py")
    # `kt` has both programs.
    found = {
        path.parent.name
        for path in ROOT.glob("keras_transformer/**/*.py")
        if "keras_transformer" in imported_modules(path)
    }
    assert found == {"cli"}
    assert not importers("keras_transformer.export", "train/**/*.py")
    for folder in ("layers", "decoding"):
        pattern = f"keras_transformer/{folder}/*.py"
        assert not importers("keras_transformer.model", pattern)
    assert not importers(
        "keras_transformer.decoding", "keras_transformer/model.py"
    )


def test_architecture_knows_no_training():
    """Of `fit` the model takes its base class, which is Keras' elsewhere."""
    layers, model = (
        "keras_transformer/layers/*.py",
        "keras_transformer/model.py",
    )
    for module in ("losses", "metrics", "optimizers", "schedules"):
        for pattern in (layers, model):
            assert not importers(f"keras_transformer.{module}", pattern)
    assert not importers("keras_transformer.fit", layers)
    found = set(imported_modules(ROOT / model))
    assert {name for name in found if ".fit" in name} == {
        "keras_transformer.fit.distributed_fit"
    }


def test_what_translates_with_litert_knows_no_tensorflow():
    """Nor what has it: tests/litert/test_lite_folder.py runs it without."""
    pattern = "keras_transformer/litert/*.py"
    for module in ("tensorflow", "keras"):
        assert not importers(module, pattern)
    for name in (
        "model",
        "layers",
        "inference.translator",
        "inference.run_folder",
    ):
        assert not importers(f"keras_transformer.{name}", pattern)
    found = importers("ai_edge_litert", "keras_transformer/**/*.py")
    assert found == {"keras_transformer/litert/interpreter.py"}


def test_tensorflow_is_imported_in_few_places():
    found = importers("tensorflow", "keras_transformer/**/*.py")
    assert found == {
        f"keras_transformer/{name}.py"
        for name in (
            "cli/versions",
            "convert/from_opennmt_tf",
            "decoding/beam",
            "decoding/comparison",
            "decoding/linear",
            "decoding/parts",
            "decoding/rows",
            "decoding/loop",
            "decoding/sampling",
            "decoding/top_k",
            "fit/distributed_fit",
            "fit/fused",
            "inference/text_pipeline",
            "inference/saved_model",
            "inference/translator",
            "plotting/tracing",
            "support/startup",
            "tasks/parsing/tree_ops",
            "tasks/parsing/parsing_task",
            "tasks/task",
            "tasks/translation",
            "text/vocabulary_ops",
            "text/vocabulary",
            "weights",
        )
    }


def test_apache_beam_is_imported_for_bulk_work_alone():
    found = importers("apache_beam", "keras_transformer/**/*.py")
    assert {path.rpartition("/")[0] for path in found} == {
        "keras_transformer/beam"
    }


def test_trees_are_plain_python():
    for module in ("keras", "numpy", "tensorflow"):
        found = importers(module, "keras_transformer/tasks/parsing/*.py")
        assert found <= {
            "keras_transformer/tasks/parsing/tree_ops.py",
            "keras_transformer/tasks/parsing/parsing_task.py",
        }
