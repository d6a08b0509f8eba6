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


@pytest.fixture
def metadata(monkeypatch):
    """Returns what setup.py says, with an address of the repository."""

    def run(repository):
        monkeypatch.setenv("REPOSITORY_URL", repository)
        with mock.patch("setuptools.setup") as setup:
            runpy.run_path(str(ROOT / "setup.py"))
        return setup.call_args.kwargs

    return run


def test_versions_agree(metadata):
    assert metadata("")["version"] == __version__
    assert version("keras-transformer-nmt") == __version__
    assert yaml.safe_load(read("CITATION.cff"))["version"] == __version__
    newest = re.search(r"^## \[(.+?)\]", read("CHANGELOG.md"), re.MULTILINE)
    assert newest[1] == __version__


def test_description_without_an_address_contains_no_relative_links(metadata):
    found = metadata("")
    text = found["long_description"]
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert targets and all(t.startswith("https://") for t in targets)
    assert "![" not in text and "one map per head" not in text
    assert set(found["project_urls"]) == {"Paper"}


def test_description_with_an_address_links_to_the_tag(metadata):
    found = metadata("https://example.org/it/")
    address, tag = "https://example.org/it", f"v{__version__}"
    for link in (
        f"[guide]({address}/blob/{tag}/docs/guide.md)",
        f"]({address}/raw/{tag}/docs/attention.png)",
        "](https://arxiv.org/abs/1706.03762)",
    ):
        assert link in found["long_description"]
    targets = re.findall(r"\]\(([^)]*)\)", found["long_description"])
    assert all(t.startswith("https://") for t in targets)


def test_files_in_the_makefile_exist():
    folders = r"(?<![\w/])(?:tests|benchmarks|\.ci)/[\w/]+(?:\.py)?"
    for path in re.findall(folders, read("Makefile")):
        assert (ROOT / path).exists(), path


def test_extras_in_the_documentation_exist(metadata):
    (section,) = re.findall(
        r"`gpu` instead.*?\n\n", read("docs/index.md"), re.S
    )
    extras = {x for x in re.findall("`([^`]+)`", section) if " " not in x}
    assert extras <= set(metadata("")["extras_require"])


def test_every_extra_is_checked(metadata):
    checked = {*release_check.USES, *release_check.ONLY_RESOLVED}
    assert {"", *metadata("")["extras_require"]} == checked


def test_workflows_call_what_exists():
    for name in ("ci.yml", "release.yml"):
        jobs = yaml.safe_load(read(f".github/workflows/{name}"))["jobs"]
        for step in (x for job in jobs.values() for x in job.get("steps", ())):
            program, *words = step.get("run", "make test").split()
            if program == "make":
                assert f"\n{words[0]}:" in read("Makefile")
            else:
                assert (ROOT / program).stat().st_mode & 0o100, program
