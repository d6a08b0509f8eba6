"""Replaces the download from the Hugging Face Hub by copies of folders."""

import hashlib
import shutil
from unittest import mock

import huggingface_hub


class FakeHub:
    """The models that can be downloaded, and what was downloaded.

    Args:
        monkeypatch: The fixture.
        cache: Folder for the downloaded files.

    Attributes:
        models: Folders, by OWNER/NAME@BRANCH.
        files: Names of the files that were downloaded.
    """

    def __init__(self, monkeypatch, cache):
        self.models, self.files = {}, []
        self._cache = cache
        # Checks that the arguments fit huggingface_hub's.
        download = mock.create_autospec(
            huggingface_hub.snapshot_download, side_effect=self._download
        )
        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)

    def commit(self, model):
        """Returns the commit of OWNER/NAME@BRANCH."""
        return hashlib.sha1(model.encode()).hexdigest()

    def _download(self, name, revision, allow_patterns, tqdm_class):
        for model, folder in self.models.items():
            branch = model.removeprefix(f"{name}@")
            if (revision or "main") in (branch, self.commit(model)):
                path = self._cache / name / self.commit(model)
                path.mkdir(parents=True, exist_ok=True)
                for file in allow_patterns:
                    if (folder / file).exists():
                        shutil.copy(folder / file, path)
                        self.files.append(file)
                return str(path)
        raise OSError(f"no model {name} with revision {revision}")
