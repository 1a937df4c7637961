"""Templates of scripts are filled with Python source or plain text."""

import ast

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.scripts.templates import PROGRESS, fill, settings_of


def test_values_become_python_source_and_marked_ones_plain_text() -> None:
    template = "SETTINGS = {SETTINGS}\n# {TITLE!t}\nempty = {{}}\n"
    text = fill(template, SETTINGS={"name": "it's", "epochs": 3}, TITLE="a title")
    assert text == "SETTINGS = {'name': \"it's\", 'epochs': 3}\n# a title\nempty = {}\n"


def test_no_value_can_become_code() -> None:
    hostile = '\'); import os; os.abort() #\n"""'
    (assignment,) = ast.parse(fill("x = {X}", X=[hostile])).body
    assert isinstance(assignment, ast.Assign)
    assert ast.literal_eval(assignment.value) == [hostile]


def test_settings_are_those_that_differ_from_their_defaults_with_the_options() -> None:
    assert settings_of(TrainingConfig()) == {}
    config = TrainingConfig(epochs=7, options={"depth": 4})
    assert settings_of(config) == {"epochs": 7, "depth": 4}


def test_the_progress_function_is_valid_python() -> None:
    assert isinstance(ast.parse(PROGRESS).body[0], ast.FunctionDef)
