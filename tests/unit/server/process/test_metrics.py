"""Metrics of the server in the Prometheus text format."""

from anygpu.server.process.metrics import ServerMetrics, prometheus_text


def test_a_report_is_counted_in_its_bucket_and_those_above() -> None:
    metrics = ServerMetrics()
    metrics.record_report(points=3, log_bytes=100, seconds=0.004)
    metrics.record_report(points=1, log_bytes=0, seconds=9.0)
    lines = prometheus_text(metrics, {"running": 2}, live_attempts=2, followers=1).splitlines()
    assert 'anygpu_jobs{status="running"} 2' in lines
    assert "anygpu_metric_points_total 4" in lines
    assert 'anygpu_report_commit_seconds_bucket{le="0.0025"} 0' in lines
    assert 'anygpu_report_commit_seconds_bucket{le="0.005"} 1' in lines
    assert 'anygpu_report_commit_seconds_bucket{le="+Inf"} 2' in lines
    assert "anygpu_report_commit_seconds_count 2" in lines
