"""Batches have an order that depends only on seed, epoch and step."""

from anygpu.trainers.torch.sampling import BatchSampler


def test_batches_from_the_middle_of_an_epoch_are_those_of_the_whole_epoch() -> None:
    batches = BatchSampler(50, 8, seed=3)
    batches.start(2, 0)
    whole = list(batches)
    assert sorted(index for batch in whole for _, index in batch) == list(range(50))
    for step in range(7):
        batches.start(2, step)
        assert (list(batches), len(batches)) == (whole[step:], 7 - step)


def test_each_epoch_and_each_seed_has_an_order_of_its_own() -> None:
    orders = set()
    for seed, epoch in ((0, 0), (0, 1), (1, 0)):
        batches = BatchSampler(50, 50, seed)
        batches.start(epoch, 0)
        orders.add(tuple(index for _, index in next(iter(batches))))
    assert len(orders) == 3
