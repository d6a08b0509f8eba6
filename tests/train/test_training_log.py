from keras_transformer.train.training_log import CSVLog, read_log


def write(path, step, *rows):
    log = CSVLog(path, step)
    for row in rows:
        log.on_epoch_end(0, row)


def test_rows_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "log.csv"
    assert read_log(path) == []
    write(path, 0, {"step": 2, "loss": 1.5, "other": 7.0}, {"step": 4})
    assert read_log(path) == [{"step": 2, "loss": 1.5}, {"step": 4}]
    header, first, _ = path.read_text().splitlines()
    assert header.startswith("step,loss,nll,perplexity,learning_rate")
    assert first.startswith("2,1.5,")


def test_a_resumed_run_drops_the_rows_after_its_state(tmp_path):
    path = tmp_path / "log.csv"
    write(path, 0, {"step": 2, "loss": 1.0}, {"step": 4, "loss": 2.0})
    write(path, 2, {"step": 4, "loss": 3.0})
    assert [(r["step"], r["loss"]) for r in read_log(path)] == [(2, 1), (4, 3)]
