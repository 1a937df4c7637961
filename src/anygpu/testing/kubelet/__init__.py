"""A small kubelet for tests against a real Kubernetes control plane. It runs containers' commands as processes."""
