"""What the fuzz harnesses share: workers with limits, nasty matrices, the truth, damaged files and other bad input."""
