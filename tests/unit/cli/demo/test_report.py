from dataclasses import replace

from anygpu.cli.demo.report import DemoReport


def test_the_demo_passes_only_if_every_check_passes() -> None:
    good = DemoReport(
        status="completed",
        accuracy=0.98,
        noticed_at_epoch=42,
        resumed_from_epoch=44,
        work_lost_s=0.4,
        recovery_s=2.0,
        points_lost=0,
        model_bytes=10,
        epochs=80,
        ledger_microusd=12_000,
        meter_microusd=12_000,
        machines_left=0,
    )
    good.add_machine("anygpu-1-1", {"backend": "aws", "name": "g4dn.xlarge", "interruptible": True})
    good.add_machine("anygpu-1-2", {"backend": "lambda", "name": "gpu_1x_a10"})
    assert good.failed_checks() == []
    assert "98.0 %" in good.text()
    assert "aws g4dn.xlarge spot, then lambda gpu_1x_a10" in good.text()
    assert replace(good, meter_microusd=12_001).failed_checks() == [
        "anygpu counted 12000 micro-dollars, the providers charged 12001"
    ]
    assert len(DemoReport().failed_checks()) == 10
