"""What a release needs: metadata, links, workflows, and what checks them."""

import re
import runpy
from importlib.metadata import version
from unittest import mock

import pytest
import release_check
import yaml
from documents import ROOT, read

from keras_transformer import __version__

WORKFLOWS = ("ci.yml", "release.yml")


@pytest.fixture
def metadata(monkeypatch):
    """Returns what setup.py says, with an address of the repository."""

    def run(repository):
        monkeypatch.setenv("REPOSITORY_URL", repository)
        with mock.patch("setuptools.setup") as setup:
            runpy.run_path(str(ROOT / "setup.py"))
        return setup.call_args.kwargs

    return run


def workflow(name):
    """Returns a workflow; YAML 1.1 reads its key `on` as True."""
    found = yaml.safe_load(read(f".github/workflows/{name}"))
    return found | {"on": found.pop(True)}


def steps(name, key):
    """Returns what the steps of a workflow `use` or `run`."""
    return [
        step[key]
        for job in workflow(name)["jobs"].values()
        for step in job.get("steps", ())
        if key in step
    ]


def test_versions_agree(metadata):
    assert metadata("")["version"] == __version__
    assert version("keras-transformer-nmt") == __version__
    assert yaml.safe_load(read("CITATION.cff"))["version"] == __version__
    newest = re.search(r"^## \[(.+?)\]", read("CHANGELOG.md"), re.MULTILINE)
    assert newest[1] == __version__


def test_citation_names_the_paper_and_its_authors():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    (paper,) = citation["references"]
    assert (paper["title"], paper["year"]) == (
        "Attention Is All You Need",
        2017,
    )
    assert len(paper["authors"]) == 8


def test_description_without_an_address_has_no_relative_links(metadata):
    found = metadata("")
    text = found["long_description"]
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert targets and all(t.startswith("https://") for t in targets)
    assert "![" not in text and "one map per head" not in text
    assert "\nCONTRIBUTING.md has the tree" in text
    assert set(found["project_urls"]) == {"Paper"}


def test_description_with_an_address_has_links_to_the_tag(metadata):
    found = metadata("https://example.org/we/it/")
    address = "https://example.org/we/it"
    tag = f"v{__version__}"
    for link in (
        f"[guide]({address}/blob/{tag}/docs/guide.md)",
        f"]({address}/raw/{tag}/docs/attention.png)",
        f"badge.svg)]({address}/blob/{tag}/colab/translate.ipynb)",
        "](https://arxiv.org/abs/1706.03762)",
    ):
        assert link in found["long_description"]
    assert found["project_urls"]["Changelog"] == (
        f"{address}/blob/{tag}/CHANGELOG.md"
    )


def test_files_in_the_makefile_exist():
    for path in re.findall(r"\btests/[\w/]+(?:\.py)?", read("Makefile")):
        assert (ROOT / path).exists(), path


def test_extras_in_the_documentation_exist(metadata):
    (section,) = re.findall(
        r"`gpu` instead.*?\n\n", read("docs/index.md"), re.S
    )
    extras = {x for x in re.findall("`([^`]+)`", section) if " " not in x}
    assert extras <= set(metadata("")["extras_require"])


def test_every_extra_is_checked(metadata):
    release_check.check_extras(metadata("")["extras_require"])
    with pytest.raises(SystemExit, match=r"not belong there: \['new'\]"):
        release_check.check_extras([*metadata("")["extras_require"], "new"])


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_call_what_exists(name):
    commands = steps(name, "run")
    assert commands or name != "ci.yml"
    for command in commands:
        program, *words = command.split()
        if program == "make":
            assert re.search(rf"^{words[0]}:", read("Makefile"), re.MULTILINE)
        else:
            assert (ROOT / program).stat().st_mode & 0o100, program
    for action in steps(name, "uses"):
        assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v1)", action)


def test_changes_and_releases_run_every_check():
    ci = workflow("ci.yml")
    assert steps("ci.yml", "run") == [".ci/run"]
    assert {"push", "pull_request", "workflow_call"} == set(ci["on"])
    release = workflow("release.yml")
    assert release["on"] == {"push": {"tags": ["v*"]}}
    jobs = release["jobs"]
    assert jobs["check"]["uses"] == "./.github/workflows/ci.yml"
    # Nothing is published before all checks have passed.
    order = {name: job.get("needs") for name, job in jobs.items()}
    assert order == {
        "check": None,
        "package": "check",
        "publish": "package",
        "documentation": "publish",
    }
    assert 'make release TAG="$GITHUB_REF_NAME"' in steps("release.yml", "run")


def test_files_of_the_distributions():
    tracked = [
        "LICENSE",
        "Makefile",
        "export/templates/README.md",
        "keras_transformer/py.typed",
        "keras_transformer/train",  # a link
        "tests/test_release.py",
        "train/data/demo/test.de",
    ]
    assert release_check.files_of_wheel(tracked) == {
        "keras_transformer/export/templates/README.md",
        "keras_transformer/py.typed",
        "keras_transformer/train/data/demo/test.de",
    }
    assert release_check.files_of_sdist(tracked) == {
        "LICENSE",
        "keras_transformer/export/templates/README.md",
        "keras_transformer/py.typed",
        "keras_transformer/train/data/demo/test.de",
    }


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (["a.py"], r"wheel: missing \['b.py'\], does not belong there: \[\]"),
        (["a.py", "b.py", "c"], r"missing \[\], .* there: \['c'\]"),
    ],
)
def test_wrong_files_are_named(found, message):
    with pytest.raises(SystemExit, match=message):
        release_check.check_files("wheel", found, ["a.py", "b.py"])


def test_a_tag_is_the_version_and_has_a_date():
    dated = "# Changelog\n\n## [1.2.0] - 2030-01-31\n"
    release_check.check_tag("v1.2.0", "1.2.0", dated)
    with pytest.raises(SystemExit, match="must be v1.2.0. Received: v1.2"):
        release_check.check_tag("v1.2", "1.2.0", dated)
    for changelog in ("## [1.2.0] - unreleased\n", dated.replace("2.", "3.")):
        with pytest.raises(SystemExit, match=r"\[1.2.0\] - YYYY-MM-DD"):
            release_check.check_tag("v1.2.0", "1.2.0", changelog)
