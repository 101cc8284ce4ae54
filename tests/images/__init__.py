"""Image fixtures: a real Debian root and images on it, made once and kept outside the clone."""
