"""Operations on frames of sound: kernels for the norms, cuDNN for convolutions."""
