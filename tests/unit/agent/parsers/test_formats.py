"""The shapes read, a line or a few each: what points they give and where they say the run is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

LINES = [
    ("Epoch: 3/10 loss=0.21 acc: 0.9", [("loss", 3, 0.21), ("acc", 3, 0.9)]),
    ("Epoch 3/10 - loss: 0.5 - val_loss: 0.25", [("loss", 3, 0.5), ("val_loss", 3, 0.25)]),
    ("Epoch 3 of 10, loss=1e-3", [("loss", 3, 0.001)]),
    ("EPOCH 3 | Train Loss: 0.5 | LR: 1e-4", [("train_loss", 3, 0.5), ("lr", 3, 0.0001)]),
    ("epoch=3 step=100 loss=0.2", [("loss", 100, 0.2)]),
    ("step: 100, loss: 0.2, lr: 0.001", [("loss", 100, 0.2), ("lr", 100, 0.001)]),
    ("global_step=100 reward=-1.5", [("reward", 100, -1.5)]),
    ("Iteration 5, loss = 0.73624701", [("loss", 5, 0.73624701)]),
    ("Epoch [3/10], Step [100/600], Loss: 0.25", [("loss", 1300, 0.25)]),
    ("Train Epoch: 2 [640/60000 (1%)]\tLoss: 2.300039", [("loss", 60640, 2.300039)]),
    ("[2024-01-01 12:00:00] [INFO] [train.py:30] epoch 3 loss=0.2", [("loss", 3, 0.2)]),
    ("2024-01-01 12:00:00,123 INFO trainer: Epoch 3/10 loss=0.2", [("loss", 3, 0.2)]),
    ('{"epoch": 3, "loss": 0.25}', [("loss", 3, 0.25)]),
    ("epoch 3 loss: tensor(0.2500, grad_fn=<NllLossBackward0>)", [("loss", 3, 0.25)]),
    ("Epoch 3/10 acc: 93.2%", [("acc", 3, 93.2)]),
    ("Epoch 3/10 time: 12.5s loss: 0.2 eta: 0:03:10 pid=7", [("loss", 3, 0.2)]),
    (
        "Epoch 3/10 train loss: 0.2 acc: 0.9 | val loss: 0.3 acc: 0.8 lr: 0.1",
        [("train_loss", 3, 0.2), ("train_acc", 3, 0.9), ("val_loss", 3, 0.3), ("val_acc", 3, 0.8), ("lr", 3, 0.1)],
    ),
    ("train Loss: 0.5 Acc: 0.7", [("train_loss", 1, 0.5), ("train_acc", 1, 0.7)]),
    ("val_loss=0.3, val_acc=0.9", [("val_loss", 1, 0.3), ("val_acc", 1, 0.9)]),
    ("eta: 0:10:00  iter: 19  total_loss: 1.25  loss_cls: 0.5  time: 0.5  lr: 0.001  max_mem: 2000M",
     [("total_loss", 19, 1.25), ("loss_cls", 19, 0.5), ("lr", 19, 0.001)]),
    ("step 100: train loss 2.5, val loss 2.6", [("train_loss", 100, 2.5), ("val_loss", 100, 2.6)]),
    ("iter 10: loss 2.4, time 30.12ms, mfu 1.25%", [("loss", 10, 2.4), ("mfu", 10, 1.25)]),
    ("step    5/18865 | loss 10.9 (+nanz)| norm 15.3 (+nanz)| lr 1.4e-06 | 300.00 ms | 123 tok/s",
     [("loss", 5, 10.9), ("norm", 5, 15.3), ("lr", 5, 1.4e-06)]),
    ("step:10/1390 val_loss:10.8258 train_time:30ms step_avg:3.1ms", [("val_loss", 10, 10.8258)]),
    (" iteration 10/ 500 | consumed samples: 2560 | learning rate: 1.0E-04 | batch size: 256 | lm loss: 9.5E+00 |",
     [("learning_rate", 10, 0.0001), ("lm_loss", 10, 9.5)]),
    ("| epoch   1 |   200/ 2983 batches | lr 5.00 | ms/batch 10.1 | loss  7.63 | ppl  2059.98",
     [("lr", 200, 5.0), ("loss", 200, 7.63), ("ppl", 200, 2059.98)]),
    ("Epoch 1: loss 0.5, accuracy 0.25", [("loss", 1, 0.5), ("accuracy", 1, 0.25)]),
    ("[epoch 1, batch 2000] loss: 2.2", [("loss", 2000, 2.2)]),
    ("[1,  2000] loss: 2.201", [("loss", 2000, 2.201)]),
    ("Epoch(train)  [2][ 50/100]  lr: 1.0e-02  eta: 0:00:10  data_time: 0.02  loss: 0.5",
     [("lr", 150, 0.01), ("loss", 150, 0.5)]),
    ("[12]\ttrain-rmse:0.1\teval-rmse:0.2", [("train-rmse", 12, 0.1), ("eval-rmse", 12, 0.2)]),
    ("[12:30:11] [12]\ttrain-rmse:0.1", [("train-rmse", 12, 0.1)]),
    ("[3]\ttrain-rmse:0.1+0.01\ttest-rmse:0.2+0.02", [("train-rmse", 3, 0.1), ("test-rmse", 3, 0.2)]),
    ("[10]\tvalid_0's l2: 0.24\tvalid_0's auc: 0.76", [("valid_0-l2", 10, 0.24), ("valid_0-auc", 10, 0.76)]),
    ("[10]\tcv_agg's valid auc: 0.94 + 0.01", [("cv_agg-valid_auc", 10, 0.94)]),
    ("Test set: Average loss: 0.05, Accuracy: 983/1000 (98%)", [("test_loss", 1, 0.05), ("test_accuracy", 1, 0.983)]),
    ("Epoch: [1][  10/5005]\tTime  0.5 ( 0.6)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.25 (  0.10)",
     [("loss", 10, 6.9), ("acc@1", 10, 0.25)]),
    ("Iteration 3, inertia 62.75.", [("inertia", 3, 62.75)]),
    ("50%|█████     | 10/20 [00:01<00:01, 9.9it/s, loss=0.5, lr=1e-5]", [("loss", 10, 0.5), ("lr", 10, 1e-05)]),
    ("10it [00:01, 9.9it/s, loss=0.5]", [("loss", 10, 0.5)]),
    ("train:  50%|#####     | 10/20 [00:01<00:01,  1.20s/it, train loss=0.5]", [("train_loss", 10, 0.5)]),
    ("Epoch 3:  50%|█████     | 469/938 [00:05<00:05, 92.1it/s, v_num=0, train_loss=0.2]", [("train_loss", 3283, 0.2)]),
    ("{'loss': 0.5, 'grad_norm': 1.5, 'learning_rate': 5e-05, 'epoch': 1.0}",
     [("loss", 1, 0.5), ("grad_norm", 1, 1.5), ("learning_rate", 1, 5e-05)]),
    ("{'eval_loss': '0.25', 'epoch': '1'}", [("eval_loss", 1, 0.25)]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_line_gives_its_points(
    line: str, expected: list[tuple[str, int, float]], points_of: Callable[..., Any]
) -> None:
    assert points_of(line + "\n") == expected


PLACES = [
    ("Epoch 3/10", {"fraction": 0.2, "epoch": 2, "epochs": 10}),
    ("===== Epoch 3/10 =====", {"fraction": 0.2, "epoch": 2, "epochs": 10}),
    ("Finished epoch 3/10", {"fraction": 0.3, "epoch": 3, "epochs": 10}),
    ("Epoch 3/10 loss=0.2", {"fraction": 0.3, "epoch": 3, "epochs": 10}),
    ("Epoch 0/10 loss=0.2", {"fraction": 0.1, "epoch": 1, "epochs": 10}),
    ("Epoch 0/24\nEpoch 24/24", {"fraction": 0.96, "epoch": 24, "epochs": 25}),
    ("Epoch 3/10 batch 50/100 loss=0.2", {"fraction": 0.25, "step": 250, "steps": 1000, "epoch": 2, "epochs": 10}),
    ("step 50/200: loss=0.5", {"fraction": 0.25, "step": 50, "steps": 200}),
    ("Epoch 3:  50%|█████     | 469/938 [00:05<00:05, 92.1it/s, v_num=0]", {"step": 3283, "epoch": 3}),
    (" 25%|██▌       | 5/20 [00:01<00:03, 4.9it/s]", {"fraction": 0.25, "step": 5, "steps": 20}),
    ("Epochs:  30%|███       | 3/10 [00:01<00:03, 4.9it/s]", {"fraction": 0.3, "epoch": 3, "epochs": 10}),
]  # fmt: skip


@pytest.mark.parametrize(("output", "expected"), PLACES)
def test_a_line_says_where_the_run_is(
    output: str, expected: dict[str, object], progress_of: Callable[..., Any]
) -> None:
    assert progress_of(output + "\n") == expected


def test_a_json_line_gives_all_its_document_says(readings_of: Callable[..., Any]) -> None:
    line = (
        '{"type":"progress","data":{"epoch":5,"total_epochs":10,"progress":0.5,'
        '"metrics":{"loss":0.234,"mAP":0.85},"status":"training"}}'
    )
    assert readings_of(line + "\n") == [
        ("points", [("loss", 5, 1.0, 0.234), ("mAP", 5, 1.0, 0.85)]),
        ("progress", {"fraction": 0.5, "epoch": 5, "epochs": 10, "message": "training"}),
    ]


def test_json_metrics_that_are_no_numbers_are_left_out(points_of: Callable[..., Any]) -> None:
    line = '{"type":"progress","data":{"step":7,"metrics":{"a":true,"b":null,"c":"x","d":[1],"loss":"0.5"}}}'
    assert points_of(line) == [("loss", 7, 0.5)]


@pytest.mark.parametrize("printed", ["nan", "NaN", "-inf", "inf", "Infinity"])
def test_nan_and_infinity_are_values(printed: str, points_of: Callable[..., Any]) -> None:
    ((name, step, value),) = points_of(f"Epoch 3/10 loss={printed}\n")
    assert (name, step) == ("loss", 3)
    assert math.isnan(value) or value == float(printed)


def test_nan_from_every_family_is_a_value(points_of: Callable[..., Any]) -> None:
    lines = [
        '{"type":"progress","data":{"step":1,"metrics":{"loss":NaN}}}',
        "{'loss': 'nan', 'epoch': '1'}",
        "[1]\ttrain-rmse:nan",
        "50%|█| 1/2 [00:01<00:01, 9.9it/s, loss=nan]",
        "iter 1: loss nan, time 3ms",
        "loss: nan",
    ]
    assert [[math.isnan(value) for _, _, value in points_of(line)] for line in lines] == [[True]] * len(lines)


def test_keras_2_bars_are_read(points_of: Callable[..., Any], progress_of: Callable[..., Any]) -> None:
    output = (
        "Epoch 2/5\n"
        " 50/100 [=========>....................] - ETA: 7s - loss: 0.5000 - accuracy: 0.7000\r"
        "100/100 [==============================] - 10s 6ms/step - loss: 0.4000 - accuracy: 0.8000 - val_loss: 0.6000\n"
    )
    assert points_of(output) == [
        ("loss", 150, 0.5), ("accuracy", 150, 0.7),
        ("loss", 200, 0.4), ("accuracy", 200, 0.8), ("val_loss", 200, 0.6),
    ]  # fmt: skip
    assert progress_of(output) == {"fraction": 0.4, "step": 200, "steps": 500, "epoch": 2, "epochs": 5}


def test_ultralytics_with_tqdm_bars_and_masks_is_read(points_of: Callable[..., Any]) -> None:
    output = (
        "      Epoch    GPU_mem   box_loss   seg_loss  Instances       Size\n"
        "\r       1/10       0.5G      1.234      2.345         12        640:  50%|█████     | 4/8 [00:01<00:01]"
        "\r       1/10       0.5G      1.134      2.245         12        640: 100%|██████████| 8/8 [00:02<00:00]\n"
        "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95)"
        "     Mask(P          R      mAP50  mAP50-95): 100%|██████████| 4/4 [00:01<00:00]\n"
        "                   all        128        929       0.64      0.537      0.605      0.446"
        "      0.5        0.4        0.3        0.2\n"
    )
    assert points_of(output) == [
        ("train/box_loss", 1, 1.134), ("train/seg_loss", 1, 2.245),
        ("metrics/precision(B)", 1, 0.64), ("metrics/recall(B)", 1, 0.537),
        ("metrics/mAP50(B)", 1, 0.605), ("metrics/mAP50-95(B)", 1, 0.446),
        ("metrics/precision(M)", 1, 0.5), ("metrics/recall(M)", 1, 0.4),
        ("metrics/mAP50(M)", 1, 0.3), ("metrics/mAP50-95(M)", 1, 0.2),
    ]  # fmt: skip


def test_a_validation_bar_gives_its_last_values_and_no_progress(readings_of: Callable[..., Any]) -> None:
    output = (
        "Validating:  50%|█████     | 5/10 [00:00<00:00, 10.0it/s, loss=0.9]\r"
        "Validating: 100%|██████████| 10/10 [00:00<00:00, 10.0it/s, loss=0.5]\n"
    )
    assert readings_of(output) == [("points", [("val_loss", 1, 1.0, 0.5)])]


def test_a_bar_that_starts_again_goes_on_counting(points_of: Callable[..., Any]) -> None:
    one = "".join(f"\r {n}0%|##| {n}/10 [00:01<00:01, 9.9it/s, loss=0.{n}]" for n in (5, 9))
    assert [step for _, step, _ in points_of(one + "\n" + one + "\n")] == [5, 9, 15, 19]


def test_a_bar_inside_another_tells_its_part_of_the_whole(progress_of: Callable[..., Any]) -> None:
    outer, inner = (
        "\r  0%|  | 1/4 [00:01<00:01, 9.9it/s]\n",
        "\r 50%|##| 5/10 [00:01<00:01, 9.9it/s, loss=0.5]\x1b[A",
    )
    assert progress_of(outer + inner) == {"fraction": 0.375, "step": 5}


def test_a_bar_of_a_million_steps_gives_a_thousand_points(points_of: Callable[..., Any]) -> None:
    output = "".join(
        f"\r{n // 10000}%|##| {n}/1000000 [00:01<00:01, 9.9it/s, loss={n}]" for n in range(0, 1000001, 100)
    )
    assert 900 <= len(points_of(output)) <= 1001


def test_a_message_glued_to_a_bar_spoils_neither(points_of: Callable[..., Any]) -> None:
    bar = "50%|##| 5/10 [00:01<00:01, 9.9it/s, loss=0.5]"
    assert points_of(f"{bar}Epoch 3/10 val_loss=0.25\n") == [("loss", 5, 0.5), ("val_loss", 5, 0.25)]


def test_a_bar_cut_by_a_narrow_terminal_gives_no_half_number(points_of: Callable[..., Any]) -> None:
    assert points_of("50%|##| 5/10 [00:01<00:01, 9.9it/s, loss=0.12\n") == []


def test_the_quickstart_of_pytorch_is_read(points_of: Callable[..., Any]) -> None:
    epoch = "Epoch {}\n----------\nloss: 2.25  [   64/60000]\nTest Error: \n Accuracy: {}%, Avg loss: 2.5 \n"
    assert points_of(epoch.format(1, 44.5) + epoch.format(2, 55.5)) == [
        ("loss", 64, 2.25), ("accuracy", 64, 44.5), ("avg_loss", 64, 2.5),
        ("loss", 60064, 2.25), ("accuracy", 60064, 55.5), ("avg_loss", 60064, 2.5),
    ]  # fmt: skip


def test_a_header_without_values_places_the_lines_under_it(points_of: Callable[..., Any]) -> None:
    output = (
        "Epoch 0/2\n----------\ntrain Loss: 0.5 Acc: 0.7\nEpoch 1/2\n----------\nval Loss: 0.4 Acc: 0.8\n"
    )
    assert points_of(output) == [
        ("train_loss", 0, 0.5),
        ("train_acc", 0, 0.7),
        ("val_loss", 1, 0.4),
        ("val_acc", 1, 0.8),
    ]


def test_points_without_a_step_are_counted(points_of: Callable[..., Any]) -> None:
    assert points_of("loss: 0.5\nloss: 0.4\n") == [("loss", 1, 0.5), ("loss", 2, 0.4)]


def test_an_epochs_summary_lies_on_the_axis_of_its_batches(points_of: Callable[..., Any]) -> None:
    output = "Epoch 1/2\n 100%|##| 10/10 [00:01<00:00, 9.9it/s, loss=0.5]\nEpoch 1/2 val_loss=0.3\n"
    assert points_of(output) == [("loss", 10, 0.5), ("val_loss", 10, 0.3)]
