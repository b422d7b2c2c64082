"""What settings cost and gain: quality, speed and memory of each, beside the first."""
