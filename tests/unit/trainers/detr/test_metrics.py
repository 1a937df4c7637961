"""Mean average precision against cases small enough to count by hand."""

from typing import Any

import numpy as np
import pytest

from anygpu.trainers.detr.metrics import ImageDetections, ImageTruth, mean_average_precision, overlaps

HERE, THERE = (0, 0, 10, 10), (20, 20, 40, 40)


def truth(*boxes: Any, labels: Any = None) -> ImageTruth:
    return ImageTruth(np.array(boxes, float).reshape(-1, 4), np.array(labels or [0] * len(boxes), int))


def found(*boxes: Any, scores: Any, labels: Any = None) -> ImageDetections:
    return ImageDetections(
        np.array(boxes, float).reshape(-1, 4),
        np.array(scores, float),
        np.array(labels or [0] * len(boxes), int),
    )


def test_boxes_that_share_half_have_an_overlap_of_a_third() -> None:
    assert overlaps([HERE], [(5, 0, 15, 10), (0, 0, 10, 10), (50, 50, 60, 60)])[0] == pytest.approx(
        [1 / 3, 1, 0]
    )


def test_a_box_without_an_area_overlaps_nothing() -> None:
    assert overlaps([(5, 5, 5, 5)], [(5, 5, 5, 5)])[0, 0] == 0


def test_finding_everything_exactly_is_a_score_of_one() -> None:
    scores = mean_average_precision([found(HERE, THERE, scores=[0.9, 0.8])], [truth(HERE, THERE)])
    assert scores == {"mAP50": 1.0, "mAP50-95": 1.0}


def test_finding_nothing_is_a_score_of_zero() -> None:
    assert mean_average_precision([found(scores=[])], [truth(HERE)]) == {"mAP50": 0.0, "mAP50-95": 0.0}


def test_images_without_any_true_box_have_no_score() -> None:
    assert mean_average_precision([found(HERE, scores=[0.9])], [truth()]) == {"mAP50": 0.0, "mAP50-95": 0.0}


def test_one_of_two_boxes_found_is_worth_the_recalls_up_to_a_half() -> None:
    scores = mean_average_precision([found(HERE, scores=[0.9])], [truth(HERE, THERE)])
    assert scores["mAP50"] == pytest.approx(51 / 101)  # the points 0.00, 0.01 ... 0.50


def test_a_false_alarm_costs_only_when_it_is_surer_than_a_hit() -> None:
    wrong = (60, 60, 70, 70)
    before = mean_average_precision([found(wrong, HERE, scores=[0.9, 0.8])], [truth(HERE)])
    after = mean_average_precision([found(wrong, HERE, scores=[0.7, 0.8])], [truth(HERE)])
    assert (before["mAP50"], after["mAP50"]) == (0.5, 1.0)


def test_the_second_detection_of_one_box_is_a_false_alarm() -> None:
    twice = found(HERE, HERE, THERE, scores=[0.9, 0.8, 0.7])
    # Precisions 1, 1/2, 2/3; recalls 1/2, 1/2, 1: 51 points at 1 and 50 at 2/3.
    expected = (51 + 50 * 2 / 3) / 101
    assert mean_average_precision([twice], [truth(HERE, THERE)])["mAP50"] == pytest.approx(expected)


def test_a_box_a_little_off_counts_up_to_the_threshold_it_reaches() -> None:
    off = (0, 0, 10, 7.2)  # covers 0.72 of it: passes 0.50 to 0.70, five of ten
    assert mean_average_precision([found(off, scores=[0.9])], [truth(HERE)]) == {
        "mAP50": 1.0,
        "mAP50-95": 0.5,
    }


def test_a_box_exactly_at_the_threshold_counts() -> None:
    assert mean_average_precision([found((0, 0, 10, 5), scores=[1.0])], [truth(HERE)])["mAP50"] == 1.0


def test_the_right_box_with_the_wrong_class_counts_for_neither() -> None:
    scores = mean_average_precision(
        [found(HERE, THERE, scores=[0.9, 0.9], labels=[0, 0])], [truth(HERE, THERE, labels=[0, 1])]
    )
    assert scores["mAP50"] == 0.5  # class 0 found before anything wrong; class 1 not found


def test_how_sure_a_model_is_compares_across_images() -> None:
    images = [found((60, 60, 70, 70), scores=[0.9]), found(HERE, scores=[0.5])]
    assert mean_average_precision(images, [truth(), truth(HERE)])["mAP50"] == 0.5


def test_a_crowded_image_counts_its_hundred_surest() -> None:
    many = [(60, 60, 70, 70)] * 100 + [HERE]
    scores = mean_average_precision([found(*many, scores=[0.9] * 100 + [0.1])], [truth(HERE)])
    assert scores["mAP50"] == 0.0


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="the detections are for 1 images, but the true boxes for 0"):
        mean_average_precision([found(scores=[])], [])
