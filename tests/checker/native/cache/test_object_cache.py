"""The cache of object code: an entry comes back as it was kept, or not at all."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Event

import pytest

from epochfence.checker.native.cache import object_cache
from epochfence.checker.native.cache.object_cache import ObjectCache

CODE = b"an object file" * 100


def key(name: str, shelf: str = "") -> str:
    return shelf + sha256(name.encode()).hexdigest()[len(shelf) :]


KEY = key("one")


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "kernels")


@pytest.fixture
def entry(cache: ObjectCache) -> Path:
    """The file of the one entry that is there."""
    cache.put(KEY, CODE)
    (found,) = (path for path in cache.folder.rglob("*") if path.is_file())
    return found


def test_an_entry_comes_back(cache: ObjectCache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, CODE)
    cache.put(key("other"), b"other")
    assert cache.get(KEY) == CODE
    assert cache.get(key("other")) == b"other"
    assert cache.get(key("none")) is None


def test_no_damage_goes_unseen(cache: ObjectCache, entry: Path) -> None:
    whole = entry.read_bytes()
    for at in range(0, len(whole), 7):
        entry.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert cache.get(KEY) is None
    for damaged in (b"", whole[:-1], whole + b" ", whole[:20]):
        entry.write_bytes(damaged)
        assert cache.get(KEY) is None
    cache.put(KEY, CODE)
    assert cache.get(KEY) == CODE


def test_an_entry_is_not_taken_for_another(cache: ObjectCache, entry: Path) -> None:
    other = key("other", shelf=KEY[0])
    entry.rename(entry.with_name(other))
    assert cache.get(other) is None


@pytest.mark.parametrize("part", ["folder", "shelf", "file"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_write_is_not_run(
    cache: ObjectCache, entry: Path, part: str, mode: int
) -> None:
    path = {"folder": cache.folder, "shelf": entry.parent, "file": entry}[part]
    path.chmod(path.stat().st_mode | mode)
    assert cache.get(KEY) is None
    if part != "file":
        cache.put(key("new", shelf=KEY[0]), CODE)
        assert list(entry.parent.iterdir()) == [entry]


def test_what_is_another_user_s_is_not_run(
    cache: ObjectCache, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.get(KEY) == CODE
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert cache.get(KEY) is None


def test_links_and_pipes_are_not_read(cache: ObjectCache, entry: Path, tmp_path: Path) -> None:
    moved = entry.rename(tmp_path / "moved")
    entry.symlink_to(moved)
    assert cache.get(KEY) is None
    entry.unlink()
    os.mkfifo(entry)
    assert cache.get(KEY) is None
    entry.unlink()
    moved.rename(entry)
    assert cache.get(KEY) == CODE
    (tmp_path / "link").symlink_to(cache.folder)
    assert ObjectCache(tmp_path / "link").get(KEY) is None


def test_nobody_else_can_read_or_write_what_is_kept(entry: Path) -> None:
    for path in (entry, entry.parent, entry.parent.parent):
        assert path.stat().st_mode & 0o077 == 0


def test_a_place_that_holds_no_folder_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    nowhere = (object_cache.NOWHERE, Path("/proc/none"))
    for folder in (tmp_path / "file", tmp_path / "file" / "below", *nowhere):
        cache = ObjectCache(folder)
        cache.put(KEY, CODE)
        assert cache.get(KEY) is None


def test_a_full_disk_leaves_nothing_half_written(
    cache: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache.put(KEY, CODE)
    assert [path for path in cache.folder.rglob("*") if path.is_file()] == []


def test_the_entries_used_last_stay(tmp_path: Path) -> None:
    a_block = 4096
    cache = ObjectCache(tmp_path, most_bytes=3 * a_block * len(object_cache.SHELVES))
    keys = [key(str(number), shelf="0") for number in range(4)]
    for at, each in enumerate(keys[:3]):
        cache.put(each, CODE)
        os.utime(tmp_path / "0" / each, (at, at))
    assert cache.get(keys[0]) == CODE  # used: the next is now the one used longest ago
    cache.put(keys[3], CODE)
    assert [cache.get(each) is not None for each in keys] == [True, False, True, True]


def put_and_get(folder: Path, number: int) -> int:
    """How many of the entries that many processes write at once are there and right."""
    cache = ObjectCache(folder)
    found = 0
    for at in range(50):
        name = str((at + number) % 10)
        cache.put(key(name), name.encode() * 10_000)
        found += cache.get(key(name)) == name.encode() * 10_000
    return found


def test_processes_write_the_same_entries_at_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2) as pool:
        assert list(pool.map(put_and_get, [tmp_path] * 2, range(2))) == [50, 50]
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == 10


def test_an_entry_that_another_makes_is_waited_for(cache: ObjectCache) -> None:
    waits = Event()

    def other() -> bytes | None:
        waits.set()
        with cache.making(KEY):
            return cache.get(KEY)

    with ThreadPoolExecutor(1) as pool, cache.making(KEY):
        found = pool.submit(other)
        waits.wait()
        with pytest.raises(TimeoutError):
            found.result(0.1)
        cache.put(KEY, CODE)
    assert found.result() == CODE


def test_one_who_waits_too_long_makes_it_himself(
    cache: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_cache, "LONGEST", 0.1)
    with cache.making(KEY), ObjectCache(cache.folder).making(KEY):
        cache.put(KEY, CODE)
    assert cache.get(KEY) == CODE


def test_where_there_is_no_folder_nobody_waits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file" / "in it", object_cache.NOWHERE):
        cache = ObjectCache(folder)
        with cache.making(KEY), cache.making(KEY):
            pass


def test_the_environment_chooses_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(object_cache.VARIABLE, str(tmp_path))
    assert object_cache.chosen() == ObjectCache(tmp_path / "kernels")
    monkeypatch.setenv(object_cache.VARIABLE, "off")
    assert object_cache.chosen() == ObjectCache(object_cache.NOWHERE)
    monkeypatch.delenv(object_cache.VARIABLE)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path)
    assert object_cache.chosen() == ObjectCache(tmp_path / "kernels")
    homeless = Path("~/.cache/epochfence")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: homeless)
    assert object_cache.chosen() == ObjectCache(object_cache.NOWHERE)
