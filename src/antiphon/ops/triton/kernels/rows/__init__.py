"""Operations on rows of activations, and the rows of running requests."""
