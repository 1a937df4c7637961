"""The loops that turn asked into done: submit, place, keep, sweep. Time and chance come in as arguments."""
