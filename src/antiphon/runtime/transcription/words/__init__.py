"""Times of words."""
