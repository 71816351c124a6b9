"""Files that the project writes: whole or not at all, and over nothing but plain files."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from epochfence.files import CantWriteError, Output, refusal, write_whole


def left_over(folder: Path) -> list[str]:
    """Files in the making that nobody removed."""
    return [path.name for path in folder.iterdir() if path.name.endswith(".part")]


def test_a_file_is_made_or_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "result"
    write_whole(file, "first")
    assert file.read_text() == "first"
    file.chmod(0o600)
    before = file.stat().st_ino
    write_whole(file, b"second")
    assert file.read_bytes() == b"second"
    assert file.stat().st_ino != before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert left_over(tmp_path) == []


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "result", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "result").stat().st_mode) == 0o640


def test_what_breaks_off_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "result"
    file.write_text("whole")

    def half() -> None:
        with Output(file).writing() as opened:
            opened.write(b"ha")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert file.read_text() == "whole"
    assert left_over(tmp_path) == []


def test_no_link_is_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "link").symlink_to(precious)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(CantWriteError, match="symbolic link"):
            Output(tmp_path / name)
    assert precious.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_link_that_comes_later_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious, file = tmp_path / "precious", tmp_path / "result"
    precious.write_text("mine")
    output = Output(file)
    file.symlink_to(precious)
    output.write("result")
    assert precious.read_text() == "mine"
    assert not file.is_symlink()


def test_a_guessed_name_beside_the_file_is_no_way_in(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / ".result.part").symlink_to(precious)
    write_whole(tmp_path / "result", "result")
    assert precious.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "why"),
    [(".", "it is a folder"), ("none/result", "no folder"), ("result/", "it is a folder"),
     ("x" * 300, "File name too long"), ("nul\0", "null"), ("/dev/fd/999999", "Bad file")],
)  # fmt: skip
def test_what_cant_be_written_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "result").mkdir()
    with pytest.raises(CantWriteError, match=why) as told:
        Output(Path(name))
    assert str(told.value).startswith(f"can't write {Path(name)}: ")


def test_devices_stay_what_they_are() -> None:
    before = os.lstat("/dev/null")
    write_whole(Path("/dev/null"), "gone")
    assert os.path.samestat(before, os.lstat("/dev/null"))
    with pytest.raises(CantWriteError, match="/dev/full: No space left on device"):
        write_whole(Path("/dev/full"), "nowhere to go")


def test_a_full_disk_is_known_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CantWriteError, match="/dev/full: No space left on device"):
        Output(Path("/dev/full"))
    disk = os.statvfs(tmp_path)

    def full(_: object) -> os.statvfs_result:
        return os.statvfs_result((*disk[:3], 0, 0, *disk[5:]))  # no free block, for root either

    file = tmp_path / "result"
    with file.open("w") as there:
        assert refusal(there.fileno()) is None
        monkeypatch.setattr("os.statvfs", full)
        monkeypatch.setattr("os.fstatvfs", full)
        error = refusal(there.fileno())
        assert error is not None
        assert error.strerror == "No space left on device"
    with pytest.raises(CantWriteError, match="result: No space left on device"):
        Output(file)
    with file.open() as there:
        error = refusal(there.fileno())
        assert error is not None
        assert error.strerror == "Bad file descriptor"


def test_a_fifo_is_written_to_where_somebody_reads_it(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(CantWriteError, match="no process reads this FIFO"):
        Output(fifo)
    read: list[str] = []
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    output = Output(fifo)
    os.set_blocking(reader, True)

    def take() -> None:
        with open(reader) as file:
            read.append(file.read(200_000))

    taking = threading.Thread(target=take)
    taking.start()
    output.write("x" * 200_000)  # more than a pipe holds
    taking.join(10)
    assert read == ["x" * 200_000]
    assert fifo.is_fifo()


def test_an_open_descriptor_is_written_through(tmp_path: Path) -> None:
    with (tmp_path / "open").open("wb") as file:
        write_whole(Path(f"/dev/fd/{file.fileno()}"), "through")
        assert not file.closed
    assert (tmp_path / "open").read_text() == "through"


def test_a_dash_is_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    output = Output(Path("-"))
    assert output.is_standard_output
    output.write("the result\n")
    print("after")
    assert capfd.readouterr().out == "before\nthe result\nafter\n"
    assert not Path("-").exists()
