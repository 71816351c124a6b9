"""Lines of a terminal."""

from epochfence.checker.output.lines import wrapped


def test_a_number_stays_with_what_it_counts() -> None:
    text = "162 states, 123 MiB; compiled in 9.11 s, broken at step 6 of 9"
    for width in range(12, 80):
        lines = wrapped(text, width)
        assert " ".join(lines) == text
        assert not any(line.endswith(("162", "123", "9.11", "step")) for line in lines)


def test_a_word_stays_whole() -> None:
    assert wrapped("a InitProducerIdResponse", 10, "  ", "    ") == [
        "  a",
        "    InitProducerIdResponse",
    ]
