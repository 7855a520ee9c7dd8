"""What the fuzz harnesses share: workers with limits, nasty matrices, the truth in extended precision, damaged inputs."""
