"""Commit messages as docs/style.md wants them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "packaging" / "check_commits.py"
GOOD = "Bound crowded nodes by patterns of at most 8 pods\n\nAll patterns of larger nodes cannot be listed.\n"


def _check(tmp_path: Path, message: str) -> tuple[int, str]:
    file = tmp_path / "message"
    file.write_text(message)
    done = subprocess.run([sys.executable, str(SCRIPT), str(file)], capture_output=True, text=True)
    return done.returncode, done.stdout


def test_a_good_message_passes(tmp_path: Path) -> None:
    assert _check(tmp_path, GOOD) == (0, "")


def test_comments_and_diffs_of_the_editor_are_ignored(tmp_path: Path) -> None:
    scissors = f"# {'-' * 24} >8 {'-' * 24}\ndiff --git a/x b/x\n+{'long ' * 40}\n"
    assert _check(tmp_path, f"{GOOD}# Please enter the commit message for your changes. {'x' * 80}\n{scissors}") == (0, "")


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("", "the subject is empty"),
        ("# only a comment\n", "the subject is empty"),
        (f"Add {'x' * 69}\n\nWhy.\n", "the subject has 73 characters"),
        ("Add a rule.\n\nWhy.\n", "ends with a full stop"),
        ("Added a rule\n\nWhy.\n", "begins with 'Added'"),
        ("Adding a rule\n\nWhy.\n", "begins with 'Adding'"),
        ("add a rule\n\nWhy.\n", "begins with 'add'"),
        ("That all pods fit is shown\n\nWhy.\n", "begins with 'That'"),
        ("Add a rule\n", "there is no body"),
        ("Add a rule\nbecause\n", "no empty line follows the subject"),
        (f"Add a rule\n\n{'word ' * 15}\n", "a line of the body has"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, message: str, fault: str) -> None:
    code, output = _check(tmp_path, message)
    assert code == 1
    assert fault in output


@pytest.mark.parametrize("message", ["Merge branch 'x'\n", 'Revert "Add a rule"\n', f"Embed a font\n\nhttps://example.com/{'x' * 80}\n"])
def test_messages_that_git_writes_and_long_addresses_pass(tmp_path: Path, message: str) -> None:
    assert _check(tmp_path, message) == (0, "")


def _commit(folder: Path, message: str, date: str) -> None:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com"}
    command = ["git", "-C", str(folder), "commit", "--quiet", "--allow-empty", "-m", message, "--date", date]
    subprocess.run(command, check=True, env={**who, "PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder)})


def test_commits_from_before_the_rule_are_not_checked(tmp_path: Path) -> None:
    (tmp_path / "packaging").mkdir()
    script = tmp_path / "packaging" / "check_commits.py"
    script.write_text(SCRIPT.read_text())
    run = [sys.executable, str(script)]
    assert "not checked" in subprocess.run(run, capture_output=True, text=True, cwd=tmp_path).stdout
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    _commit(tmp_path, "an old commit with a subject that nobody would write today, and that is far too long", "2026-01-01T00:00:00Z")
    _commit(tmp_path, GOOD, "2026-12-01T00:00:00Z")
    assert subprocess.run(run).returncode == 0
    _commit(tmp_path, "Add a rule", "2026-12-01T00:00:00Z")
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 1
    assert "there is no body" in done.stdout
