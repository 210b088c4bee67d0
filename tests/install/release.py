#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""release.py SOURCE WORK: scripts/release.sh, in a separate repository, rejects an invalid release with a sentence and without a tag.
For a valid one it packs only what is committed, and tags it. Exits with 77 without git."""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

AUTHOR = ["-c", "user.name=A", "-c", "user.email=a@localhost"]


def main():
    source, work = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    if not shutil.which("git"):
        print("there is no git")
        return 77
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work, symlinks=True, ignore=lambda folder, names: [
        name for name in names if name in (".git", "__pycache__") or (folder == str(source) and name.startswith("build"))])

    def git(*words):
        return subprocess.run(["git", *AUTHOR, *words], cwd=work, check=True, capture_output=True, text=True).stdout

    def commit():
        git("add", "--all")
        git("commit", "--quiet", "--message", "A commit")

    def release():
        environment = dict(os.environ, GIT_COMMITTER_NAME="A", GIT_COMMITTER_EMAIL="a@localhost")
        return subprocess.run(["scripts/release.sh"], cwd=work, env=environment, capture_output=True, text=True)

    errors = []

    def refused(why, sentence):
        done = release()
        if done.returncode == 0 or sentence not in done.stdout + done.stderr or git("tag"):
            errors.append(f"{why}: exit {done.returncode}, tags {git('tag').split()}, said {done.stderr or done.stdout}")

    git("init", "--quiet")
    commit()
    note = work / "note.txt"
    note.write_text("not committed\n")
    refused("a file that is not committed", "note.txt")
    note.unlink()
    for path, old, new, sentence in [
            ("CHANGELOG.md", "\n## ", "\n## 9.9.9\n\n## ", "CHANGELOG.md begins with '9.9.9'"),
            ("packaging/conan/conanfile.py", 'version = "', 'version = "9', "conanfile.py does not have the version"),
            ("CMakeLists.txt", "project(hologram VERSION ", "project(hologram VERSION 1.", "not three numbers")]:
        text = (work / path).read_text()
        (work / path).write_text(text.replace(old, new, 1))
        commit()
        refused(path, sentence)
        (work / path).write_text(text)
        commit()

    (work / "left.hgm").write_text("which git ignores\n")
    done = release()
    archives = list((work / "build" / "release").glob("hologram-*.tar.gz"))
    if done.returncode != 0 or len(archives) != 1:
        errors.append(f"a release: exit {done.returncode}, {archives}, {done.stderr}")
    else:
        name = archives[0].name.removesuffix(".tar.gz")
        if git("tag").split() != [name.replace("hologram-", "v")] or git("rev-parse", f"{git('tag').strip()}^{{commit}}") != git("rev-parse", "HEAD"):
            errors.append(f"the tags of {name} are {git('tag').split()}")
        with tarfile.open(archives[0]) as archive:
            packed = {member.name for member in archive if not member.isdir()}
        committed = {f"{name}/{path}" for path in git("ls-files", "-z").split("\0")
                     if path and not path.startswith((".git", ".ci/"))}
        for path in sorted(packed ^ committed):
            errors.append(f"{path} is {'packed' if path in packed else 'committed'} alone")
        again = release()
        if again.returncode == 0 or "is tagged" not in again.stderr:
            errors.append(f"the same version again: exit {again.returncode}, {again.stderr}")
    print("\n".join(errors[:20]) or "refusals and a release")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
