"""A task group of capture, job and commit, expanded over tables, of which single instances are cleared."""

TABLES = ("one", "two", "three")


def test_one_instance_is_cleared_before_and_after_the_commit(story):
    """It alone captures again, its own range; nothing moves for the others, and no row comes twice."""
    mapped = story("mapped")
    for number, name in enumerate(TABLES):
        mapped.lake.create(f"db.{name}_target")
        mapped.lake.create(f"db.{name}", [number])
    mapped.fail("gate")
    run, states = mapped.run()
    assert {states[f"etl.gate[{index}]"] for index in range(3)} == {"failed"}
    assert {states[f"etl.commit[{index}]"] for index in range(3)} == {"upstream_failed"}
    for name in TABLES:
        mapped.lake.append(f"db.{name}", [10])

    ids = _capture_ids(mapped, run)
    assert _clear(mapped, run, ["etl.capture", 1], ["etl.work", 1]) == (ids, ["1", "2", "1"])
    assert [_committed(mapped, name) for name in TABLES] == [None] * 3
    mapped.release("gate")
    mapped.rest.clear("mapped", run, "etl.gate", downstream=True)
    assert set(mapped.finish(run).values()) == {"success"}
    assert _outcomes(mapped, run) == ["advanced"] * 3
    committed = [_committed(mapped, name) for name in TABLES]

    assert _clear(mapped, run, ["etl.capture", 1], ["etl.work", 1], "etl.gate", "etl.commit") == (ids, ["1", "3", "1"])
    assert _outcomes(mapped, run) == ["already_done", "replayed", "already_done"]
    assert [_committed(mapped, name) for name in TABLES] == committed
    assert [mapped.lake.rows(f"db.{name}_target") for name in TABLES] == [[0], [1], [2]]

    mapped.run()
    assert [mapped.lake.rows(f"db.{name}_target") for name in TABLES] == [[0, 10], [1, 10], [2, 10]]
    assert [_committed(mapped, name) for name in TABLES] == [mapped.lake.head(f"db.{name}") for name in TABLES]


def _clear(mapped, run, *tasks):
    """Clear instances, and tell what each has captured since and at which try."""
    mapped.rest.clear("mapped", run, *tasks)
    mapped.finish(run)
    tries = [str(mapped.rest.tasks("mapped", run)[f"etl.capture[{index}]"]["try_number"]) for index in range(3)]
    return _capture_ids(mapped, run), tries


def _capture_ids(mapped, run):
    return [mapped.rest.xcom("mapped", run, "etl.capture", "capture_id", map_index=index) for index in range(3)]


def _outcomes(mapped, run):
    return [mapped.rest.xcom("mapped", run, "etl.commit", "commit", map_index=index)["outcome"] for index in range(3)]


def _committed(mapped, name):
    return mapped.committed(f"mapped.etl.capture.db.{name}", f"db.{name}")
