"""Inputs for `judge --segments`: directories of brokers that shut down cleanly, and damage to them
with its checksums right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from epochfence.model.broker.leader import Batch, PartitionLeader
from epochfence.model.records import (
    AbortedTransaction,
    Flag,
    ProducerEntry,
    Record,
    RecordBatch,
    RecordError,
    decode_batch,
    decode_index,
    decode_snapshot,
    encode_as_coordinator,
    encode_batch,
    encode_index,
    encode_key,
    encode_marker,
    encode_snapshot,
)
from epochfence.tests.fuzz.harness import Case, Surface
from epochfence.tests.fuzz.mutations import mutated

DATA, LOG = "data", "__transaction_state-0"
PARTITIONS = ("orders-0", "orders-1")
NAMES = ("t", "aa")  # neither would be in partition 0 of 50
Files = dict[str, bytes]


def _path(folder: str, offset: int, suffix: str) -> str:
    return f"{DATA}/{folder}/{offset:020}.{suffix}"


@dataclass
class _Id:
    """A transactional id and its producer."""

    name: str
    producer_id: int
    epoch: int = 0
    sequences: defaultdict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))
    partitions: tuple[str, ...] = ()


class _Broker:
    """A broker with honest clients, and a leader for each partition."""

    def __init__(self, random: Random) -> None:
        self.random, self.now = random, 1
        self.leaders = {name: PartitionLeader(verification=False) for name in PARTITIONS}
        self.ids = [_Id(name, 4000 + at) for at, name in enumerate(NAMES)]
        self.plain = _Id("", 5000)
        self.states: list[RecordBatch] = []
        self.bumps = random.random() < 0.5  # version 2 of transactions
        self.key = random.choice((None, b"k"))
        for each in self.ids:
            self._state(each, "EMPTY")

    def _state(self, each: _Id, state: str) -> None:
        named = [(part.rpartition("-")[0], int(part[-1])) for part in each.partitions]
        value = encode_as_coordinator(
            state=state, partitions=named, producer_id=each.producer_id,
            producer_epoch=each.epoch, timeout_ms=60_000, last_update_ms=self.now, start_ms=1,
        )  # fmt: skip
        record = Record(offset_delta=0, key=encode_key(each.name), value=value)
        self.states.append(
            RecordBatch(
                base_offset=len(self.states),
                records=(record,),
                last_offset_delta=0,
                base_timestamp=self.now,
                max_timestamp=self.now,
            )
        )

    def step(self) -> None:
        """Something happens."""
        random = self.random
        self.now += 1
        for leader in self.leaders.values():
            leader.now_ms = self.now
        each, name = random.choice(self.ids), random.choice(PARTITIONS)
        match random.randrange(8):
            case 0 | 1 | 2:
                if name not in each.partitions:
                    each.partitions = (*each.partitions, name)
                    self._state(each, "ONGOING")
                self._append(name, each, transactional=True)
            case 3 | 4 if each.partitions:
                self._end(each, random.choice(("COMMIT", "ABORT")))
            case 5:
                self._append(name, self.plain, transactional=False)
            case 6:
                self.leaders[name].append_plain(random.randint(1, 3))
            case _:
                self.leaders[name].roll()

    def _append(self, name: str, each: _Id, *, transactional: bool) -> None:
        count = self.random.randint(1, 3)
        answer = self.leaders[name].append(
            producer_id=each.producer_id,
            producer_epoch=each.epoch,
            base_sequence=each.sequences[name],
            count=count,
            transactional=transactional,
        )
        assert answer.error == "NONE", answer
        each.sequences[name] += count

    def _end(self, each: _Id, result: str) -> None:
        if self.bumps:
            each.epoch += 1
            each.sequences.clear()
        self._state(each, f"PREPARE_{result}")
        for name in each.partitions:
            answer = self.leaders[name].append_marker(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                result=result,
                transaction_version=2 if self.bumps else 0,
            )
            assert answer.error == "NONE", answer
        each.partitions = ()
        self._state(each, f"COMPLETE_{result}")

    def files(self) -> Files:
        """The files, after a clean shutdown."""
        found: Files = {}
        for name, leader in self.leaders.items():
            leader.producer_state_manager.take_snapshot()
            ends = [*leader.segments[1:], leader.log_end_offset + 1]
            for base, end in zip(leader.segments, ends, strict=True):
                here = [batch for batch in leader.batches if base <= batch.base_offset < end]
                data = b"".join(encode_batch(self._stored(batch)) for batch in here)
                found[_path(name, base, "log")] = data
                entries = [e for e in leader.index.entries if base <= e.last_offset < end]
                if entries:
                    told = [AbortedTransaction(**each._asdict()) for each in entries]
                    found[_path(name, base, "txnindex")] = encode_index(told)
            for snapshot in leader.producer_state_manager.snapshots:
                rows = [_entry(key, each) for key, each in snapshot.producers.items()]
                found[_path(name, snapshot.offset, "snapshot")] = encode_snapshot(rows)
        found[_path(LOG, 0, "log")] = b"".join(map(encode_batch, self.states))
        found[_path(LOG, len(self.states), "snapshot")] = encode_snapshot([])
        return found

    def _stored(self, batch: Batch) -> RecordBatch:
        size = batch.last_offset - batch.base_offset + 1
        flags = Flag.TRANSACTIONAL if batch.transactional else Flag(0)
        records = tuple(Record(offset_delta=at, key=self.key, value=b"v") for at in range(size))
        if batch.kind == "marker":
            flags |= Flag.CONTROL
            key, value = encode_marker(batch.result, batch.coordinator_epoch)
            records = (Record(offset_delta=0, key=key, value=value),)
        return RecordBatch(
            base_offset=batch.base_offset, records=records, last_offset_delta=size - 1,
            attributes=int(flags), base_timestamp=batch.timestamp, max_timestamp=batch.timestamp,
            producer_id=batch.producer_id, producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )  # fmt: skip


def _entry(producer_id: int, state: Any) -> ProducerEntry:
    newest, first = state.batch_metadata[-1:], state.current_txn_first_offset
    return ProducerEntry(
        producer_id=producer_id,
        epoch=state.producer_epoch,
        last_sequence=newest[0].last_sequence if newest else -1,
        last_offset=newest[0].last_offset if newest else -1,
        offset_delta=newest[0].offset_delta if newest else 0,
        timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_first_offset=-1 if first is None else first,
    )


# Damage -------------------------------------------------------------------------------------------
# Each takes the name of a file, and says whether it has to be noticed; None where it can't be done.

Damage = Callable[[Random, Files, str], bool | None]


def _batches(data: bytes) -> Iterator[RecordBatch]:
    at = 0
    while at < len(data):
        batch, at = decode_batch(data, at)
        yield batch


def _some(random: Random, count: int) -> set[int]:
    """Which of so many are chosen: one, or any."""
    one = random.randrange(count)
    return {one} | ({at for at in range(count) if random.random() < 0.5} & _more(random, count))


def _more(random: Random, count: int) -> set[int]:
    return set(range(count)) if random.random() < 0.3 else set()


def _lose_batches(random: Random, files: Files, name: str) -> bool | None:
    every = list(_batches(files[name])) if name.endswith(".log") else []
    if not every:
        return None
    gone = _some(random, len(every))
    kept = [batch for at, batch in enumerate(every) if at not in gone]
    files[name] = b"".join(map(encode_batch, kept))
    return True


def _reorder(random: Random, files: Files, name: str) -> bool | None:
    """A batch comes twice, or before the one that it follows."""
    every = list(_batches(files[name])) if name.endswith(".log") else []
    if len(every) < 2:
        return None
    at = random.randrange(1, len(every))
    batch = every[at] if random.random() < 0.5 else every.pop(at)
    every.insert(random.randrange(at), batch)
    files[name] = b"".join(map(encode_batch, every))
    return True


def _lose_record(random: Random, files: Files, name: str) -> bool | None:
    every = list(_batches(files[name])) if name.endswith(".log") else []
    if not every:
        return None
    at = random.randrange(len(every))
    if not every[at].records:  # it has lost its only one
        return None
    gone = random.randrange(len(every[at].records))
    records = tuple(each for number, each in enumerate(every[at].records) if number != gone)
    every[at] = replace(every[at], records=records)
    files[name] = b"".join(map(encode_batch, every))
    return True


def _lose_file(random: Random, files: Files, name: str) -> bool | None:
    del random
    folder, _, stem = name.rpartition("/")
    offset, _, suffix = stem.partition(".")
    others = [each for each in files if each.startswith(f"{folder}/") and each != name]
    data = files.pop(name)
    if suffix == "log" and not data:  # the newest one, which a broker has just rolled
        return False
    if suffix == "log":  # without its first segment, a log is one whose head was deleted
        is_first = any(other.endswith(".log") for other in others) and not offset.strip("0")
        return bool(others) and (not is_first or f"{folder}/{offset}.txnindex" in files)
    return suffix == "txnindex" or f"{folder}/{offset}.log" in files


def _lose_folder(random: Random, files: Files, name: str) -> bool | None:
    del random
    if LOG not in name:
        return None
    for each in [each for each in files if LOG in each]:
        del files[each]
    every = (b for each, data in files.items() if each.endswith(".log") for b in _batches(data))
    return any(Flag.TRANSACTIONAL in batch.flags for batch in every)


def _rename(random: Random, files: Files, name: str) -> bool | None:
    folder, _, stem = name.rpartition("/")
    odd = random.choice(("abc", "", "-1", "0", "٣" * 20, f"{stem.partition('.')[0]}0"))
    files[f"{folder}/{odd or 'x'}.{stem.partition('.')[2]}"] = files.pop(name)
    return True


def _add_suffix(random: Random, files: Files, name: str) -> bool | None:
    """A file of another kind, which a broker makes again where it is of an index."""
    files[name + random.choice((".bak", ".swap", ".1", "~"))] = files.pop(name)
    return True


def _add_index(random: Random, files: Files, name: str) -> bool | None:
    added = f"{name.rpartition('/')[0]}/{10**15:020}.{random.choice(('index', 'timeindex'))}"
    files[added] = b""
    return True


def _change_one(random: Random, every: list[Any], steps: tuple[int, int]) -> None:
    """Removes an entry, repeats it, or adds one of the steps to one of its fields."""
    at = random.randrange(len(every))
    match random.randrange(3):
        case 0:
            del every[at]
        case 1:
            every.append(every[at])
        case _:
            column = random.choice([*_fields(every[at])])
            value = _fields(every[at])[column]
            every[at] = replace(every[at], **{column: value + random.choice(steps)})


def _entries(random: Random, files: Files, name: str) -> bool | None:
    """An entry of a snapshot is gone, there twice, or another one."""
    every = list(decode_snapshot(files[name])) if name.endswith(".snapshot") else []
    if not every:
        return None
    _change_one(random, every, (1, -1))
    files[name] = encode_snapshot(every)
    return True


def _index_entries(random: Random, files: Files, name: str) -> bool | None:
    every = list(decode_index(files[name])) if name.endswith(".txnindex") else []
    if not every:
        return None
    _change_one(random, every, (1, 2))
    files[name] = encode_index(every)
    return True


def _fields(entity: Any) -> dict[str, int]:
    return {name: getattr(entity, name) for name in entity.__dataclass_fields__}


def _other_header(random: Random, files: Files, name: str) -> bool | None:
    """A batch of a producer gets an id that nobody has, or no epoch; or a marker another result."""
    every = list(_batches(files[name])) if name.endswith(".log") and LOG not in name else []
    mine = [at for at, batch in enumerate(every) if batch.producer_id >= 0]
    if not mine:
        return None
    at = random.choice(mine)
    batch = every[at]
    # the log cleaner keeps a batch without its records
    if Flag.CONTROL in batch.flags and batch.records and random.random() < 0.5:
        record = batch.records[0]
        result = "ABORT" if record.key == encode_marker("COMMIT", 0)[0] else "COMMIT"
        changed = replace(record, key=encode_marker(result, 0)[0])
        every[at] = replace(batch, records=(changed,))
    elif random.random() < 0.5:
        every[at] = replace(batch, producer_id=batch.producer_id + 1_000_000)
    else:
        every[at] = replace(batch, producer_epoch=-1)
    files[name] = b"".join(map(encode_batch, every))
    return True


def _bytes(random: Random, files: Files, name: str) -> bool | None:
    files[name] = mutated(random, files[name])
    return False


DAMAGE: tuple[Damage, ...] = (
    _lose_batches,
    _lose_batches,
    _reorder,
    _lose_record,
    _lose_file,
    _lose_folder,
    _rename,
    _add_suffix,
    _add_index,
    _entries,
    _entries,
    _index_entries,
    _other_header,
    _bytes,
)


# Directories that aren't explained, by a folder that no damage touches.
def _contradiction(broker: _Broker) -> Files:
    leader = PartitionLeader(verification=False)
    leader.append(producer_id=6000, producer_epoch=0, base_sequence=0, count=1)
    (batch,) = leader.batches
    twice = [batch, batch._replace(base_offset=1, last_offset=1)]
    data = b"".join(encode_batch(broker._stored(each)) for each in twice)  # pyright: ignore[reportPrivateUsage]
    return {_path("others-0", 0, "log"): data}


def _unjudged(_: _Broker) -> Files:
    return {_path("others-0", 0, "log"): b"", f"{DATA}/others-0/x.snapshot": b""}


def generate(random: Random) -> Case:
    """Directories, and what their verdict may be."""
    broker = _Broker(random)
    for _ in range(random.choice((5, 20, 60))):
        broker.step()
    files = broker.files()
    words = ("judge", "--segments", DATA, "--cleanup-policy", "delete")
    case = partial(Case, words, many_lines=True)
    names = sorted(files)
    match random.randrange(6):
        case 0:
            return case(files, exactly=0)
        case 1:
            more, bound = _contradiction(broker), 12
        case 2:
            more, bound = _unjudged(broker), 20
        case _:
            more, bound = Files(), 0
    times, noticed = random.choice((1, 1, 2, 4)) if bound else 1, None
    for _ in range(times):
        for damage in random.sample(DAMAGE, len(DAMAGE)):
            name = random.choice(names)
            with suppress(RecordError):  # damaged already
                noticed = damage(random, files, name) if name in files else None
            if noticed is not None:
                break
    return case({**files, **more}, bound=bound or (20 if noticed else 0))


SURFACE = Surface("segments", generate, weight=2, seconds=20)
