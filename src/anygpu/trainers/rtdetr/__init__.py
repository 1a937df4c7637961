"""RT-DETR: Baidu's detection transformer, implemented by transformers (Apache-2.0)."""
