from anygpu.suggest import closest_name, did_you_mean, suggestion

NAMES = ["gpu", "memory", "max_machines"]


def test_a_misspelt_name_finds_the_most_similar_one() -> None:
    assert closest_name("memroy", NAMES) == "memory"


def test_the_start_of_a_name_is_enough() -> None:
    assert closest_name("max", NAMES) == "max_machines"


def test_a_word_unlike_every_name_has_no_suggestion() -> None:
    assert closest_name("tokenizer", NAMES) == ""
    assert did_you_mean("tokenizer", NAMES) == ""
    assert suggestion("tokenizer", NAMES, "Known: gpu.") == "Known: gpu."


def test_the_suggestion_is_a_clause_or_a_sentence() -> None:
    assert did_you_mean("gpus", NAMES) == "did you mean 'gpu'?"
    assert suggestion("gpus", NAMES) == "Did you mean 'gpu'?"
